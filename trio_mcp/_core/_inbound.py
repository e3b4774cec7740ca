"""The table of inbound requests: which run, which wait, which must be refused.

Decisions only: no I/O, no Trio, no clock. The peer starts and cancels tasks; this table decides when.
"""

from __future__ import annotations

import enum
from builtins import id as identity_of
from collections import OrderedDict
from typing import Final, Generic, TypeVar, final

import attrs

from .._codec._json import weight_of
from .._codec._jsonrpc import RequestId

WAITING_OVERHEAD: Final = 256
"""Bytes that a waiting request takes besides its own: its entry, its id, the object around its bytes."""

_R = TypeVar("_R")  # what the owner keeps for a running request
_W = TypeVar("_W")  # what the owner keeps for a waiting request


@final
class Admission(enum.Enum):
    """What to do with a request that was received."""

    RUN = "start it now"
    WAIT = "keep it: as many as may run are running"
    DUPLICATE = "refuse it: a request with this id is not answered yet"


@final
@attrs.define(eq=False, kw_only=True)
class InboundTable(Generic[_R, _W]):
    """The requests of the peer that are not answered yet.

    A request runs at once unless `max_running` requests run already, or those that run have `max_running_bytes`
    together. Then it waits, in order of arrival. Responses, cancellations and pings are not entered here, so they
    are never delayed.

    A long-lived request is open until one of the two sides ends it. It takes no place among those that run, or a
    hundred of them would leave none for a short one; there are separate limits for them.

    Args:
        max_running: How many may run at once.
        max_running_bytes: What the running ones may weigh together.
        max_waiting_bytes: What the waiting ones may weigh together before it `is_overfull`.
        max_long_lived: How many places long-lived ones may take at once; a request may take more than one.
        max_long_lived_bytes: What the long-lived ones may weigh together.

    Attributes:
        is_overfull: Whether so much waits that no more should be put off.
    """

    _max_running: int = attrs.field(alias="max_running")
    _max_running_bytes: int = attrs.field(alias="max_running_bytes")
    _max_waiting_bytes: int = attrs.field(alias="max_waiting_bytes")
    _max_long_lived: int = attrs.field(default=0, alias="max_long_lived")
    _max_long_lived_bytes: int = attrs.field(default=0, alias="max_long_lived_bytes")
    is_overfull: bool = attrs.field(default=False, init=False)
    _running: dict[RequestId, tuple[_R, int, object]] = attrs.field(
        factory=dict[RequestId, tuple[_R, int, object]], init=False
    )
    _running_bytes: int = attrs.field(default=0, init=False)
    _unweighed: dict[RequestId, bytes] = attrs.field(factory=dict[RequestId, bytes], init=False)
    _long_lived: dict[RequestId, tuple[_R, int, int, object]] = attrs.field(
        factory=dict[RequestId, tuple[_R, int, int, object]], init=False
    )
    _long_lived_places: int = attrs.field(default=0, init=False)
    _long_lived_bytes: int = attrs.field(default=0, init=False)
    _waiting: OrderedDict[RequestId, tuple[_W, int, object]] = attrs.field(
        factory=OrderedDict[RequestId, tuple[_W, int, object]], init=False
    )
    _waiting_bytes: int = attrs.field(default=0, init=False)
    _from: dict[int, dict[RequestId, None]] = attrs.field(
        factory=dict[int, dict[RequestId, None]], init=False
    )  # by identity of the origin

    @property
    def running(self) -> int:
        """How many requests run."""
        return len(self._running)

    @property
    def long_lived(self) -> int:
        """How many long-lived requests there are."""
        return len(self._long_lived)

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return len(self._waiting)

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits for a place."""
        return bool(self._waiting)

    @property
    def is_relieved(self) -> bool:
        """Whether the waiting requests take at most half of `max_waiting_bytes`."""
        return self._waiting_bytes * 2 <= self._max_waiting_bytes

    def admit(self, id: RequestId) -> Admission:
        """Decide about a new request. Call `run`, `run_long_lived` or `wait` next, with no checkpoint between."""
        if id in self._running or id in self._long_lived or id in self._waiting:
            return Admission.DUPLICATE
        return Admission.RUN if not self._waiting and self._has_room else Admission.WAIT

    @property
    def _has_room(self) -> bool:
        if len(self._running) >= self._max_running:
            return False
        return self._running_bytes < self._max_running_bytes or self._has_room_weighed()

    def _has_room_weighed(self) -> bool:
        """Weigh the running ones whose weight is only a guess, and decide again. Each is weighed once."""
        for id, data in self._unweighed.items():
            request, guessed, origin = self._running[id]
            size = weight_of(data)
            self._running[id] = request, size, origin
            self._running_bytes += size - guessed
        self._unweighed.clear()
        return self._running_bytes < self._max_running_bytes

    # Each of these three takes the origin of the request, for `all_from`.

    def run(
        self, id: RequestId, request: _R, size: int, origin: object = None, *, data: bytes | None = None
    ) -> None:
        """Enter a request as running.

        Args:
            id: Its id.
            request: What the owner keeps for it.
            size: Its size in bytes.
            origin: Where it came from.
            data: Its JSON, if `size` is only an upper bound: it is weighed when there is no room for another
                request.
        """
        self._running[id] = request, size, origin
        if data is not None:
            self._unweighed[id] = data
        self._running_bytes += size
        if origin is not None:
            self._note_origin(id, origin)

    def has_room_for_long_lived(self, places: int, size: int) -> bool:
        """Whether there is room for one more long-lived request."""
        return (
            self._long_lived_places + places <= self._max_long_lived
            and self._long_lived_bytes + size <= self._max_long_lived_bytes
        )

    def run_long_lived(self, id: RequestId, request: _R, places: int, size: int, origin: object = None) -> None:
        """Enter a long-lived request."""
        self._long_lived[id] = request, places, size, origin
        self._long_lived_places += places
        self._long_lived_bytes += size
        if origin is not None:
            self._note_origin(id, origin)

    def wait(self, id: RequestId, request: _W, size: int, origin: object = None) -> None:
        """Enter a request as waiting."""
        size += WAITING_OVERHEAD
        self._waiting[id] = request, size, origin
        self._weigh_waiting(size)
        if origin is not None:
            self._note_origin(id, origin)

    def _note_origin(self, id: RequestId, origin: object) -> None:
        self._from.setdefault(identity_of(origin), {})[id] = None

    def _forget_origin(self, id: RequestId, origin: object) -> None:
        ids = self._from[identity_of(origin)]
        del ids[id]
        if not ids:
            del self._from[identity_of(origin)]

    def all_from(self, origin: object) -> tuple[RequestId, ...]:
        """Return the ids of all requests from an origin."""
        return tuple(self._from.get(identity_of(origin), ()))

    def finish(self, id: RequestId) -> None:
        """Take out a running or long-lived request: it is answered, or never will be."""
        if id in self._long_lived:
            _, places, size, origin = self._long_lived.pop(id)
            self._long_lived_places -= places
            self._long_lived_bytes -= size
        else:
            _, size, origin = self._running.pop(id)
            self._unweighed.pop(id, None)
            self._running_bytes -= size
        if origin is not None:
            self._forget_origin(id, origin)

    def next_waiting(self) -> _W | None:
        """Take out the request that has waited longest, if there is one and there is room to run it."""
        if not self._waiting or not self._has_room:
            return None
        id, (request, size, origin) = self._waiting.popitem(last=False)
        self._weigh_waiting(-size)
        if origin is not None:
            self._forget_origin(id, origin)
        return request

    def cancel_waiting(self, id: RequestId) -> _W | None:
        """Take out a request that has not been started: the peer has cancelled it."""
        found = self._waiting.pop(id, None)
        if found is None:
            return None
        request, size, origin = found
        self._weigh_waiting(-size)
        if origin is not None:
            self._forget_origin(id, origin)
        return request

    def get_running(self, id: RequestId) -> _R | None:
        """Return the request with this id, if it runs or is long-lived."""
        found = self._running.get(id) or self._long_lived.get(id)
        return None if found is None else found[0]

    def all_running(self) -> tuple[_R, ...]:
        """Return the running requests, oldest first, and then the long-lived ones."""
        return (
            *(request for request, _, _ in self._running.values()),
            *(request for request, _, _, _ in self._long_lived.values()),
        )

    def all_long_lived(self) -> tuple[_R, ...]:
        """Return the long-lived requests, oldest first."""
        return tuple(request for request, _, _, _ in self._long_lived.values())

    def all_waiting(self) -> tuple[tuple[RequestId, _W], ...]:
        """Return the waiting requests with their ids, oldest first."""
        return tuple((id, request) for id, (request, _, _) in self._waiting.items())

    def forget_waiting(self) -> tuple[tuple[RequestId, _W], ...]:
        """Take out all requests that have not been started, with their ids, oldest first."""
        forgotten = self.all_waiting()
        for id, (_, _, origin) in self._waiting.items():
            if origin is not None:
                self._forget_origin(id, origin)
        self._waiting.clear()
        self._weigh_waiting(-self._waiting_bytes)
        return forgotten

    def _weigh_waiting(self, size: int) -> None:
        self._waiting_bytes += size
        self.is_overfull = self._waiting_bytes > self._max_waiting_bytes
