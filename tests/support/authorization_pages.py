"""Marks for tests of authorization, whose pages have moved: one page until 2025-11-25, several since."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TypeVar

import pytest
from places import DATA

_PAGES: Final = json.loads((DATA / "protocol" / "sections.json").read_text())
_AUTHORIZATION: Final = "basic/authorization"
REVISIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

_Test = TypeVar("_Test", bound=Callable[..., object])


def shows(*sections: str) -> Callable[[_Test], _Test]:
    """Mark a test with sections of authorization, on every page that has them, in every revision that has it."""

    def mark(test: _Test) -> _Test:
        for section in sections:
            pages = [page for page in _PAGES if page.startswith(_AUTHORIZATION) and section in _PAGES[page]]
            assert pages, f"no page has a section {section!r}"
            for page in pages:
                test = pytest.mark.spec(page, section, revisions=REVISIONS)(test)
        return test

    return mark
