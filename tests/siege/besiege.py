"""Play every attack against a server, over both hosts: ``python tests/siege/besiege.py``, or ``make siege``.

Prints a table of what came of each, and writes it into docs/security.md where that is asked for. Patterns choose
attacks: ``python tests/siege/besiege.py --http lean 'unread-*'``.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from besieging import Siege
from judging import KINDS, PLANS, Http, Plan, Row, line_of, table

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN: Final = "<!-- siege -->"
END: Final = "<!-- /siege -->"


def fill(page: Path, lines: Sequence[str]) -> None:
    """Write a table between the two marks of a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} lacks {BEGIN} and {END}")
    page.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after, encoding="utf-8")


def play(plan: Plan, http: Http, folder: Path, options: argparse.Namespace) -> Row:
    """Play one attack against a server of its own, and tell what came of it."""
    with Siege(plan.setup(http), folder, options.quiet) as siege:
        row = siege.storm(plan, plan.times * options.seconds, options.after)
        print(line_of(row), flush=True)
        if options.verbose:
            print(f"    {dict(row.done)}; {row.lines} lines logged", flush=True)
            for kind in KINDS:
                print(f"    {kind}: {row.quiet.latency(kind)} → {row.during.latency(kind)}", flush=True)
    return row


def told_to_end(number: int, _frame: FrameType | None) -> NoReturn:
    """End, and with it what was started."""
    sys.exit(128 + number)


def main() -> int:
    """Play them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("attacks", nargs="*", default=["*"], metavar="ATTACK", help="a pattern of names")
    parser.add_argument(
        "--http", choices=("hypercorn", "lean"), action="append", help="what serves HTTP; both by default"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long an attack lasts")
    parser.add_argument("--quiet", type=float, default=5.0, help="how long it is quiet before")
    parser.add_argument("--after", type=float, default=60.0, help="how long everything may take to be as before")
    parser.add_argument("--fill", action="store_true", help="write the table into docs/security.md")
    parser.add_argument("--verbose", action="store_true", help="say what the attacker did")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, told_to_end)
    hosts: Sequence[Http] = options.http or ("hypercorn", "lean")
    plans = [plan for plan in PLANS if any(fnmatch(plan.title, pattern) for pattern in options.attacks)]
    with tempfile.TemporaryDirectory(prefix="siege-") as folder:
        rows = [play(plan, http, Path(folder), options) for plan in plans for http in hosts]
    lines = table(rows)
    print("\n" + "\n".join(lines))
    if options.fill:
        fill(PAGE, lines)
    held = [row for row in rows if not row.complaints()]
    print(f"\n{len(held)} of {len(rows)} held")
    return len(held) < len(rows)


if __name__ == "__main__":
    sys.exit(main())
