"""A proxy that keeps what a slow server has answered, for a while, in a bounded cache: a middleware of the proxy.

Only resources are kept, and the tools that you name: those that change nothing, and ask nobody anything.
What a principal was given is given to nobody else. Errors, and results that wait for input, are not kept.

Run ``python examples/caching_proxy.py``. You see::

    [the server is asked about Rome]
    Ann reads: 31
    Bob reads: 31
    -- later
    [the server is asked about Rome]
    Ann reads: 31
    1 of 3 calls was answered from the cache
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, TypeAlias

import attrs
import trio

from trio_mcp import CallNext, Message, Proxy, Server, open_client, serve_http

Key: TypeAlias = tuple[str, str | None, Hashable]  # the request, who asks, and the revision or session
Entry: TypeAlias = tuple[float, int, Mapping[str, Any]]  # until when it is good, its size, the result


@attrs.define(eq=False)
class ResultCache:
    """A middleware that keeps results; those not used for longest give way.

    Attributes:
        tools: The tools whose results are kept.
        ttl: For how many seconds.
        max_entries: How many results are kept.
        max_bytes: How many bytes they and the requests behind them may have together, as JSON.
    """

    tools: frozenset[str]
    ttl: float = 60.0
    max_entries: int = 1_000
    max_bytes: int = 10_000_000
    size: int = attrs.field(default=0, init=False)
    hits: int = attrs.field(default=0, init=False)
    entries: OrderedDict[Key, Entry] = attrs.field(factory=OrderedDict[Key, Entry], init=False)

    async def __call__(self, message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        """Answer from the cache, or pass the message on and keep the result."""
        key = self._key(message)
        if key is None:
            return await call_next(message)
        kept = self.entries.get(key)
        if kept is not None and trio.current_time() < kept[0]:
            self.entries.move_to_end(key)
            self.hits += 1
            return kept[2]
        result = await call_next(message)
        if result and result.get("resultType", "complete") == "complete" and not result.get("isError"):
            self._drop(key)
            size = len(key[0]) + len(json.dumps(result))
            self.entries[key] = trio.current_time() + self.ttl, size, result
            self.size += size
            while len(self.entries) > self.max_entries or self.size > self.max_bytes:
                self._drop(next(iter(self.entries)))
        return result

    def _key(self, message: Message) -> Key | None:
        """Return what the result depends on, or `None` if it is not to be kept."""
        params = dict(message.params or {})
        meta = params.pop("_meta", {})
        is_kept = message.method == "resources/read" or (
            message.method == "tools/call" and params.get("name") in self.tools
        )
        if not is_kept or message.direction != "received" or "requestState" in params:
            return None
        # The form of a result depends on the revision: requests of 2026-07-28 name it, others have a session.
        revision = meta.get("io.modelcontextprotocol/protocolVersion") or message.connection
        principal = message.origin.principal if message.origin else None  # nobody gets what another was given
        return json.dumps([message.method, params], sort_keys=True), principal, revision

    def _drop(self, key: Key) -> None:
        if key in self.entries:
            self.size -= self.entries.pop(key)[1]


server = Server("weather", version="1.0")


@server.tool
async def temperature(city: str) -> str:
    """Return how warm it is in a city."""
    print(f"[the server is asked about {city}]")
    return "31"


async def main() -> None:
    """Ask the same three times, by two clients."""
    cache = ResultCache(frozenset({"temperature"}), ttl=1.0)
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve_http, Proxy(server, middleware=[cache]), port=0))
        async with open_client(url) as ann, open_client(url) as bob:
            for name, client, pause in (("Ann", ann, 0.0), ("Bob", bob, 0.0), ("Ann", ann, 1.5)):
                if pause:
                    print("-- later")
                    await trio.sleep(pause)
                print(f"{name} reads:", (await client.call_tool("temperature", {"city": "Rome"})).text)
        print(cache.hits, "of 3 calls was answered from the cache")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
