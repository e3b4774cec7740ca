"""Every message of a connection, for ``--wire`` and ``--record``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, TextIO, final

import trio

from .._peer._frame_record import frame_of, open_record, write_frame
from ._console import Console
from ._layout import shown_line
from ._parser import Exit, Failure


@final
class FrameLog:
    """Prints messages to standard error, and keeps them in a file, as lines of JSON.

    Args:
        console: Where they are printed; `None` if they are not.
        file: Where they are kept, if anywhere.
        on_loss: Called with the reason, once, if the file does not take them any more.
    """

    def __init__(self, console: Console | None, file: TextIO | None, complain: Console) -> None:
        self._console = console
        self._file = file
        self._complain = complain
        self._begin = trio.current_time()

    def __call__(self, direction: Literal["sent", "received"], data: bytes) -> None:
        """Take a message."""
        if self._console is not None:
            text = data.decode("utf-8", "backslashreplace").strip()
            arrow = "-->" if direction == "sent" else "<--"
            self._console.note(f"{trio.current_time() - self._begin:9.3f} s {arrow} {shown_line(text)}")
        if self._file is not None:
            try:
                write_frame(self._file, frame_of(direction, data, self._begin))
            except (OSError, RecursionError) as error:
                self._file = None
                self._complain.note(f"trio-mcp: the messages are not recorded any more: {error}")


@contextmanager
def open_frame_log(console: Console, *, is_wire: bool, record: str | None) -> Generator[FrameLog | None]:
    """Yield what takes the messages of a connection, or `None` if nobody wants them.

    Args:
        console: Where they are printed.
        is_wire: Whether they are printed.
        record: The file that keeps them, if any. What it held before is gone.

    Raises:
        Failure: The file cannot be written.
    """
    if record is None:
        yield FrameLog(console, None, console) if is_wire else None
        return
    try:
        file = open_record(record)
    except OSError as error:
        raise Failure(Exit.USAGE, f"{record} cannot be written: {error.strerror}") from None
    with file:
        yield FrameLog(console if is_wire else None, file, console)
