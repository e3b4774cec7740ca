"""The table of docs/transports.md: how many scenarios run over each transport in each revision, and why some do not.

Made from what is collected in `tests/memory/matrix`, so a cell says what runs there. What does not run has a reason in
`transports.py`, or else is a problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from places import TESTS
from transports import BY_NAME, CELLS, LACKS, SPARED, TRANSPORTS, Lack, lack_of

from trio_mcp import Revision

__all__ = ["MATRIX", "MatrixTable"]

MATRIX = TESTS / "memory" / "matrix"
BEGIN = "<!-- written by `make matrix` from tests/memory/matrix -->\n"
END = "<!-- end of what is written -->\n"


class MatrixTable:
    """What is known of each cell.

    Attributes:
        problems: Scenarios that leave out cells without a reason, and reasons for nothing.
    """

    def __init__(self, items: Iterable[pytest.Item]) -> None:
        self._ran: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._needs: dict[str, set[str]] = {}
        for item in items:
            self._add(item)
        self.problems = [*self._holes(), *self._needless()]

    def _add(self, item: pytest.Item) -> None:
        callspec: Any = getattr(item, "callspec", None)
        if MATRIX not in item.path.parents or callspec is None or "binding" not in callspec.params:
            return
        scenario = item.nodeid.partition("[")[0].partition("::test_")[2]
        self._ran[callspec.params["binding"], callspec.params["revision"]].add(scenario)
        self._needs[scenario] = {need for mark in item.iter_markers("needs") for need in mark.args}

    def _holes(self) -> Iterator[str]:
        for scenario, needs in self._needs.items():
            for cell in CELLS:
                if (scenario in self._ran[cell]) is (lack_of(needs, *cell) is not None):
                    yield f"{scenario}: runs over {' in '.join(cell)} without what it needs, or does not and has no reason"
        for transport in TRANSPORTS:
            if len(transport.revisions) < len(Revision) and not transport.reason:
                yield f"{transport.name}: there is no reason why it does not carry every revision"

    def _needless(self) -> Iterator[str]:
        for lack in LACKS:
            if not self._without(lack):
                yield f"nothing needs {lack.need!r} where {lack.reason!r}"

    def _without(self, lack: Lack) -> list[str]:
        is_somewhere = any(lack.is_at(*cell) for cell in CELLS)
        return sorted(scenario for scenario, needs in self._needs.items() if lack.need in needs and is_somewhere)

    def write_into(self, page: str) -> str:
        """Return the page with the table as it is now."""
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        return f"{before}{BEGIN}\n{self.markdown()}\n{END}{after}"

    def markdown(self) -> str:
        """Return the table, and the reasons."""
        letters: dict[str, str] = {}
        lines = [
            f"| transport | in the ids of tests | {' | '.join(Revision)} |",
            f"| {' | '.join(['---'] * (len(Revision) + 2))} |",
        ]
        for transport in TRANSPORTS:
            cells = [self._cell(transport.name, revision, letters) for revision in Revision]
            lines.append(f"| {transport.title} | `{transport.name}` | {' | '.join(cells)} |")
        lines += ["", *(f"* **{letter}**: {reason}" for reason, letter in letters.items())]
        return "\n".join([*lines, *self._lacks()])

    def _cell(self, name: str, revision: Revision, letters: dict[str, str]) -> str:
        if (name, str(revision)) in CELLS:
            return str(len(self._ran[name, str(revision)]))
        reason = SPARED if revision in BY_NAME[name].revisions else BY_NAME[name].reason
        return letters.setdefault(reason, "abcdefgh"[len(letters)])

    def _lacks(self) -> Iterator[str]:
        yield ""
        yield f"A number is how many of the {len(self._needs)} scenarios run there. The others need what there is not:"
        yield ""
        yield "| there is no | over | in | because | left out |"
        yield "| --- | --- | --- | --- | --- |"
        for lack in LACKS:
            over = ", ".join(f"`{name}`" for name in lack.over if name) or "all"
            revisions = "all" if len(lack.revisions) == len(Revision) else ", ".join(sorted(lack.revisions))
            yield f"| {lack.need} | {over} | {revisions} | {lack.reason} | {len(self._without(lack))} |"
