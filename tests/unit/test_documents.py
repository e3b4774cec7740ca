"""What the documents say is so: their code runs and prints what is written below it, their links lead somewhere.

The Python blocks of a page are run in order, in one module, inside Trio; they may await. A block that calls
`trio.run` is a program of its own. A block that begins with a file's name in a comment is also saved under it,
where the blocks after it find it. A `text` block right after one is what that prints. A block in a comment is not seen
by readers; a process that it starts, and keeps in a name, ends with the page.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import Final

import pytest
from places import ROOT
from shared.documents import _FENCED, PAGES, blocks_of

import trio_mcp


def test_blocks_are_found() -> None:
    """A test that reads nothing proves nothing."""
    text = "# A\n\n```python\na = 1\n```\n\n```text\n1\n```\n\n```python\n# b.py\nb\n```\nsays\n```text\n2\n```\n```sh\nc\n```\n"
    first, second = blocks_of(text)
    assert (first.line, first.code, first.printed, first.file_name) == (4, "a = 1\n", "1\n", None)
    assert (second.line, second.printed, second.file_name) == (12, None, "b.py")


def test_links_lead_somewhere(subtests: pytest.Subtests) -> None:
    """To a file that exists, and to a heading that it has."""
    assert len(PAGES) > 30
    for page in PAGES:
        with subtests.test(page=page):
            for target in re.findall(r"\]\(([^)\s]+)\)", _FENCED.sub("", page.read_text(encoding="utf-8"))):
                if "://" in target:
                    continue
                name, _, heading = target.partition("#")
                other = page.parent / name if name else page
                assert other.exists(), f"{page.name}: {target}"
                if heading:
                    titles = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE)
                    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
                    assert heading in slugs, f"{page.name}: {target}"


_NAMES: Final = re.compile(
    r"`(?:trio_mcp\.)?((?:Server|Client|Context|Limits|types|NotificationContext)\.\w+)(?:\(.*?\))?`"
)


def test_names_exist(subtests: pytest.Subtests) -> None:
    """What a page calls by its name is there under this name."""
    for page in PAGES:
        with subtests.test(page=page):
            for name in _NAMES.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
                owner, member = name.split(".")
                found = getattr(trio_mcp, owner)
                assert hasattr(found, member) or member in getattr(found, "__annotations__", {}), (
                    f"{page.name}: {name}"
                )


_DRAWN: Final = sorted(path.parent.name for path in (ROOT / "trio_mcp").glob("_*/__init__.py"))
"""The floors, whose modules are drawn one by one."""


def test_the_floors_are_seen_at_a_glance() -> None:
    """A page that is read by everybody who comes here stays short; how things run has a page of its own."""
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_picture_shows_every_module(subtests: pytest.Subtests) -> None:
    """A reader who looks for a module finds it in the picture of the floors, and what is in the picture is there."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = next(found[2] for found in _FENCED.finditer(text) if not found[1])
    assert len(_DRAWN) > 10
    for floor in _DRAWN:
        with subtests.test(floor=floor):
            (section,) = [
                part
                for part in re.split(r"^(?= \w)", picture, flags=re.MULTILINE)
                if part.startswith(f" {floor}/")
            ]
            rows = re.findall(r"^   (_[\w*]+(?:, _[\w*]+)*)", section, re.MULTILINE)
            drawn = [name for row in rows for name in row.split(", ")]
            modules = {path.stem for path in (ROOT / "trio_mcp" / floor).glob("_[a-z]*.py")}
            assert {module for module in modules if not any(fnmatch(module, name) for name in drawn)} == set()
            assert {name for name in drawn if not any(fnmatch(module, name) for module in modules)} == set()
