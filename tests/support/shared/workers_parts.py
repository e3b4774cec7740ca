"""What the tests of parts share in several layers."""

from __future__ import annotations

from collections.abc import Sequence

from inside_core import HeaderField, Headers

from trio_mcp import (
    HttpCall,
)


class Call(HttpCall):
    """A request that came to this worker, and its answer."""

    def __init__(self) -> None:
        super().__init__(method="POST", path="/mcp", headers=Headers())
        self.answer: tuple[int, bytes] | None = None
        self.sent: list[bytes] = []

    async def read_body(self) -> bytes:
        raise AssertionError

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        self.answer = status, b""

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def finish(self, data: bytes = b"") -> None:
        self.sent.append(b"end")

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        self.answer = status, body

    def cut(self) -> None:
        self.sent.append(b"cut")
