"""A server of any revision that follows a script, so that tests of the client depend on no server of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import trio
from wires import ScriptedChannel, answer, refusal

from trio_mcp import Outgoing, Revision

__all__ = ["ALL", "LEGACY", "MODERN", "Scripted", "ScriptedServer", "never_asked"]

ALL = tuple(Revision)
LEGACY = tuple(revision for revision in Revision if not revision.is_modern)
MODERN = Revision.V2026_07_28

Scripted: TypeAlias = Callable[[dict[str, Any]], object] | Mapping[str, Any]
"""What to do about a request: a result, or a function of the message that returns one.

A function may also return a whole message (it has ``jsonrpc``), or `None` to stay silent.
"""


def never_asked(_: object) -> Any:
    """Be a handler that must not be called."""
    raise AssertionError("asked all the same")


class ScriptedServer(ScriptedChannel):
    """Shakes hands by itself, and does what the script says about everything else.

    Attributes:
        revision: What it speaks.
        capabilities: What it says it can do.
    """

    def __init__(
        self,
        revision: Revision,
        script: Mapping[str, Scripted] | None = None,
        *,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(self._react)
        self.revision = revision
        self.script: dict[str, Scripted] = dict(script or {})
        self.capabilities = dict(capabilities or {})
        self._news = trio.lowlevel.ParkingLot()

    def complete(self, **members: Any) -> dict[str, Any]:
        """Return a result as a server of this revision would give it."""
        return {"resultType": "complete", **members} if self.revision.is_modern else members

    def _react(self, message: dict[str, Any]) -> object:
        method = message.get("method")
        if method is None or "id" not in message:
            return None
        if method == "server/discover" and self.revision.is_modern and method not in self.script:
            versions = {"supportedVersions": [self.revision], "capabilities": self.capabilities}
            return answer(
                message, self.complete(**versions, ttlMs=0, cacheScope="private", instructions="Be kind.")
            )
        if method == "initialize" and not self.revision.is_modern:
            said: dict[str, Any] = {"protocolVersion": self.revision, "capabilities": self.capabilities}
            return answer(
                message, {**said, "serverInfo": {"name": "scripted", "version": "1"}, "instructions": "Be kind."}
            )
        if method not in self.script:
            return refusal(message, -32601, f"no method {method}")
        scripted = self.script[method]
        outcome: Any = scripted(message) if callable(scripted) else scripted
        if outcome is None or "jsonrpc" in outcome:
            return outcome
        return answer(message, dict(outcome))

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await super().send(messages)
        self._news.unpark_all()

    async def wait_for(self, is_it: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first message the client has sent, or will send, that is looked for."""
        while True:
            for message in self.sent:
                if is_it(message):
                    found: dict[str, Any] = message
                    return found
            await self._news.park()

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, id: object = "q1"
    ) -> dict[str, Any]:
        """Ask the client something, as servers of the legacy era do, and return its whole answer."""
        question: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        self.say(question if params is None else {**question, "params": params})
        return await self.wait_for(lambda message: message.get("id") == id and "method" not in message)

    def tell(self, method: str, **params: Any) -> None:
        """Send the client a notification."""
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def requests(self, method: str) -> list[dict[str, Any]]:
        """Return the requests of one method that the client has sent."""
        return [message for message in self.sent if message.get("method") == method and "id" in message]

    def notifications(self, method: str) -> list[dict[str, Any]]:
        """Return the notifications of one method that the client has sent."""
        return [message for message in self.sent if message.get("method") == method and "id" not in message]

    @property
    def declared(self) -> dict[str, Any]:
        """What the client says it can do."""
        if self.revision.is_modern:
            meta = self.sent[-1]["params"]["_meta"]
            capabilities: dict[str, Any] = meta["io.modelcontextprotocol/clientCapabilities"]
        else:
            capabilities = self.requests("initialize")[0]["params"]["capabilities"]
        return capabilities
