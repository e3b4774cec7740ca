"""The requests this side has made: what state each is in and what giving it up costs.

Decisions only: no I/O, no Trio, no clock. The peer waits and writes; this table says whether a word must be
said to the other side, and there is exactly one place that can answer "yes", once per request.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, final

import attrs

from .._codec._jsonrpc import RequestId

__all__ = ["OutboundRequest", "OutboundState", "OutboundTable"]


@final
class OutboundState(enum.Enum):
    """Where a request of ours stands."""

    __hash__ = object.__hash__  # each is one object; Enum would hash the name, in Python

    QUEUED = "not a byte of it has been handed to the transport"
    WRITTEN = "the transport has it; from here on giving up must be said"
    ANSWERED = "its answer is here, or the connection is gone: there is nothing left to give up"
    GIVEN_UP = "nobody waits for it any more"


@final
class OutboundEvent(enum.Enum):
    """What can happen to a request of ours."""

    __hash__ = object.__hash__

    WRITE = enum.auto()
    ANSWER = enum.auto()
    GIVE_UP = enum.auto()


_TRANSITIONS: Final[Mapping[tuple[OutboundState, OutboundEvent], OutboundState]] = MappingProxyType(
    {
        (OutboundState.QUEUED, OutboundEvent.WRITE): OutboundState.WRITTEN,
        # The connection can end, and fail every request, before this one was written.
        (OutboundState.QUEUED, OutboundEvent.ANSWER): OutboundState.ANSWERED,
        (OutboundState.QUEUED, OutboundEvent.GIVE_UP): OutboundState.GIVEN_UP,
        (OutboundState.WRITTEN, OutboundEvent.ANSWER): OutboundState.ANSWERED,
        (OutboundState.WRITTEN, OutboundEvent.GIVE_UP): OutboundState.GIVEN_UP,
        # The caller may be cancelled after the answer came and before it looked.
        (OutboundState.ANSWERED, OutboundEvent.GIVE_UP): OutboundState.ANSWERED,
        # An exception in the caller ends what leaving the client had given up already.
        (OutboundState.GIVEN_UP, OutboundEvent.GIVE_UP): OutboundState.GIVEN_UP,
    }
)
"""Every pair that is not here is a bug and raises `KeyError`."""


@final
@attrs.define(eq=False)
class OutboundRequest:
    """One request of ours, from the moment its caller asked until its caller goes on.

    Attributes:
        id: Its id on this connection.
        method: Its method.
        state: Where it stands; only `OutboundTable` sets it.
        number: Which of the messages that were written it went out with, counted from 1; 0 before it did.
        result: The result, once answered with one.
        error: Why there is no result, once there is a reason.
    """

    id: RequestId
    method: str
    state: OutboundState = OutboundState.QUEUED
    number: int = 0
    result: dict[str, Any] | None = None
    error: Exception | None = None

    @property
    def is_settled(self) -> bool:
        """Whether its caller can go on: there is a result, or an error to raise."""
        return self.result is not None or self.error is not None


@final
class OutboundTable:
    """The requests of ours that somebody waits for.

    Args:
        max_requests: How many there may be at once.
    """

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._requests: dict[RequestId, OutboundRequest] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_full(self) -> bool:
        """Whether the next caller has to wait."""
        return len(self._requests) >= self._max_requests

    def open(self, method: str) -> OutboundRequest:
        """Enter a request under a new id. Ids are never used twice on one connection."""
        self._last_id += 1
        request = OutboundRequest(self._last_id, method)
        self._requests[request.id] = request
        return request

    def get(self, id: RequestId | None) -> OutboundRequest | None:
        """Return the request that an answer with this id is for: one that is written and that somebody waits for.

        `1` and `"1"` are two ids.
        """
        request = None if id is None else self._requests.get(id)
        return request if request is not None and request.state is OutboundState.WRITTEN else None

    def mark_written(self, request: OutboundRequest) -> None:
        """Say that the transport has the request now."""
        self._move(request, OutboundEvent.WRITE)

    def answer(self, request: OutboundRequest, outcome: dict[str, Any] | Exception) -> None:
        """Enter how the request ended. A second answer to the same request is a stray and never gets here."""
        self._move(request, OutboundEvent.ANSWER)
        if isinstance(outcome, dict):
            request.result = outcome
        else:
            request.error = outcome
        del self._requests[request.id]

    def give_up(self, request: OutboundRequest) -> bool:
        """Take the request out because nobody waits any more.

        Returns:
            Whether the other side must be told: it may have the request, has not answered it, was not told
            yet, and the request is not ``initialize``, which must not be cancelled (2025-11-25,
            basic/utilities/cancellation, "Behavior Requirements").
        """
        was = request.state
        self._move(request, OutboundEvent.GIVE_UP)
        if request.state is OutboundState.GIVEN_UP:
            self._requests.pop(request.id, None)
        return was is OutboundState.WRITTEN and request.method != "initialize"

    @staticmethod
    def _move(request: OutboundRequest, event: OutboundEvent) -> None:
        request.state = _TRANSITIONS[request.state, event]
