"""What a client remembers of its server: results that are fresh, and what tools promise to give."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

from .._codec import _json
from .._codec._convert import to_wire
from .._core._changes import Change, ToolsListChanged
from .._limits import Limits
from .._revisions import LATEST
from ..types import ClientCapabilities
from ._cache import ClientCache, ResponseCache
from ._outputs import OutputChecks

__all__ = ["ClientMemory"]


@final
class ClientMemory:
    """What a client remembers, for as long as it lives.

    Args:
        cache: Where results are kept, if anywhere.
        partition: Whom the private ones belong to.
        capabilities: What the client says it can do.
        limits: How much is remembered.
        server: Which server it is, as far as its client knows; see `identity_of`.

    Attributes:
        cache: The results.
        outputs: What tools promise.
    """

    def __init__(
        self,
        cache: ResponseCache | None,
        partition: str | None,
        capabilities: ClientCapabilities,
        limits: Limits,
        server: Hashable = None,
    ) -> None:
        said = _json.encode(to_wire(capabilities, LATEST))
        self.cache: Final = ClientCache(cache, partition, server, said, limits.cache_timeout)
        self.outputs: Final = OutputChecks(
            limits.max_known_tools, limits.max_schema_bytes, limits.max_remembered_bytes // 2
        )

    def forget(self, change: Change | None) -> None:
        """Forget what a change has made outdated, or everything."""
        self.cache.forget(change)
        if change is None or isinstance(change, ToolsListChanged):
            self.outputs.forget()
