"""A response while it arrives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Protocol, final

from .._core._headers import Headers
from .._errors import RemoteProtocolError
from ._request import HttpRequest

__all__ = ["BodySource", "HttpResponse", "HttpTransport"]

SMALL: Final = 4096
"""Up to how many bytes a piece of a body is gathered with others."""


class BodySource(Protocol):
    """Where the body of a response comes from."""

    async def receive_some(self) -> bytes:
        """Wait for some of it; nothing once it is complete."""
        ...

    async def aclose(self) -> None:
        """Let go of it, whether or not it is complete."""
        ...


@final
class HttpResponse:
    """The answer to one request: its head is here, its body is received by whoever asked, who also closes it.

    As a context manager it closes itself. Closing it before the body is complete ends the connection, which is
    how the server learns that nobody reads on.

    Attributes:
        request: What it answers, after redirects.
        status: The HTTP status.
        reason: The words after it; may be empty.
        headers: Its header fields.
    """

    def __init__(
        self, request: HttpRequest, status: int, headers: Headers, source: BodySource, *, reason: str = ""
    ) -> None:
        self.request: Final = request
        self.status: Final = status
        self.headers: Final = headers
        self.reason: Final = reason
        self._source = source

    async def __aenter__(self) -> HttpResponse:
        return self  # noqa: ASYNC910 - there is nothing to wait for

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        await self._source.aclose()

    async def aclose(self) -> None:
        """Let go of it. A checkpoint only if that ends the connection."""
        await self._source.aclose()

    async def receive_some(self) -> bytes:
        """Wait for the next bytes of the body; nothing once it is complete. Cancelled, nothing is lost.

        Raises:
            ConnectionLost: The connection ended in the middle of it.
            RemoteProtocolError: What came is not HTTP.
        """
        return await self._source.receive_some()

    async def read(
        self,
        max_bytes: int,
        limit: str = "max_bytes",
        *,
        hold: Callable[[int], Awaitable[object]] | None = None,
    ) -> bytes:
        """Wait for the whole body.

        Args:
            max_bytes: The largest body that is wanted.
            limit: What sets that, for the error.
            hold: Called with how much is kept of it, before more is read.

        Raises:
            RemoteProtocolError: It is larger than `max_bytes`.
            Others: As `receive_some`.
        """
        length = self.headers.get("content-length")
        parts: list[bytes] = []
        small = bytearray()  # a piece of one byte would weigh forty
        size = 0
        if length is None or not length.isdigit() or int(length[:20]) <= max_bytes:
            while data := await self.receive_some():
                size += len(data)
                if size > max_bytes:
                    break
                if hold is not None:
                    await hold(size)
                if len(data) >= SMALL and not small:
                    parts.append(data)
                    continue
                small += data
                if len(small) >= SMALL:
                    parts.append(bytes(small))
                    small.clear()
            else:
                return parts[0] if len(parts) == 1 and not small else b"".join((*parts, small))
        raise RemoteProtocolError(
            f"{self.request.target.origin} answered with more than {max_bytes} bytes ({limit})"
        )

    async def read_excerpt(self, max_bytes: int) -> bytes:
        """Wait for the beginning of the body, or all of it. The rest is not wanted.

        Raises:
            Like `receive_some`.
        """
        body = bytearray()
        while len(body) < max_bytes and (data := await self.receive_some()):
            body += data
        return bytes(body[:max_bytes])


class HttpTransport(Protocol):
    """Whatever takes requests and brings responses."""

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request and wait for the head of its response, which has to be closed.

        Args:
            request: What to send.
            urgent: Whether it must not wait for others to finish, because they may wait for it.

        Raises:
            ConnectionLost: The server cannot be reached, or hung up.
            LocalProtocolError: The request is none.
            RemoteProtocolError: What came is not HTTP.
        """
        ...
