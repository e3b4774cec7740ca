"""Marks of the sections about authorization, which have other pages in the newest revision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeVar

import pytest

__all__ = ["shows"]

_EARLIER: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
_Test = TypeVar("_Test", bound=Callable[..., object])
_Page = Literal["index", "authorization-server-discovery", "security-considerations"]


def shows(section: str, page: _Page | None = "index", *, earlier: bool = True) -> Callable[[_Test], _Test]:
    """Mark a test that shows a section.

    Args:
        section: Its title.
        page: Its page in 2026-07-28; `None` if it is not there.
        earlier: Whether an earlier revision has it.
    """

    def mark(test: _Test) -> _Test:
        if page is not None:
            test = pytest.mark.spec(f"basic/authorization/{page}", section, revisions="2026-07-28")(test)
        if earlier:
            test = pytest.mark.spec("basic/authorization", section, revisions=_EARLIER)(test)
        return test

    return mark
