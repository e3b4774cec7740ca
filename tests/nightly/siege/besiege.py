"""Play every attack against a server, over all hosts: ``python tests/nightly/siege/besiege.py``, or ``make siege``.

Prints a table of what came of each, and writes it into docs/security.md where that is asked for. Patterns choose
attacks: ``python tests/nightly/siege/besiege.py --host lean 'unread-*'``.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from besieging import Siege
from judging import Row, line_of, table
from plans import HOSTS, PLANS, Host, Plan

PAGE: Final = Path(__file__).parents[3] / "docs" / "security.md"


def filled(page: Path, name: str) -> list[str]:
    """Return what stands between the two marks of a page that have a name."""
    _, _, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    return rest.partition(f"<!-- /{name} -->")[0].splitlines()


def fill(page: Path, lines: Sequence[str], name: str) -> None:
    """Write a table between the two marks of a page that have its name."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not end:
        raise ValueError(f"{page} lacks {begin} and its end")
    page.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after, encoding="utf-8")


def merged(before: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return a table with the rows of an earlier one beside those that are new, in the order of the plans."""

    def row_of(line: str) -> tuple[str, str]:
        _, attack, host, *_ = (cell.strip() for cell in line.split("|"))
        return attack, host

    rows = {row_of(line): line for line in (*before[2:], *lines[2:])}
    order = [(plan.title, host) for plan in PLANS for host in plan.hosts]
    return [*lines[:2], *(rows[each] for each in order if each in rows)]


def play(plan: Plan, host: Host, folder: Path, options: argparse.Namespace) -> Row:
    """Play one attack against a server of its own, and tell what came of it."""
    with Siege(plan.setup(host), folder) as siege:
        row = siege.storm(plan, plan.times * options.seconds, options.after)
        print(line_of(row), flush=True)
        if options.verbose:
            print(f"    {dict(row.done)}; {row.lines} lines logged", flush=True)
    return row


def told_to_end(number: int, _frame: FrameType | None) -> NoReturn:
    """End, and with it what was started."""
    sys.exit(128 + number)


def main() -> int:
    """Play them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("attacks", nargs="*", default=["*"], metavar="ATTACK", help="a pattern of names")
    parser.add_argument(
        "--host", choices=HOSTS, action="append", help="what serves; by default all that an attack is played over"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long an attack lasts")
    parser.add_argument("--after", type=float, default=60.0, help="how long everything may take to be as before")
    parser.add_argument("--fill", action="store_true", help="write the rows into docs/security.md")
    parser.add_argument("--verbose", action="store_true", help="say what the attacker did")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, told_to_end)
    hosts: Sequence[Host] = options.host or HOSTS
    plans = [plan for plan in PLANS if any(fnmatch(plan.title, pattern) for pattern in options.attacks)]
    with tempfile.TemporaryDirectory(prefix="siege-") as folder:
        rows = [play(plan, host, Path(folder), options) for plan in plans for host in plan.hosts if host in hosts]
    lines = table(rows)
    print("\n" + "\n".join(lines))
    if options.fill:
        fill(PAGE, merged(filled(PAGE, "siege"), lines), "siege")
    held = [row for row in rows if not row.faults()]
    print(f"\n{len(held)} of {len(rows)} held")
    return len(held) < len(rows)


if __name__ == "__main__":
    sys.exit(main())
