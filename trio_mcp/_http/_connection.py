"""One HTTP/1.1 connection: sends requests, waits for responses, and says when it can be used again.

A connection serves one request at a time, and one task. It is used again only after a request and its response
were complete and regular; in every other case what is still in flight could be taken for the next response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import trio

from .._core._headers import HeaderField
from .._core._http_heads import ReadFields
from .._errors import McpError
from ._request import HttpRequest, encode_request
from ._response_reader import ResponseHead, ResponseReader
from ._wire import wire_over

__all__ = ["HttpConnection"]

SENT_AT_ONCE: Final = 64 * 1024
"""A request up to this size fits into the buffers on its way. A larger one may only go while somebody reads its
answer: a server that refuses it does not read it."""


@final
class HttpConnection:
    """One connection, from its stream to its end.

    Args:
        stream: Connected, and over TLS if that is wanted. Taken over.
        description: What is at the other end, for errors.
        max_head_bytes: The largest head of a response.
        read_fields: Reads the fields of heads.
        through_proxy: Fields for a proxy that forwards single requests. Then the request line has the whole URL.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        description: str,
        *,
        max_head_bytes: int,
        read_fields: ReadFields,
        through_proxy: Sequence[HeaderField] | None = None,
    ) -> None:
        self._wire = wire_over(stream)
        self._description = description
        self._through_proxy = through_proxy
        self._reader = ResponseReader(description, max_head_bytes, read_fields)
        self._sent_all = False
        self._told_end = False

    @property
    def is_stale(self) -> bool:
        """Whether the other side has ended an idle connection, or said something that nobody asked for."""
        return self._wire.is_readable

    @property
    def is_reusable(self) -> bool:
        """Whether there can be another request: this one and its response are complete and regular."""
        return self._sent_all and self._reader.is_reusable

    async def aclose(self) -> None:
        """Close at once."""
        await self._wire.aclose()

    async def start(self, request: HttpRequest) -> ResponseHead:
        """Send a request and wait for the head of its response. Cancelled, the connection is good for nothing.

        Raises:
            ConnectionLost: The other side hung up. It may have done what was asked.
            LocalProtocolError: The request is none. Nothing was sent.
            RemoteProtocolError: What came is not HTTP.
        """
        data = encode_request(request, self._through_proxy)
        self._sent_all = self._told_end = False
        self._reader.begin(request.method)
        if len(data) <= SENT_AT_ONCE:
            await self._send(data, request)
            return await self._receive_head()
        head: ResponseHead | None = None
        failure: McpError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, data, request, name=f"sending to {self._description}")
            try:
                head = await self._receive_head()
            except McpError as error:
                failure = error
            if head is None or head.status >= 400:
                nursery.cancel_scope.cancel(reason="the server has answered and does not want the rest")
        if failure is not None:
            raise failure
        assert head is not None
        return head

    async def _send(self, data: bytes, request: HttpRequest) -> None:
        last = memoryview(data)[-SENT_AT_ONCE:]
        try:
            if len(data) > len(last):
                await self._wire.send(memoryview(data)[: -len(last)])
            # Before and not after: until this task runs again, the server may have had it all for long.
            if request.on_sent is not None:
                request.on_sent()
            await self._wire.send(last)
            self._sent_all = True
        except trio.BrokenResourceError:
            pass  # the server may have said why before it hung up: reading tells

    async def _receive_head(self) -> ResponseHead:
        while (head := self._reader.head) is None:
            await self._receive_more()
        return head

    async def receive_some(self) -> bytes:
        """Wait for some of the body; see `HttpResponse.receive_some`."""
        reader = self._reader
        while not (data := reader.take()) and not reader.is_complete:
            await self._receive_more()
        if not data:
            if self._told_end:
                await trio.lowlevel.checkpoint()
            self._told_end = True
        return data  # noqa: ASYNC910 - what is here is here; who asks again behind the end waits

    async def _receive_more(self) -> None:
        try:
            data = await self._wire.receive()
        except trio.BrokenResourceError as error:
            raise self._reader.hung_up() from error
        self._reader.feed(data)
