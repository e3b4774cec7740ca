"""How a person logs in: a page in the browser, and a listener on this machine that takes the answer.

Spec: 2026-07-28, basic/authorization/security-considerations, "Communication Security" and "Open Redirection";
RFC 8252, section 7.3.
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeAlias, final
from urllib.parse import urlsplit

import trio

from .._errors import AuthorizationFailed
from .._oauth._metadata import is_loopback
from .._trio import open_hidden_nursery

OpenPage: TypeAlias = Callable[[str], Awaitable[str | None] | str | None]
"""Shows a URL to the person who is to log in. It may return the URL to which the browser was sent in the end."""

PATH: Final = "/callback"
"""Where answers come to, unless ``redirect_uri`` says otherwise."""

MAX_CONNECTIONS: Final = 16
"""How many connections the listener serves at once; browsers open several. Of more, the one that has been silent
for longest gives way."""

CONNECTION_SECONDS: Final = 10.0
"""How long one connection may take."""

PAGE_SECONDS: Final = 1.0
"""How long a browser may take to take the last page."""

HEAD_BYTES: Final = 16 * 1024
"""The longest request."""

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<body style="font-family: sans-serif; margin: 4em auto; max-width:
32em"><h1>{title}</h1><p>{text}</p></body></html>
"""
_DONE: Final = ("You are logged in", "You can close this page and go back to the program.")
_REFUSED: Final = ("You are not logged in", "The program says why. You can close this page.")
_STRANGE: Final = ("This page is not for you", "No login with this answer is under way.")


async def open_in_browser(url: str) -> None:
    """Show a URL on standard error, and open it in the browser of this machine, if it has one."""
    sys.stderr.write(f"To log in, open this page:\n  {url}\n")
    sys.stderr.flush()
    # It starts a program and may wait for it; what it does when nobody waits any more is the browser's affair.
    await trio.to_thread.run_sync(partial(webbrowser.open, url), abandon_on_cancel=True)


@final
class LoginListener:
    """Takes the answer to a login. Made by `open_listener`.

    Attributes:
        redirect_uri: Where browsers are to be sent.
    """

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._path = urlsplit(redirect_uri).path or "/"
        self._is_wanted: Callable[[str], bool] | None = None
        self._answer: str | None = None
        self._answered = trio.Event()
        self._accepted = False
        self._judged = trio.Event()
        self._shown = trio.Event()
        self._places = trio.Semaphore(MAX_CONNECTIONS)
        self._silent: dict[trio.CancelScope, None] = {}  # connections without a request so far, the oldest first

    async def wait_answer(self, is_wanted: Callable[[str], bool]) -> str:
        """Wait for the one answer that is wanted; all others are turned away."""
        self._is_wanted = is_wanted
        await self._answered.wait()
        assert self._answer is not None
        return self._answer

    async def finish(self, *, accepted: bool) -> None:
        """Show the person what has become of the answer. Waits for the browser to take the page, not for long."""
        self._accepted = accepted
        self._judged.set()
        if self._answered.is_set():
            with trio.move_on_after(PAGE_SECONDS):
                await self._shown.wait()
        await trio.lowlevel.checkpoint()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection: one request."""
        import h11  # when a person logs in

        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            # A page can open connections and say nothing, but must not keep the answer from coming.
            silent = next(iter(self._silent), None)
            if silent is None:
                await trio.aclose_forcefully(stream)
                return
            del self._silent[silent]
            silent.cancel(reason="another connection needs the place")
            await self._places.acquire()
        scope = trio.CancelScope()
        self._silent[scope] = None
        try:
            with (
                trio.move_on_after(CONNECTION_SECONDS),
                scope,
                suppress(trio.BrokenResourceError, h11.ProtocolError),
            ):
                await self._serve(stream, scope)
        finally:
            self._silent.pop(scope, None)
            self._places.release()
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        import h11

        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(HEAD_BYTES)))
        self._silent.pop(scope, None)
        if not isinstance(event, h11.Request):
            await trio.lowlevel.checkpoint()
            return
        host = next((value.decode("latin-1") for name, value in event.headers if name == b"host"), "")
        status, page = await self._respond(event.method, event.target.decode("ascii", "replace"), host)
        body = _PAGE.format(title=page[0], text=page[1]).encode("utf-8")
        fields = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        sent = connection.send(h11.Response(status_code=status, headers=fields)) or b""
        if event.method != b"HEAD":
            sent += connection.send(h11.Data(data=body)) or b""
        await stream.send_all(sent)
        await stream.send_eof()
        if self._judged.is_set():
            self._shown.set()

    async def _respond(self, method: bytes, target: str, host: str) -> tuple[int, tuple[str, str]]:
        await trio.lowlevel.checkpoint()
        # A page elsewhere can send a browser here under a name of its own.
        if target.partition("?")[0] != self._path or host != urlsplit(self.redirect_uri).netloc:
            return 404, _STRANGE
        url = f"{self.redirect_uri.partition('?')[0]}?{target.partition('?')[2]}"
        if method != b"GET" or self._is_wanted is None or self._answered.is_set() or not self._is_wanted(url):
            return 400, _STRANGE
        self._answer = url
        self._answered.set()
        await self._judged.wait()
        return 200, (_DONE if self._accepted else _REFUSED)


@asynccontextmanager
async def open_listener(redirect_uri: str | None) -> AsyncGenerator[LoginListener]:
    """Listen for the answer to a login on this machine, for as long as the block runs.

    Args:
        redirect_uri: Where to listen: `None` for a port that the system gives.

    Raises:
        AuthorizationFailed: It is not possible there.
    """
    parts = urlsplit(redirect_uri or f"http://127.0.0.1:0{PATH}")
    host = parts.hostname or ""
    if parts.scheme != "http" or not is_loopback(host):
        raise AuthorizationFailed(
            f"redirect_uri is {redirect_uri}, where this program cannot listen: open_page must return the URL "
            "that the browser was sent to"
        )
    try:
        listeners = await trio.open_tcp_listeners(80 if parts.port is None else parts.port, host=host)
    except OSError as error:
        raise AuthorizationFailed(
            f"cannot listen at {redirect_uri or host} for the answer to a login: {error}"
        ) from error
    if redirect_uri is None:
        port: int = listeners[0].socket.getsockname()[1]
        redirect_uri = f"http://127.0.0.1:{port}{PATH}"
    listener = LoginListener(redirect_uri)
    async with open_hidden_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, listener.serve, listeners))
        try:
            yield listener
        finally:
            nursery.cancel_scope.cancel(reason="nobody waits for an answer to the login any more")
