"""The table of docs/protocol.md: which test shows which section of the specification, in which revision.

A test says so with ``@pytest.mark.spec("server/tools", "Calling Tools")``, once for each section it shows. The
revisions are those it is parametrized with (as ``revision``), or those the mark names: ``revisions="2025-11-25"``.
Sections without a test have a reason in ``tests/data/protocol/reasons.json``. The sections themselves are the headings of
the specification's transport, authorization, server, client, utilities and patterns pages, in
``tests/data/protocol/sections.json``. Of authorization, each rule has a row, too (`authorization_rules`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from authorization_rules import Rules
from places import DATA

__all__ = ["Table"]

HERE = DATA / "protocol"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

HEAD = """\
# The protocol, section by section

Which test shows which section of the specification, in which revision: the transport, authorization, server, client,
utilities and patterns pages of all five. Made from the marks of the tests by `make protocol`; a test keeps it current. A
number is how many tests show the section in that revision (in memory, and most of them over HTTP, too, in the oldest and the
newest revision of each era), `-` means that the revision has no such section, and a letter gives the reason why a section has no
test. At the end, each rule of [authorization](#authorization-rule-by-rule).
"""

Cell = tuple[str, str, str]


class Table:
    """What is known of each section in each revision."""

    def __init__(self) -> None:
        self.sections: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(
            (HERE / "sections.json").read_text()
        )
        self.reasons: Mapping[str, Mapping[str, str]] = json.loads((HERE / "reasons.json").read_text())
        self.tests: dict[Cell, set[str]] = defaultdict(set)
        self.rules = Rules()
        self.problems: list[str] = []
        self._marked: set[tuple[str, str, str]] = set()

    def add(self, items: Iterable[pytest.Item]) -> None:
        """Take the marks of tests."""
        collected: set[str] = set()
        for item in items:
            collected.add(item.nodeid.partition("[")[0])
            for mark in item.iter_markers("spec"):
                self._add(item, mark)
        shown = {(test, page, section) for (page, section, _), tests in self.tests.items() for test in tests}
        for test, page, section in sorted(self._marked - shown):
            self.problems.append(f"{test}: in none of its revisions has {page} a section {section!r}")
        self.problems += self._needless_reasons()
        self.problems += self.rules.problems(collected)

    def _add(self, item: pytest.Item, mark: pytest.Mark) -> None:
        page, section = mark.args
        has = self.sections.get(page, {}).get(section)
        if has is None:
            self.problems.append(f"{item.nodeid}: the specification has no section {section!r} on {page}")
            return
        callspec = getattr(item, "callspec", None)
        named = mark.kwargs.get("revisions", callspec and callspec.params.get("revision"))
        if named is None:
            self.problems.append(
                f"{item.nodeid}: has no parameter `revision`, so the mark must name the revisions"
            )
            return
        test = item.nodeid.partition("[")[0]
        self._marked.add((test, page, section))
        for revision in [str(named)] if isinstance(named, str) else map(str, named):
            if revision in has:
                self.tests[page, section, revision].add(test)

    def _needless_reasons(self) -> Iterator[str]:
        for page, reasons in self.reasons.items():
            for section in reasons:
                if "*" in {page, section}:
                    continue
                revisions = self.sections.get(page, {}).get(section)
                if revisions is None:
                    yield f"reasons.json: the specification has no section {section!r} on {page}"
                elif all(self.tests.get((page, section, revision)) for revision in revisions):
                    yield f"reasons.json: {page}, {section!r} has tests in every revision, and needs no reason"

    def reason(self, page: str, section: str) -> str | None:
        """Return why a section has no test."""
        of_page = self.reasons.get(page, {})
        return of_page.get(section) or of_page.get("*") or self.reasons["*"].get(section)

    def holes(self) -> list[str]:
        """Return the sections that have neither a test nor a reason, by revision."""
        return [
            f"{revision}: {page}, {section!r}"
            for page, sections in self.sections.items()
            for section, revisions in sections.items()
            for revision in revisions
            if not self.tests.get((page, section, revision)) and self.reason(page, section) is None
        ]

    def markdown(self) -> str:
        """Return the document."""
        letters: dict[str, str] = {}
        lines = [HEAD]
        for page, sections in self.sections.items():
            lines += [f"## {page}", "", f"| section | {' | '.join(REVISIONS)} | tests |", "| --- " * 7 + "|"]
            lines += [self._row(page, section, letters) for section in sections]
            lines.append("")
        lines += ["## Reasons", "", *(f"* **{letter}**: {reason}" for reason, letter in letters.items())]
        return "\n".join([*lines, "", *self.rules.markdown(_links)]).rstrip("\n") + "\n"

    def _row(self, page: str, section: str, letters: dict[str, str]) -> str:
        cells: list[str] = []
        shown: set[str] = set()
        for revision in REVISIONS:
            if revision not in self.sections[page][section]:
                cells.append("-")
                continue
            tests = self.tests.get((page, section, revision))
            if tests:
                cells.append(str(len(tests)))
                shown |= tests
                continue
            reason = self.reason(page, section)
            cells.append("**none**" if reason is None else letters.setdefault(reason, _letter(len(letters))))
        return f"| {section} | {' | '.join(cells)} | {_links(shown)} |"


def _links(tests: Iterable[str]) -> str:
    """Return the names of tests, each module with a link."""
    by_module: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests):
        module, _, name = test.partition("::")
        by_module[module].append(name.removeprefix("test_"))
    return "; ".join(
        f"[{Path(module).stem}](../{module}): {', '.join(names)}" for module, names in by_module.items()
    )


def _letter(index: int) -> str:
    rounds, index = divmod(index, 26)
    return chr(ord("a") + index) * (rounds + 1)
