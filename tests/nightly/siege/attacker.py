"""The client that means harm, a program of its own: ``python attacker.py '{"attack": "lists", "host": "lean", …}'``.

It does its worst for so many seconds, then goes, and prints what it has done and what it was answered, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Final

import costly
import countless
import duplex
import greedy
import trio
from attacking import ATTACKS, OWN, Attacker

__all__ = ["ATTACKS", "costly", "countless", "duplex", "greedy"]

PREPARED: Final = 30.0
"""Seconds in which what is sent is ready."""

NOBODY: Final = 65_534
"""Who connects to a Unix socket: a user that the honest client is not."""


async def main(options: dict[str, Any]) -> None:
    """Attack for so many seconds, from the first connection on."""
    os.nice(10)  # it stands for another machine, and takes no time from the server's
    if options["host"] == "unix":
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if options["authorization"]:
        OWN["Authorization"] = options["authorization"]
    me = Attacker(options["host"], options["at"], options["addresses"])
    begun = time.monotonic()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ATTACKS[options["attack"]], me)
        with trio.move_on_after(PREPARED):
            await me.connected.wait()
        begun = time.monotonic()
        await trio.sleep(options["seconds"])
        nursery.cancel_scope.cancel()
    print(json.dumps({"begun": begun, "ended": time.monotonic(), "done": me.counts}), flush=True)


if __name__ == "__main__":
    trio.run(main, json.loads(sys.argv[1]))
