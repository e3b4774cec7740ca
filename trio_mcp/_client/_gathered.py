"""What is gathered of several servers: lists with names of the group, and changes that say which server has them.

Values and a queue; asking the servers is `_group`'s part.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar, final, overload

import attrs

from .._core._changes import Change, ChangeQueue, Resynced
from ._listen import ChangeIterator

_T = TypeVar("_T")


@final
@attrs.frozen
class Listed(Generic[_T]):
    """One item of a list of several servers. It has the attributes of `item`, too, such as `description`.

    Attributes:
        server: The server that has it.
        name: What the group calls it, for tools and prompts; the URI or URI template, for resources.
        item: The item as its server has listed it, with the server's own name for it.
    """

    server: str
    name: str
    item: _T

    def __getattr__(self, name: str) -> Any:
        # Nothing while it is being copied or unpickled: then it has no item yet.
        if name.startswith("__") or name == "item":
            raise AttributeError(name)
        return getattr(self.item, name)


def _read_only(given: Mapping[str, Exception]) -> Mapping[str, Exception]:
    return MappingProxyType(dict(given))


@final
@attrs.frozen
class Listing(Sequence[Listed[_T]], Generic[_T]):
    """A list of several servers: in the order of the servers, and of each in the server's order.

    Attributes:
        items: What was listed.
        failures: Why servers are missing from it, by name: `ServerUnavailable` if one is not ready,
            `trio.TooSlowError` if it did not answer within ``server_timeout``, or what the call has raised.
            Servers that are disabled, or have nothing of the kind, are not missing.
    """

    items: tuple[Listed[_T], ...]
    failures: Mapping[str, Exception] = attrs.field(factory=dict[str, Exception], converter=_read_only)

    @overload
    def __getitem__(self, index: int) -> Listed[_T]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Listed[_T]]: ...
    def __getitem__(self, index: int | slice) -> Listed[_T] | Sequence[Listed[_T]]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Listed[_T]]:
        return iter(self.items)


@final
@attrs.frozen
class GroupEvent:
    """A change at one server of a group.

    Attributes:
        server: Its name in the group.
        change: What has changed. `Resynced` also when the server has become ready since the block began.
    """

    server: str
    change: Change


@final
class GroupEvents(ChangeIterator[GroupEvent]):
    """The changes that `ClientGroup.listen` receives; one task iterates over them.

    Changes of one server come in their order, and servers take turns. A change that already waits is not added
    again. If more than ``max_events`` different changes of one server wait, or they take too much memory, one
    `Resynced` takes their place; other servers' changes stay. The iteration ends only when the block of the group
    is left.

    Attributes:
        refusals: Why servers notify no changes, by name: what they have answered.

    Raises:
        trio.ClosedResourceError: The block of `ClientGroup.listen` was left.
        trio.BusyResourceError: Another task is waiting already.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        super().__init__()
        self.refusals: dict[str, Exception] = {}
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._queues: OrderedDict[str, ChangeQueue] = OrderedDict()  # of the servers whose changes wait, in turn

    def _pop(self) -> GroupEvent | None:
        if not self._queues:
            return None
        server, queue = self._queues.popitem(last=False)
        change = queue.pop()
        if queue:
            self._queues[server] = queue
        return GroupEvent(server, change)

    # For the listening tasks.

    def _push(self, server: str, change: Change) -> None:
        """Add a change of a server."""
        queue = self._queues.get(server)
        if queue is None:
            queue = self._queues[server] = ChangeQueue(self._max_events, self._max_bytes)
        if not queue.push(change):
            queue.push(Resynced("too many changes waited for the listener"))
        self._changed.unpark_all()

    def _leave(self) -> None:
        """The block was left."""
        self._queues.clear()
        super()._leave()
