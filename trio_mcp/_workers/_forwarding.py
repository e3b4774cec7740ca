"""Requests that go on with what another worker remembers: sent there whole, and the answer comes back as it is.

A connection between two workers carries one request. So what ends that connection ends the request: a client that
goes cancels its handler as it would directly, and a worker that dies ends its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, final

import trio

from .._core._http1 import HeaderField
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._endpoint._call import SMALL, HttpCall, connected
from .._errors import SERVER_BUSY
from .._hosts._requests import RequestBody
from .._oauth._principal import ClientCertificate
from ._frames import (
    ANSWER,
    BODY,
    DATA,
    END,
    HEAD,
    MISSING,
    PIECE,
    TAKEN,
    WHOLE,
    FrameReader,
    certificate_in,
    decode_answer_head,
    decode_whole,
    encode_answer_head,
    encode_request_head,
    encode_whole,
    frame,
    headers_in,
    pieces,
)
from ._reach import CONNECT_SECONDS, Reach, no_answer


def _lost() -> HttpRefused:
    # Not 404: that tells a client that nothing was done, and it would ask again.
    return HttpRefused(503, "the process that served the request ended before it was done", code=SERVER_BUSY)


# The worker that has received the request.


async def forward(call: HttpCall, reach: Reach, process: int, body: bytes | None = None) -> bool:
    """Have another process answer a request. Returns false if it is gone, or what the request goes on with.

    Then nothing was done, and the request can be answered here. It counts as a request there; here its connection
    counts. If the client goes, this returns.

    Args:
        call: The request.
        reach: How the other one is reached.
        process: The number of the other.
        body: The body of the request, if it was read.

    Raises:
        HttpRefused: The other one does not take it in time, or ended before it began to answer; or the body is
            refused.
    """
    stream: trio.SocketStream | None = None
    with connected(call):
        stream = await reach.connect(process)
    if stream is None:
        return call.is_gone
    async with stream:
        was_read = body is not None
        if body is None:
            body = await call.take_body() if call.method == "POST" else b""
        with connected(call):
            reader = FrameReader(stream)
            head = frame(HEAD, encode_request_head(call, len(body)))
            if not await _hand_over(stream, reader, head, body[:PIECE]):
                call.kept_body = None if was_read else body
                return False
            with suppress(trio.BrokenResourceError):  # it may refuse the request before it has all of it
                for start in range(PIECE, len(body), PIECE):
                    await stream.send_all(frame(BODY, body[start : start + PIECE]))
            body = b""
            call.loans.give_back_body()  # who has decoded it still has it, and what was lent for that
            call.on_standing()
            call.answer_headers = []  # the other one adds its own, which are the same
            await _answer(call, reader)
    return True


async def _hand_over(stream: trio.SocketStream, reader: FrameReader, head: bytes, body: bytes) -> bool:
    """Send the beginning of a request, and wait until the other process has taken it. Returns whether it has.

    The kernel lets others connect to a worker that is stopped, or whose event loop is blocked.
    """
    try:
        with trio.fail_after(CONNECT_SECONDS):
            with suppress(trio.BrokenResourceError):
                await stream.send_all(head + pieces(BODY, body))
            found = await reader.read()
    except trio.TooSlowError:
        raise no_answer() from None
    if found is None:
        raise _lost()
    return found[0] == TAKEN


async def _answer(call: HttpCall, reader: FrameReader) -> None:
    while (found := await reader.read()) is not None:
        kind, payload = found
        if kind == WHOLE:
            status, headers, body = decode_whole(payload)
            call.on_answer()
            if len(body) > SMALL:
                call.loans.keep_answer(len(body))
            call.note_started()
            await call.send_whole(status, headers, body)
            return
        if kind == ANSWER:
            await call.start(*decode_answer_head(payload))
        elif kind == DATA:
            await call.send(payload)
        elif kind == END:
            call.on_answer()
            await call.finish()
            return
    if call.is_started:
        call.cut()  # so that nobody takes it for complete
        return
    raise _lost()


# The worker that answers it.


@final
class ForwardedCall(HttpCall):
    """A request that another worker has received.

    Args:
        stream: Where the answer goes.
        head: Its head.
        settings: What its body may cost.

    Attributes:
        body: Its body, as far as it was received.
    """

    def __init__(self, stream: trio.SocketStream, head: dict[str, Any], settings: HttpServerSettings) -> None:
        super().__init__(
            method=head["method"],
            path=head["path"],
            headers=headers_in(head),
            query=head["query"],
            client=head["client"],
            scheme=head["scheme"],
            target=head["target"].encode("latin-1"),
        )
        self._stream = stream
        self._certificate = certificate_in(head)
        self._is_finished = False
        self._length: int = head["length"]
        self.body: Final = RequestBody(settings, self._length)
        self.body.is_complete = self._length == 0

    async def take(self) -> bool:
        """Say that the request is served now. Returns whether anybody still waits for that."""
        await self._write(frame(TAKEN))
        return not self.is_gone

    async def leave(self) -> None:
        """Say that what the request goes on with is not here."""
        await self._write(frame(MISSING))

    async def receive(self, reader: FrameReader) -> None:
        """Receive the body, and then wait until the client goes."""
        left = self._length
        while (found := await reader.read()) is not None:
            left -= len(found[1])
            self.body.feed(found[1], is_complete=left <= 0)
            await self.body.wait_asked()
        self.body.end()
        self.gone()

    @property
    def certificate(self) -> ClientCertificate | None:
        return self._certificate

    async def read_body(self) -> bytes:
        return await self.body.read(self.loans)

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        await self._write(frame(ANSWER, encode_answer_head(status, list(headers))))

    async def send(self, data: bytes) -> None:
        if self.left is not None:
            data = self.within(data)
        await self._write(pieces(DATA, b"" if self.method == "HEAD" else data))

    async def finish(self, data: bytes = b"") -> None:
        if self.left is not None:
            data = self.within(data, is_last=True)
        await self._write(pieces(DATA, b"" if self.method == "HEAD" else data) + frame(END))
        self._is_finished = True

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        if len(body) > PIECE:
            await super().send_whole(status, headers, body)
            return
        if self.left is not None:
            body = self.within(body, is_last=True)
        body = b"" if self.method == "HEAD" else body
        await self._write(frame(WHOLE, encode_whole(encode_answer_head(status, list(headers)), body)))
        self._is_finished = True

    async def _write(self, data: bytes) -> None:
        if self.is_gone or self._is_finished or not data:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.gone()

    def cut(self) -> None:
        self.gone()
        self._stream.socket.close()
