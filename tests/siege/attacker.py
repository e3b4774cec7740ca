"""The client that means harm, a program of its own: ``python attacker.py ATTACK PORT SECONDS``.

It does its worst for so many seconds, then goes, and prints what it has done and what it was answered, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Final

import costly
import countless
import greedy
import trio
from attacking import ATTACKS, Attacker

__all__ = ["ATTACKS", "costly", "countless", "greedy"]

PREPARED: Final = 30.0
"""Seconds in which what is sent is ready."""


async def main(name: str, port: int, seconds: float) -> None:
    """Attack for so many seconds, from the first connection on."""
    os.nice(10)  # it stands for another machine, and takes no time from the server's
    me = Attacker(port)
    begun = time.monotonic()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ATTACKS[name], me)
        with trio.move_on_after(PREPARED):
            await me.connected.wait()
        begun = time.monotonic()
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    print(json.dumps({"begun": begun, "ended": time.monotonic(), "done": me.counts}), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
