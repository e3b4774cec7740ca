"""The client that means harm, a program of its own: ``python attacker.py ATTACK PORT SECONDS``.

It does its worst for so many seconds, then goes, and prints what it has done and what it was answered, as JSON.
"""

from __future__ import annotations

import json
import os
import sys

import costly
import countless
import greedy
import trio
from attacking import ATTACKS, Attacker

__all__ = ["ATTACKS", "costly", "countless", "greedy"]


async def main(name: str, port: int, seconds: float) -> None:
    """Attack for so many seconds."""
    os.nice(10)  # it stands for another machine, and takes no time from the server's
    me = Attacker(port)
    print("ready", flush=True)
    with trio.move_on_after(seconds):
        await ATTACKS[name](me)
    print(json.dumps(dict(me.counts)), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
