"""A server that follows a script, for clients that listen, and that can be lost and found again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from inside_client import open_module
from wires import ScriptedChannel, answer, refusal

from trio_mcp import Channel, Client, ConnectionLost, Limits, RestartPolicy, Revision, open_client

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

LEGACY = [revision for revision in Revision if not revision.is_modern]
MODERN = "2026-07-28"

Script = Callable[["ScriptedServer", dict[str, Any]], object]

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


class ScriptedServer:
    """A server of one revision. By default it grants every subscription, and answers everything else with `{}`.

    Attributes:
        channel: The connection that there is now.
        sent: What the client has sent over the connection that there is now.
        connections: How many there have been.
    """

    def __init__(
        self, revision: str = MODERN, script: Script | None = None, capabilities: dict[str, Any] | None = None
    ) -> None:
        self.revision = revision
        self.script = script
        self.capabilities = CAPABILITIES if capabilities is None else capabilities
        self.connections = 0
        self.restart: RestartPolicy | None = RestartPolicy(max_restarts=3, first_delay=1)
        self.survives_probe = False
        self.name = "the server"
        self.channel = ScriptedChannel(self._reply)

    @property
    def sent(self) -> list[dict[str, Any]]:
        return self.channel.sent

    def requests(self, method: str) -> list[dict[str, Any]]:
        """What the client has asked, on this connection."""
        return [message for message in self.sent if message.get("method") == method and "id" in message]

    def goodbyes(self) -> list[Any]:
        """The ids of the requests that the client has given up, on this connection."""
        return [m["params"]["requestId"] for m in self.sent if m.get("method") == "notifications/cancelled"]

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        del limits
        if self.connections:
            self.channel = ScriptedChannel(self._reply)
        self.connections += 1
        await trio.lowlevel.checkpoint()
        yield self.channel

    def lose(self) -> None:
        """Let the connection go."""
        self.channel.hang_up(ConnectionLost("the server fell over"))

    def say(self, *messages: object) -> None:
        self.channel.say(*messages)

    def _reply(self, message: dict[str, Any]) -> object:
        method = message.get("method")
        if "id" not in message:
            return None
        if method == "server/discover":
            if self.revision != MODERN:
                return refusal(message, -32601, "what is that?")
            result = {"supportedVersions": [MODERN], "capabilities": self.capabilities, "serverInfo": SERVER_INFO}
            return answer(message, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result})
        if method == "initialize":
            result = {"protocolVersion": self.revision, "capabilities": self.capabilities}
            return answer(message, {**result, "serverInfo": SERVER_INFO})
        scripted = None if self.script is None else self.script(self, message)
        if scripted is not None:
            return None if scripted is NO_ANSWER else scripted
        if method == "subscriptions/listen":
            return acknowledge(message["id"], message["params"]["notifications"])
        return answer(message, {})


def _itself(target: Any, _: object, *, name: str | None) -> Any:
    return target


SERVER_INFO = {"name": "scripted", "version": "1"}
NO_ANSWER = object()


def note(method: str, subscription: object = None, **params: Any) -> dict[str, Any]:
    """Return a notification, of a subscription if one is given."""
    if subscription is not None:
        params["_meta"] = {SUBSCRIPTION_ID: subscription}
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def acknowledge(subscription: object, granted: dict[str, Any]) -> dict[str, Any]:
    """Return the acknowledgement of a subscription."""
    return note("subscriptions/acknowledged", subscription, notifications=granted)


def the_end(subscription: object) -> dict[str, Any]:
    """Return the answer that ends a subscription in an orderly way."""
    result = {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: subscription}}
    return {"jsonrpc": "2.0", "id": subscription, "result": result}


@asynccontextmanager
async def open_scripted(server: ScriptedServer, **options: Any) -> AsyncGenerator[Client]:
    """Open a client on it, for the one revision that it speaks.

    It is its own connector, so that it can be lost and found again without a process.
    """
    target: Any = server
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_module, "connector_for", _itself)
        async with open_client(target, revision=server.revision, **options) as client:
            yield client


async def settle() -> None:
    """Wait until everybody waits for somebody else."""
    await trio.testing.wait_all_tasks_blocked()
