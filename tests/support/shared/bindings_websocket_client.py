"""What the tests of websocket client share in several layers."""

from __future__ import annotations

import base64
import hashlib

from websocket_raw import RawSocket


async def accept(socket: RawSocket, **fields: str) -> dict[str, str]:
    """Read the handshake, and accept it. Returns its header fields."""
    while b"\r\n\r\n" not in socket.buffer:
        await socket._receive_more()
    head, _, rest = bytes(socket.buffer).partition(b"\r\n\r\n")
    socket.buffer = bytearray(rest)
    line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    headers["target"] = line.split()[1]
    key = headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    answer = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": base64.b64encode(hashlib.sha1(key).digest()).decode(),
        "Sec-WebSocket-Protocol": "mcp",
        **fields,
    }
    said = "".join(f"{name}: {value}\r\n" for name, value in answer.items() if value)
    await socket.stream.send_all(f"HTTP/1.1 101 Switching Protocols\r\n{said}\r\n".encode())
    return headers
