"""A client of which every message is written by hand, and what the server said to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import trio
import trio.testing
from inside_core import Sealer
from inside_server import ServerSession, open_service
from raw import META
from wires import ScriptedChannel

from trio_mcp import Context, Limits, Revision, Server, Shutdown

__all__ = [
    "LISTS",
    "SUBSCRIPTION_ID",
    "Talk",
    "connect",
    "full_server",
    "listen",
    "note",
    "request",
    "session_of",
]

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
LISTS = ("tools", "prompts", "resources")


def request(id: int | str, method: str, revision: Revision, **params: object) -> dict[str, Any]:
    """Return a request as it is in a revision."""
    if revision.is_modern:
        params = {**params, "_meta": {**META, "io.modelcontextprotocol/protocolVersion": str(revision)}}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def listen(id: int | str, _timeout: float | None = None, **wanted: object) -> dict[str, Any]:
    """Return a request for notifications."""
    asked = request(id, "subscriptions/listen", Revision.V2026_07_28, notifications=wanted)
    if _timeout is not None:
        asked["params"]["_meta"] = {**META, "trio-mcp/timeoutMs": _timeout}
    return asked


def note(method: str, **params: object) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


class Talk:
    """One connection to a server."""

    def __init__(self, server: Server[Any], shutdown: Shutdown | None = None) -> None:
        self.server = server
        self.channel = ScriptedChannel()
        self.shutdown = Shutdown() if shutdown is None else shutdown
        self.ended = False

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve it until it ends."""
        await self.server.serve_channel(self.channel, shutdown=self.shutdown, task_status=task_status)
        self.ended = True

    async def say(self, *messages: object) -> list[dict[str, Any]]:
        """Say something, and return what the server says until it has nothing to do."""
        before = len(self.channel.sent)
        self.channel.say(*messages)
        await trio.testing.wait_all_tasks_blocked()
        return self.channel.sent[before:]

    async def heard(self, since: int = 0) -> list[dict[str, Any]]:
        """Return what the server has said, after so many messages, when it has nothing to do any more."""
        await trio.testing.wait_all_tasks_blocked()
        return self.channel.sent[since:]

    async def new(self) -> list[dict[str, Any]]:
        """Return what the server has said since this was called last."""
        messages = await self.heard()
        self.channel.sent = []
        return messages

    async def ask(self, method: str, revision: Revision, id: int | str = "q", **params: object) -> dict[str, Any]:
        """Make a request, and return its answer."""
        messages = await self.say(request(id, method, revision, **params))
        (answer,) = [message for message in messages if message.get("id") == id]
        return answer

    async def shake_hands(self, revision: Revision, *, initialized: bool = True) -> dict[str, Any]:
        """Begin a session of the legacy era, and return what the server can do."""
        hello = {
            "protocolVersion": str(revision),
            "capabilities": {"roots": {"listChanged": True}},
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        messages = await self.say({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
        if initialized:
            await self.say(note("notifications/initialized"))
        self.channel.sent = []
        capabilities: dict[str, Any] = messages[0]["result"]["capabilities"]
        return capabilities


def full_server(limits: Limits | None = None) -> Server[Any]:
    """Return a server that has everything that can change."""
    server = Server("shelf", version="1", limits=limits)

    @server.tool
    async def count() -> int:
        return 1

    async def nothing(_: Mapping[str, Any], __: Context[Any]) -> dict[str, Any]:
        return {"resources": [], "prompts": []}

    for method in ("resources/list", "resources/read", "prompts/list"):
        server.request_handler(method)(nothing)
    return server


async def connect(nursery: trio.Nursery, server: Server[Any]) -> Talk:
    """Return a new connection to a server."""
    talk = Talk(server)
    await nursery.start(talk.serve)
    return talk


@asynccontextmanager
async def session_of(server: Server) -> AsyncGenerator[ServerSession]:
    """Return a session that has no connection yet."""
    async with open_service("a test", nullcontext(None), Sealer(), Limits()) as service:
        yield ServerSession(server._application, service, service.background)
