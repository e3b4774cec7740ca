"""Processes that serve together what one server is, each as its endpoint sees the others.

What clients carry names a process: the ids of sessions and sealed states begin with its tag, ``w7.``. A number is
never used again, so the tag of a process that has ended leads nowhere; a session that is kept in a store is then
taken by the process that its client comes to. The tag of a state is part of what it is sealed for, so that nobody
can send it elsewhere.
"""

from __future__ import annotations

import abc
import hashlib
import hmac
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, final
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

import trio

from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import Request
from .._core._http1 import PROTOCOL_VERSION, SESSION_ID
from .._core._http_rules import busy
from .._endpoint._call import HttpCall, RequestSlot
from .._endpoint._endpoint import Endpoint
from .._endpoint._groups import Answers, Decodes, ServesModern
from .._endpoint._legacy import LegacySessions
from .._endpoint._session import session_ended
from .._endpoint._shared import SharedStore
from .._errors import RequestError
from .._logs import Log
from .._revisions import Revision
from .._server._parking import Service, tag_of
from .._server._serve import CannotJoin
from .._server._server import Hosted
from .._trio import open_hidden_nursery
from ._forwarding import ForwardedCall, forward
from ._frames import HEAD, LINK, FrameReader
from ._links import Links
from ._reach import Reach, StoreReach

_log: Final = Log("trio_mcp.workers")

_MODERN: Final = frozenset(str(each) for each in Revision if each.is_modern)

MAX_MOVED: Final = 10_000
"""Of how many sessions it is remembered who has taken them; of others that is looked up again."""

ATTEMPTS: Final = 3
"""How many processes a request follows its session to that was taken meanwhile."""


@final
class Members:
    """The processes of a group, as the endpoint of one of them sees them; a `Group`.

    Args:
        reach: How the others are reached.
        number: The number of this process.
        key: What all of them know, and nobody else.
        store: Where they keep sessions, if they outlive their process.

    Attributes:
        links: What this process tells the others, and hears from them.
        store: See above.
    """

    def __init__(self, reach: Reach, number: int, key: bytes, store: SharedStore | None = None) -> None:
        self._reach = reach
        self._number = number
        self._key = key
        self.links: Final = Links(reach, number, learns=store is not None)
        self.store: Final = store
        self._moved = OrderedDict[str, int]()

    # What the group shares.

    def secret(self, purpose: str) -> bytes:
        """Return a secret that the group shares, for one purpose."""
        return hmac.digest(self._key, f"trio-mcp workers: {purpose}".encode("ascii"), hashlib.sha256)

    def join(self, service: Service[Any], served: Hosted) -> None:
        """Have a server say in what its clients carry that this process remembers it."""
        service.join(f"w{self._number}.", self.secret("states"))
        hub = served.join(self.secret("cursors"))
        if hub is not None:
            self.links.attach(hub)

    # What the others forward.

    @asynccontextmanager
    async def serving(self, endpoint: Endpoint) -> AsyncGenerator[None]:
        """Serve what other processes forward to an endpoint while the body runs."""

        async def serve(stream: trio.SocketStream) -> None:
            await self._serve(stream, endpoint)

        async with self._reach.listening() as listener:
            if self.store is not None:
                self.store.on_doubt = endpoint.legacy.look_again
                self.links.know(await self.store.others())
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, serve, [listener])  # noqa: ASYNC113 - it listens already
                await self.links.start(nursery)
                yield
                self.links.detach()
                nursery.cancel_scope.cancel(reason="the endpoint was closed")

    async def _serve(self, stream: trio.SocketStream, endpoint: Endpoint) -> None:
        """Serve a connection of another process."""
        reader = FrameReader(stream)
        try:
            async with stream:
                found = await reader.read() if await self._reach.admit(stream) else None
                if found is not None and found[0] == LINK:
                    await self.links.hear(found[1], reader)
                elif found is not None and found[0] == HEAD:
                    call = ForwardedCall(stream, _json.decode(found[1]), endpoint.settings)
                    del found
                    if self.store is not None and not await self._is_here(call, endpoint.legacy):
                        await call.leave()
                        return
                    if not await call.take():
                        return  # it was refused there meanwhile: its client may ask again
                    async with open_hidden_nursery() as nursery:
                        nursery.start_soon(call.receive, reader)
                        await endpoint.handle(call)
                        nursery.cancel_scope.cancel()
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection of another process failed")

    @staticmethod
    async def _is_here(call: HttpCall, sessions: LegacySessions) -> bool:
        """Whether what a request goes on with is here; of what is no session, the request itself finds out."""
        id = _session_of(call)
        return id is None or await sessions.has(id)

    def _owner(self, name: object) -> int | None:
        """Return the number of the other process that remembers what has this name; `None` if no other does."""
        tag = tag_of(name) if isinstance(name, str) else ""
        number = int(tag[1:-1]) if tag else self._number
        return None if number == self._number else number

    def by_session(self, answer: Answers, sessions: LegacySessions) -> Answers:
        """Forward requests of sessions that other processes have, and have the others answered."""

        async def serve(call: HttpCall, slot: RequestSlot) -> None:
            id = _session_of(call)
            if id is not None and _may_go_on(call) and not sessions.is_here(id):
                if self.store is not None:
                    if await self._found_elsewhere(call, id, sessions):
                        return
                elif (owner := self._owner(id)) is not None:
                    if not await forward(call, self._reach, owner):
                        raise session_ended()
                    return
            await answer(call, slot)

        return serve

    async def _found_elsewhere(self, call: HttpCall, id: str, sessions: LegacySessions) -> bool:
        """Have the process answer a request that has its session. Returns false if it is to be answered here.

        That is so if no process has the session any more: then it is one of this process from now on; or if there
        is none.
        """
        owner = self._moved.get(id) or self._owner(id)
        try:
            for _ in range(ATTEMPTS):
                if owner is not None and await forward(call, self._reach, owner):
                    return True
                self._moved.pop(id, None)
                owner = await sessions.take(call, id)
                if owner is None:
                    return False
                self._moved[id] = owner
                if len(self._moved) > MAX_MOVED:
                    self._moved.popitem(last=False)
        except RequestError as error:
            raise busy(503, error.message) from None
        raise busy(503, "the session is being taken by another process")

    def by_query(self, answer: Answers) -> Answers:
        """The same for HTTP+SSE, where the session is in the query, and ends with its process."""

        async def serve(call: HttpCall, slot: RequestSlot) -> None:
            ids = parse_qs(call.query).get("session_id", [])
            owner = self._owner(ids[0]) if len(ids) == 1 else None
            if owner is None or not _may_go_on(call):
                await answer(call, slot)
            elif not await forward(call, self._reach, owner):
                raise session_ended()

        return serve

    def by_state(self, decode: Decodes, serve: ServesModern) -> tuple[Decodes, ServesModern]:
        """Forward modern requests that go on with what other processes have, and have the others served.

        They are forwarded as they were received: a proof may have a digest of the body. Where the other one has
        ended, the request is served here: a handler that is run again needs no more than its state, and any other
        state is refused.
        """
        # Of requests that are about to be forwarded; others are not kept.
        bodies = WeakKeyDictionary[HttpCall, tuple[int, bytes]]()

        def decode_and_keep(call: HttpCall, body: bytes) -> Any:
            value = decode(call, body)
            if is_object(value) and is_object(params := value.get("params")):
                owner = self._owner(_carried(value.get("method"), params))
                if owner is not None and _may_go_on(call):
                    bodies[call] = owner, body
            return value

        async def serve_or_forward(call: HttpCall, request: Request) -> None:
            found = bodies.pop(call, None)
            if found is None or not await self._forward_modern(call, *found):
                await serve(call, request)

        return decode_and_keep, serve_or_forward

    async def _forward_modern(self, call: HttpCall, owner: int, body: bytes) -> bool:
        try:
            return await forward(call, self._reach, owner, body)
        except RequestError as error:
            raise busy(503, error.message) from None


def _session_of(call: HttpCall) -> str | None:
    """Return the id of the session that a request belongs to; the modern era has none, whatever is sent."""
    return None if call.headers.get(PROTOCOL_VERSION) in _MODERN else call.headers.get(SESSION_ID)


def _may_go_on(call: HttpCall) -> bool:
    """Whether a request may be forwarded: none is twice, and a WebSocket is a session by itself."""
    return not (isinstance(call, ForwardedCall) or call.is_websocket)


def _carried(method: object, params: Mapping[str, Any]) -> object:
    """Return by what a request names what it goes on with: a state, or the id of a task, or the first of several.

    What else is listened to beside tasks is heard in every process.
    """
    if method == "subscriptions/listen":
        wanted = params.get("notifications")
        tasks = wanted.get("taskIds") if is_object(wanted) else None
        return tasks[0] if is_array(tasks) and tasks else None
    state = params.get("requestState")
    return params.get("taskId") if state is None and str(method).startswith("tasks/") else state


class Store(abc.ABC):
    """A store in which processes find each other, and what each remembers: ``serve_http(server, store=…)``."""

    @abc.abstractmethod
    def open(self) -> AbstractAsyncContextManager[SharedStore]:
        """Join the store for as long as the block runs."""

    @asynccontextmanager
    async def join(self) -> AsyncGenerator[Members]:
        """Be one of the processes that serve with this store, for as long as the block runs.

        Raises:
            OSError: The store cannot be used.
        """
        async with AsyncExitStack() as stack:
            try:
                store = await stack.enter_async_context(self.open())
            except (OSError, sqlite3.Error) as error:
                where = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
                reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
                raise CannotJoin(f"the store cannot be used: {reason}{where}") from error
            yield Members(StoreReach(store), store.number, store.secret, store)
