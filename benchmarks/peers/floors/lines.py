"""The floor of streams: lines read, answered and written on Trio, and nothing else.

``python lines.py json|structured stdio|tcp|unix``
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import trio

from benchmarks.peers.floors.answers import answer, answer_structured

CHUNK: Final = 1 << 18


async def serve_lines(
    answers: Callable[[bytes], Iterator[bytes]], reader: trio.abc.ReceiveStream, writer: trio.abc.SendStream
) -> None:
    """Answer all lines that have come at once, again and again."""
    pieces: list[bytes] = []
    while data := await reader.receive_some(CHUNK):
        if b"\n" not in data:
            pieces.append(bytes(data))
            continue
        *lines, rest = (b"".join(pieces) + data).split(b"\n")
        pieces = [rest] if rest else []
        out: list[bytes] = []
        for line in lines:
            out += [message + b"\n" for message in answers(line)]
        await writer.send_all(b"".join(out))


async def main(kind: str, binding: str) -> None:
    """Serve, and say where."""
    answers = answer_structured if kind == "structured" else answer
    if binding == "stdio":
        await serve_lines(answers, trio.lowlevel.FdStream(0), trio.lowlevel.FdStream(1))
        return
    if binding == "tcp":
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        print("tcp://{}:{}".format(*listener.socket.getsockname()), flush=True)
    else:
        path = Path(tempfile.mkdtemp()) / "socket"
        socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        await socket.bind(str(path))
        socket.listen()
        listener = trio.SocketListener(socket)
        print(f"unix://{path}", flush=True)

    async def serve(stream: trio.SocketStream) -> None:
        await serve_lines(answers, stream, stream)

    await trio.serve_listeners(serve, [listener])


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
