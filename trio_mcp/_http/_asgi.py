"""An ASGI application in this process as an HTTP server, as faithful as tests of HTTP need it.

The body of a response streams as the application sends it, a slow reader slows the application down, closing a
response early is a disconnect, and an application that fails breaks its response. Nothing is buffered.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from threading import get_ident
from typing import Any, Final, TypeAlias, final
from urllib.parse import unquote_to_bytes

import attrs
import trio

from .._core._http1 import Headers
from .._errors import ConnectionLost
from .._logs import Log
from .._trio import check_thread, check_trio_runs, open_hidden_nursery
from ._messages import HttpRequest, HttpResponse

_log: Final = Log("trio_mcp.http")

_Message: TypeAlias = MutableMapping[str, Any]
AsgiApplication: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI application: called with the scope, ``receive`` and ``send``."""

BODY_CHUNK: Final = 64 * 1024
LIFESPAN_SECONDS: Final = 5.0
"""How long an application may take to start, and to shut down, in seconds."""


@final
class _AsgiRequest:
    """One request: its messages to and from the application, and the body of its response."""

    def __init__(self, request: HttpRequest, description: str) -> None:
        body = request.body
        self._body = [body[i : i + BODY_CHUNK] for i in range(0, len(body), BODY_CHUNK)] or [b""]
        self._description = description
        self._disconnected = trio.Event()
        self._has_reported = False
        self.started = trio.Event()
        self.status: int | None = None
        self.headers = Headers()
        self._send, self._receive = trio.open_memory_channel[bytes](0)
        self._complete = False
        self._ended = False

    # What the application calls.

    async def receive(self) -> _Message:
        await trio.lowlevel.checkpoint()
        if self._body and not self._disconnected.is_set():
            chunk = self._body.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(self._body)}
        await self._disconnected.wait()
        if self._has_reported:
            await trio.sleep_forever()  # as Hypercorn: a disconnect is reported once
        self._has_reported = True
        return {"type": "http.disconnect"}

    async def send(self, message: _Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            if self.status is not None:
                raise RuntimeError("http.response.start was sent already")
            self.status = message["status"]
            self.headers = Headers((bytes(name), bytes(value)) for name, value in message.get("headers", ()))
            self.started.set()
        elif message["type"] == "http.response.body":
            if self.status is None or self._complete:
                raise RuntimeError("http.response.body must follow http.response.start, and not a complete body")
            self._complete = not message.get("more_body", False)
            if body := bytes(message.get("body", b"")):
                # As Hypercorn: sending after a disconnect is not an error.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._send.send(body)
            if self._complete:
                self._send.close()
                self._disconnected.set()

    # What the client calls.

    async def receive_some(self) -> bytes:
        if self._ended:
            await trio.lowlevel.checkpoint()
            return b""
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if not self._complete:
                raise ConnectionLost(
                    f"{self._description} closed the connection in the middle of a response"
                ) from None
            self._ended = True
            return b""

    async def aclose(self) -> None:
        self.disconnect()
        await trio.lowlevel.checkpoint()

    def disconnect(self) -> None:
        self._disconnected.set()
        self._receive.close()

    def fail(self) -> None:
        """Answer with status 500, if the application failed before it started its response."""
        if self.status is None:
            self.status = 500
            self._complete = True

    def finish(self) -> None:
        """End the response: the application has returned, or failed."""
        self._send.close()
        self.started.set()


@final
@attrs.define(eq=False, repr=False)
class AsgiClient:
    """Sends requests to an application in this process. Made by `open_asgi_client`."""

    _app: AsgiApplication
    _nursery: trio.Nursery
    _state: MutableMapping[str, Any]
    _thread: int = attrs.field(factory=get_ident, init=False)

    async def send(
        self, request: HttpRequest, *, urgent: bool = False, client: tuple[str, int] | None = ("127.0.0.1", 1)
    ) -> HttpResponse:
        """Send a request; see `HttpTransport.send`.

        Closing the response is a disconnect for the application, and does not wait for it.

        Args:
            request: The request.
            urgent: Makes no difference.
            client: From where it comes; `None` if it has no address.
        """
        del urgent  # there are no connections to wait for
        check_thread(self._thread, "this application", "client.call_tool")
        served = _AsgiRequest(request, request.target.address)
        name = f"{request.method} {request.target.path.partition('?')[0]}"
        self._nursery.start_soon(self._run, request, served, client, name=name)  # noqa: ASYNC113 - waited for below
        if request.on_sent is not None:
            request.on_sent(served.disconnect)
        try:
            await served.started.wait()
            if served.status is None:
                raise ConnectionLost(f"{request.target.address} closed the connection in place of a response")
        except BaseException:
            served.disconnect()
            raise
        return HttpResponse(request, served.status, served.headers, served)

    async def _run(self, request: HttpRequest, served: _AsgiRequest, client: tuple[str, int] | None) -> None:
        target = request.target
        path, _, query = target.path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": target.scheme,
            "path": unquote_to_bytes(path).decode("utf-8", "replace"),
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [
                (b"host", target.authority.encode("ascii")),
                (b"content-length", b"%d" % len(request.body)),
                *((name.lower(), value) for name, value in request.headers),
            ],
            "client": client,
            "server": (target.host, target.port),
            "state": dict(self._state),
        }
        try:
            await (
                trio.lowlevel.checkpoint_if_cancelled()
            )  # the application is being cancelled, and may have ended
            await self._app(scope, served.receive, served.send)
        except Exception:
            # The boundary of one request, as in any server: an error costs this response and nothing else.
            _log.exception("the ASGI application failed")
            served.fail()
        finally:
            served.finish()


@asynccontextmanager
async def open_asgi_client(app: AsgiApplication) -> AsyncGenerator[AsgiClient]:
    """Run an ASGI application for as long as the block runs, and send requests to it without a network.

    Leaving shuts the application down and cancels the requests that still run in it.

    Raises:
        RuntimeError: The application failed at its start, or took longer than 5 s.
    """
    check_trio_runs("open_asgi_client()")
    async with open_hidden_nursery() as nursery:
        lifespan = _Lifespan()
        state: dict[str, Any] = {}
        nursery.start_soon(lifespan.run, app, state, name="ASGI lifespan")
        with trio.move_on_after(LIFESPAN_SECONDS):
            await lifespan.started.wait()
        if not lifespan.started.is_set():
            raise RuntimeError(f"the ASGI application did not start within {LIFESPAN_SECONDS:g} s")
        if lifespan.failure is not None:
            raise RuntimeError(f"the ASGI application did not start: {lifespan.failure}")
        try:
            yield AsgiClient(app, nursery, state)
        finally:
            lifespan.stop.set()
            with trio.move_on_after(LIFESPAN_SECONDS, shield=True):
                await lifespan.stopped.wait()
            nursery.cancel_scope.cancel(reason="the ASGI client was left")


@final
class _Lifespan:
    """The lifespan protocol; an application that does not support it counts as started."""

    def __init__(self) -> None:
        self.started = trio.Event()
        self.stop = trio.Event()
        self.stopped = trio.Event()
        self.failure: str | None = None
        self._asked = False

    async def run(self, app: AsgiApplication, state: MutableMapping[str, Any]) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
        try:
            await app(scope, self._receive, self._send)
        except Exception:
            # The specification lets an application refuse in this way.
            _log.debug("the ASGI application has no lifespan", exc_info=True)
        finally:
            self.started.set()
            self.stopped.set()

    async def _receive(self) -> _Message:
        await trio.lowlevel.checkpoint()
        if not self._asked:
            self._asked = True
            return {"type": "lifespan.startup"}
        await self.stop.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: _Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "lifespan.startup.failed":
            self.failure = str(message.get("message", ""))
        if message["type"].startswith("lifespan.startup"):
            self.started.set()
        else:
            self.stopped.set()
