"""The floor of WebSockets: a bare trio-websocket server that answers each message with the same JSON.

``python websockets.py websocket``
"""

from __future__ import annotations

from functools import partial

import trio
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket

from benchmarks.peers.floors.answers import answer


async def serve(request: WebSocketRequest) -> None:
    """Answer messages one by one."""
    connection = await request.accept(subprotocol="mcp")
    try:
        while True:
            text = await connection.get_message()
            assert isinstance(text, str)
            for message in answer(text.encode()):
                await connection.send_message(message.decode())
    except ConnectionClosed:
        pass


async def main() -> None:
    """Serve, and say where."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(serve_websocket, serve, "127.0.0.1", 0, None, receive_buffer_size=1 << 16)
        )
        print(f"ws://127.0.0.1:{server.port}/mcp", flush=True)


if __name__ == "__main__":
    trio.run(main)
