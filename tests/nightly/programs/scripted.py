"""The server of a program over stdio: ``python -m tests.nightly.programs.scripted PROGRAM FILE`` appends its events to a file."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import trio

from tests.simulation.program import Program
from tests.simulation.record import Log
from tests.simulation.serving import World, be_quiet, layers_of, make_server, playing
from trio_mcp import serve_stdio


async def main(program: Program, path: Path, number: int) -> None:
    """Serve one client of a program."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    class Written(list[dict[str, Any]]):
        def append(self, event: dict[str, Any]) -> None:
            os.write(descriptor, json.dumps(event).encode() + b"\n")

    log = Log(time.monotonic, events=Written())
    server = make_server(program.limits, layers_of(program))
    world = World(program, log, server=server)
    with playing(world):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.tell_changes)
            await serve_stdio(server)
            nursery.cancel_scope.cancel()
        log.add("server-ended", conn=number, how="return")


if __name__ == "__main__":
    be_quiet()
    trio.run(main, pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]), int(sys.argv[3]))
