"""How a person logs in: a page in the browser, and a listener on this machine that takes the answer.

Spec: 2026-07-28, basic/authorization/security-considerations, "Communication Security" and "Open Redirection";
RFC 8252, section 7.3.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar, final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import trio

from .._errors import AuthorizationFailed
from .._http._target import bracketed
from .._oauth._code import DeviceCode
from .._oauth._metadata import is_loopback
from .._trio import open_hidden_nursery

OpenPage: TypeAlias = Callable[[str], Awaitable[str | None] | str | None]
"""Shows a URL to the person who is to log in. It may return the URL to which the browser was sent in the end.

A plain function runs in a thread. It is not waited for once the answer has come in another way."""

ShowCode: TypeAlias = Callable[[DeviceCode], object]
"""Shows a code to the person who is to log in, by a plain or async function. A plain one runs in a thread.

It is cancelled once the code was entered."""

_T = TypeVar("_T")

PATH: Final = "/callback"
"""Where answers come to, unless ``redirect_uri`` says otherwise."""

JUDGED_SECONDS: Final = 8.0
"""How long the browser waits to be shown what has come of the answer; the token is asked for meanwhile."""

MAX_CONNECTIONS: Final = 16
"""How many connections the listener serves at once; browsers open several. Of more, the one that has been silent
for longest gives way."""

CONNECTION_SECONDS: Final = 10.0
"""How long one connection may take until it has sent a request, and from then on."""

PAGE_SECONDS: Final = 1.0
"""How long a browser may take to take the last page, and then what has opened it to end."""

HEAD_BYTES: Final = 16 * 1024
"""The longest request."""

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<body style="font-family: sans-serif; margin: 4em auto; max-width:
32em"><h1>{title}</h1><p>{text}</p></body></html>
"""
_DONE: Final = ("You are logged in", "You can close this page and go back to the program.")
_REFUSED: Final = ("You are not logged in", "The program says why. You can close this page.")
_PENDING: Final = (
    "The answer has arrived",
    "The program says whether you are logged in. You can close this page.",
)
_STRANGE: Final = ("This page is not for you", "No login with this answer is under way.")


def path_for(issuer: str) -> str:
    """Return the path for answers of one authorization server and no other."""
    return f"{PATH}/{hashlib.sha256(issuer.encode()).hexdigest()[:16]}"


async def open_in_browser(url: str) -> None:
    """Show a URL on standard error, and open it in the browser of this machine, if it has one."""
    sys.stderr.write(f"To log in, open this page:\n  {url}\n")
    sys.stderr.flush()
    # It starts a program and may wait for it; what it does when nobody waits any more is the browser's affair.
    await trio.to_thread.run_sync(partial(webbrowser.open, url), abandon_on_cancel=True)


async def call_shown(function: Callable[[_T], object], shown: _T, name: str) -> object:
    """Show something to the person by the user's function, and return what it returns.

    A plain function may follow a page itself, so it runs in a thread; cancelled, that goes on alone.

    Raises:
        AuthorizationFailed: The function raises something, which is the cause: its text may have the answer in
            it, and is not shown.
    """
    try:
        if inspect.iscoroutinefunction(function):
            returned: object = await function(shown)
        else:
            # In a tuple, because it may return a coroutine, which Trio would refuse.
            (returned,) = await trio.to_thread.run_sync(lambda: (function(shown),), abandon_on_cancel=True)
            if inspect.isawaitable(returned):
                returned = await returned
    except AuthorizationFailed:
        raise
    except Exception as error:
        # The boundary of the user's code.
        raise AuthorizationFailed(f"{name} raised {type(error).__name__}") from error
    return returned


async def show_page(open_page: OpenPage, url: str) -> str | None:
    """Show a URL to the person by the user's function, and return what it returns.

    Raises:
        AuthorizationFailed: As `call_shown`. Or it returns something else.
    """
    returned = await call_shown(open_page, url, "open_page")
    if returned is not None and not isinstance(returned, str):
        raise AuthorizationFailed(
            "open_page must return None, or the URL that the browser was sent to in the end as a str, and not "
            f"{type(returned).__name__}"
        )
    return returned


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
        """Show the person what has come of the answer, once there is a token or none.

        Waits for the browser to take the page, not for long.
        """
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
            scope.deadline = trio.current_time() + CONNECTION_SECONDS
            with scope, suppress(trio.BrokenResourceError, h11.ProtocolError):
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
        scope.deadline = trio.current_time() + CONNECTION_SECONDS
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
        if status == 200:
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
        with trio.move_on_after(JUDGED_SECONDS):
            await self._judged.wait()
        if not self._judged.is_set():
            return 200, _PENDING
        return 200, (_DONE if self._accepted else _REFUSED)


_ports: Final = trio.lowlevel.RunVar[WeakValueDictionary[int, trio.Lock]]("trio_mcp_login_ports")


@asynccontextmanager
async def port_in_turn(redirect_uri: str) -> AsyncGenerator[None]:
    """Hold the port of an address for a block: the logins of this process that need it wait in line."""
    locks = _ports.get(WeakValueDictionary())
    _ports.set(locks)
    async with locks.setdefault(urlsplit(redirect_uri).port or 80, trio.Lock()):
        yield


@asynccontextmanager
async def open_listener(redirect_uri: str | None, path: str = PATH) -> AsyncGenerator[LoginListener]:
    """Listen for the answer to a login on this machine, for as long as the block runs.

    Args:
        redirect_uri: Where to listen: `None` for a port that the system gives.
        path: The path there.

    Raises:
        AuthorizationFailed: It is not possible there.
    """
    parts = urlsplit(redirect_uri or f"http://127.0.0.1:0{path}")
    host = parts.hostname or ""
    hosts = [host] if redirect_uri is not None else [host, "::1"]  # a machine may have one of the two alone
    if parts.scheme != "http" or not is_loopback(host):
        raise AuthorizationFailed(
            f"redirect_uri is {redirect_uri}, where this program cannot listen: open_page must return the URL "
            "that the browser was sent to"
        )
    listeners: list[trio.SocketListener] = []
    failure: OSError | None = None
    while not listeners and hosts:
        host = hosts.pop(0)
        try:
            listeners = await trio.open_tcp_listeners(80 if parts.port is None else parts.port, host=host)
        except OSError as error:
            failure = failure or error
    if not listeners:
        where = redirect_uri or "127.0.0.1"
        raise AuthorizationFailed(f"cannot listen at {where} for the answer to a login: {failure}") from failure
    if redirect_uri is None:
        port: int = listeners[0].socket.getsockname()[1]
        redirect_uri = f"http://{bracketed(host)}:{port}{path}"
    listener = LoginListener(redirect_uri)
    async with open_hidden_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, listener.serve, listeners))
        try:
            yield listener
        finally:
            nursery.cancel_scope.cancel(reason="nobody waits for an answer to the login any more")
