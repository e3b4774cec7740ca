"""The sentences of a page of the specification that hold a keyword of RFC 2119, as digests.

``tests/data/protocol/authorization_rules.toml`` names a rule's sentences by these digests, so that no text of the
specification is kept here. Where each of them is, is in ``authorization_sentences.json`` beside it, which a clone of
the specification and one of its extensions give again:

    python tests/support/keyword_sentences.py SPECIFICATION EXTENSIONS > tests/data/protocol/authorization_sentences.json

``python tests/support/keyword_sentences.py PAGE.mdx`` shows the sentences of one page with their digests.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["EXTENSION", "REVISIONS", "Where", "keyword_sentences", "sentences_of_pages"]

REVISIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Those with authorization."""
EXTENSION: Final = "extension"
"""In place of a revision, for the extensions' pages."""
TOP: Final = "(top)"
"""In place of a section, before the first heading."""

Where: TypeAlias = dict[str, dict[str, dict[str, list[str]]]]
"""Digests, in order, by revision, page and section."""

_KEYWORD = re.compile(r"(?<![A-Za-z])(?:MUST|SHALL|SHOULD|REQUIRED|RECOMMENDED)(?![A-Za-z])")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_HEADING = re.compile(r"#+\s+(.*)")
_ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`(])")


def keyword_sentences(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield the section, the digest and the text of each such sentence, in order.

    An item of a list and a row of a table are sentences of their own, blocks of code are none. Emphasis, the targets
    of links and line breaks make no difference to a digest.
    """
    for section, paragraph in _paragraphs(_FRONT_MATTER.sub("", page)):
        plain = " ".join(_LINK.sub(r"\1", paragraph).replace("**", "").split())
        for sentence in _END.split(plain):
            if _KEYWORD.search(sentence):
                yield section, hashlib.sha256(sentence.encode()).hexdigest()[:8], sentence


def _paragraphs(page: str) -> Iterator[tuple[str, str]]:
    section, lines, is_code = TOP, list[str](), False
    for line in [*page.splitlines(), ""]:
        text = line.strip()
        heading = _HEADING.match(line)
        begins = _ITEM.match(text)
        fence = text.startswith("```")
        if lines and (not text or fence or heading or begins or text.startswith("|")):
            yield section, " ".join(lines)
            lines = []
        if fence:
            is_code = not is_code
        elif is_code:
            continue
        elif heading:
            section = heading[1].strip()
        elif text:
            lines.append(text[begins.end() :] if begins else text)


def sentences_of_pages(specification: Path, extensions: Path) -> Where:
    """Return the digests of the authorization pages, by revision, page and section."""
    where: Where = {}
    pages = [
        (revision, path, path.relative_to(specification / "docs" / "specification" / revision))
        for revision in REVISIONS
        for path in sorted(specification.glob(f"docs/specification/{revision}/basic/authorization*/**/*.mdx"))
        + sorted(specification.glob(f"docs/specification/{revision}/basic/authorization.mdx"))
    ]
    drafts = extensions / "specification" / "draft"
    pages += [(EXTENSION, path, "ext-auth" / path.relative_to(drafts)) for path in sorted(drafts.glob("*.mdx"))]
    for revision, path, name in pages:
        page = where.setdefault(revision, {}).setdefault(name.with_suffix("").as_posix(), {})
        for section, digest, _ in keyword_sentences(path.read_text(encoding="utf-8")):
            page.setdefault(section, []).append(digest)
    return where


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(sentences_of_pages(Path(sys.argv[1]), Path(sys.argv[2])), indent=1))
    else:
        for row in keyword_sentences(Path(sys.argv[1]).read_text(encoding="utf-8")):
            print(*row, sep="\t")
