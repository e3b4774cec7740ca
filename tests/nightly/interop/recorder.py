"""Stands between a client and a server over stdio and reports all it sees: ``recorder.py PORT COMMAND…``.

It starts the server, hands every byte on as it is, and forwards the signals that ask to end. Each thing that
happens goes as a line of JSON to a socket at the port, whose end tells that the server, and this, are gone.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

PIECE = 64 * 1024


class Report:
    """The lines of JSON at the socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._lock = threading.RLock()  # a signal may interrupt a report

    def __call__(self, event: str, **details: object) -> None:
        line = json.dumps({"event": event, "at": time.monotonic(), **details}) + "\n"
        with self._lock:
            self._socket.sendall(line.encode())


def hand_on(source: int, target: int, report: Callable[[bytes], None]) -> None:
    """Copy one stream to the other until it ends, and report each line, also a last one that has no end."""
    rest = b""
    while piece := os.read(source, PIECE):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            report(line)
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]
    if rest:
        report(rest)


def main() -> None:
    """Start the server, and stay until it is gone."""
    report = Report(int(sys.argv[1]))
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    server_input = server.stdin

    def forward(number: int, _: FrameType | None) -> None:
        report("signal", name=signal.Signals(number).name)
        server.send_signal(number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)

    def hand_on_input() -> None:
        with suppress(BrokenPipeError):  # the server does not read any more
            hand_on(0, server_input.fileno(), lambda line: report("to_server", line=line.decode("latin-1")))
        report("input_ended")
        server_input.close()

    threading.Thread(target=hand_on_input, daemon=True).start()
    try:
        hand_on(server.stdout.fileno(), 1, lambda line: report("to_client", line=line.decode("latin-1")))
    except BrokenPipeError:
        report("client_gone")
    status = server.wait()
    report("exited", status=status)
    raise SystemExit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
