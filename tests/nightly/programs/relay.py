"""Stands between a client and a server process, writes down every byte, and looks away: a program of its own.

``python -I -S relay.py LOG PAUSES COMMAND...``, where PAUSES is a list of ``[end, at, seconds]`` in JSON. It uses nothing
but the standard library, for it has to start quickly.
"""

import json
import os
import subprocess
import sys
import threading
import time


def forward(name: str, source: int, target: int, log: int, pauses: list[tuple[float, float]]) -> None:
    """Hand on what comes, until nothing more does; then close the other side."""
    begin = time.monotonic()
    while True:
        chunk = os.read(source, 65536)
        for at, seconds in pauses:
            left = begin + at + seconds - time.monotonic()
            if time.monotonic() >= begin + at and left > 0:
                time.sleep(left)
        os.write(log, json.dumps([time.monotonic(), name, chunk.decode("latin-1")]).encode() + b"\n")
        if not chunk:
            break
        try:
            while chunk:
                chunk = chunk[os.write(target, chunk) :]
        except OSError:
            break
    os.close(target)


def main() -> int:
    """Start the server, relay until it ends, and end as it did."""
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    pauses: list[tuple[str, float, float]] = json.loads(sys.argv[2])
    server = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    at_server = [(at, seconds) for end, at, seconds in pauses if end == "server"]
    at_client = [(at, seconds) for end, at, seconds in pauses if end == "client"]
    inward = threading.Thread(
        target=forward, args=("in", 0, os.dup(server.stdin.fileno()), log, at_server), daemon=True
    )
    server.stdin.close()
    outward = threading.Thread(
        target=forward, args=("out", server.stdout.fileno(), 1, log, at_client), daemon=True
    )
    inward.start()
    outward.start()
    outward.join()
    return server.wait()


if __name__ == "__main__":
    os._exit(main())
