"""What the tests of documents share in several layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Final

import attrs
from places import ROOT

PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])

_FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Block:
    """A piece of Python on a page.

    Attributes:
        line: The number of its first line.
        code: What is to be run.
        printed: What it says that it prints; `None` if it does not say.
    """

    line: int
    code: str
    printed: str | None

    @property
    def file_name(self) -> str | None:
        """The name under which it is saved."""
        found = re.match(r"# (\w+\.py)\n", self.code)
        return None if found is None else found[1]

    @property
    def is_program(self) -> bool:
        """Whether it runs by itself."""
        return re.search(r"\b(trio|asyncio)\.run\(", self.code) is not None

    @property
    def is_server(self) -> bool:
        """Whether it is a program that waits for a client."""
        return ".run()\n" in self.code

    def compiled(self, page: Path) -> CodeType:
        """Return its code; tracebacks show the page."""
        source = "\n" * (self.line - 1) + self.code
        code: CodeType = compile(
            source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        return code


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the Python on a page, with what it prints."""
    fenced = list(_FENCED.finditer(text))
    for number, found in enumerate(fenced):
        if found[1] != "python":
            continue
        after = fenced[number + 1] if number + 1 < len(fenced) else None
        follows = after is not None and after[1] == "text" and not text[found.end() : after.start()].strip()
        printed = after[2] if after is not None and follows else None
        yield Block(text.count("\n", 0, found.start()) + 2, found[2], printed)
