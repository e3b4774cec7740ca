"""`Console`: standard output and standard error of a command, and the one place where text becomes harmless.

Nothing gets to a terminal but through here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TextIO, final

import trio

from .._peer._exchange import Progress
from ._layout import (
    MARK,
    MAX_WIDTH,
    MIN_WIDTH,
    cells,
    cut,
    json_text,
    marked,
    number,
    short_numbers,
    shown_line,
    shown_text,
)
from ._parser import Exit, Failure, write_out

BAR: Final = 24
"""The width of the bar of a progress report, in columns."""


def width_of(stream: TextIO | None) -> int:
    """Return how many columns a stream has: what ``COLUMNS`` says, else its terminal, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(MIN_WIDTH, min(int(columns), MAX_WIDTH))
    try:
        width = 0 if stream is None else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return max(MIN_WIDTH, min(width or 80, MAX_WIDTH))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sees, or types, what goes through a stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{shown_text(line)}\n" for line in lines)


def _json(value: object, *, is_raw: bool) -> str:
    try:
        return json_text(value, indent=None) if is_raw else json_text(short_numbers(value))
    except RecursionError:
        raise Failure(Exit.PROTOCOL, "what the server has sent is nested too deeply to be shown") from None


@final
class Console:
    """The output of a command. Made when the command begins, on the streams that there are then."""

    def __init__(self) -> None:
        self._err: TextIO | None = sys.stderr
        self._has_bar = is_terminal(self._err) and os.environ.get("TERM") != "dumb"
        self._bar = ""

    @property
    def width(self) -> int:
        """The width of standard output, in columns."""
        return width_of(sys.stdout)

    async def say(self, *lines: str) -> None:
        """Print lines to standard output, and wait until it has taken them. Cancelled, it may have taken a part.

        Raises:
            BrokenPipeError: Nobody reads them any more.
            Failure: They cannot be written there.
        """
        self._wipe()
        # A reader may take its time, and signals and deadlines hold meanwhile. A thread that still writes is gone
        # with the process.
        await trio.to_thread.run_sync(write_out, _lines(lines), abandon_on_cancel=True)

    def say_sync(self, *lines: str) -> None:
        """Print lines to standard output, outside of Trio; see `say`."""
        self._wipe()
        write_out(_lines(lines))

    async def say_json(self, value: object, *, is_raw: bool = False) -> None:
        """Print plain JSON to standard output: indented, with 42 for 42.0; or as it came, on one line.

        Raises:
            BrokenPipeError: Nobody reads it any more.
            Failure: It is nested too deeply, or cannot be written there.
        """
        await self.say(_json(value, is_raw=is_raw))

    def say_json_sync(self, value: object) -> None:
        """Print plain JSON to standard output, outside of Trio; see `say_json`."""
        self.say_sync(_json(value, is_raw=False))

    def note(self, text: str) -> None:
        """Print lines to standard error. What cannot be printed there is lost."""
        self._wipe()
        self._write(f"{shown_text(text)}\n")
        self._draw()

    def quote(self, before: str, text: str) -> None:
        """Print to standard error what a server says, so that no line of it passes for one of this program.

        Args:
            before: Words of this program, in the same line. A mark, if there are none.
            text: What the server says. Further lines are marked.
        """
        self.note(f"{before}{marked(text)}")

    def quote_line(self, line: str) -> None:
        """Print to standard error a line that a server's process has written there."""
        self.quote(MARK, line)

    def prompt(self, text: str) -> None:
        """Print the beginning of a line to standard error, for somebody to type the rest."""
        self._wipe()
        self._bar = ""
        self._write(shown_text(text))

    def progress(self, progress: Progress) -> None:
        """Show how far a call is, in the last line of the terminal. Without a terminal nothing is shown."""
        if not self._has_bar:
            return
        done, total = progress.progress, progress.total
        if total:
            try:
                share = min(max(done / total, 0.0), 1.0)
            except OverflowError:
                share = 0.0
            full = int(share * BAR)
            text = f"[{'#' * full}{'.' * (BAR - full)}] {number(done)}/{number(total)}"
        else:
            text = number(done)
        if progress.message:
            text += f"  {shown_line(progress.message)}"
        self._wipe()
        self._bar = cut(text, width_of(self._err) - 1)
        self._draw()

    def end_progress(self) -> None:
        """Remove what `progress` shows."""
        self._wipe()
        self._bar = ""

    def _wipe(self) -> None:
        if self._bar:
            self._write(f"\r{' ' * cells(self._bar)}\r")

    def _draw(self) -> None:
        if self._bar:
            self._write(self._bar)

    def _write(self, text: str) -> None:
        if self._err is None:
            return
        with suppress(OSError, ValueError):  # a command does not fail because nobody reads its notes
            self._err.write(text)
            self._err.flush()
