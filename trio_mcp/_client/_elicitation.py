"""A server's questions to the client's user: the user's handler, what it may answer with, and what is made of it.

Nothing here opens a URL or looks at what is behind one.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, final

import trio

from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._errors import LocalProtocolError
from ..types import (
    ElicitAction,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ElicitValue,
    URLElicitationRequiredData,
)
from ._forms import fill_in

__all__ = [
    "DEFAULT_ELICIT_MODES",
    "ElicitAnswer",
    "ElicitMode",
    "KnownElicitations",
    "OnElicit",
    "OnElicitationComplete",
    "elicit",
]

ElicitMode: TypeAlias = Literal["form", "url"]
"""How a user can be asked: to fill in a form, or to go to a URL."""

DEFAULT_ELICIT_MODES: Final[tuple[ElicitMode, ...]] = ("form",)
"""A handler must know that it is asked for more than forms, or it might agree to a URL unseen."""

ElicitAnswer: TypeAlias = ElicitResult | Mapping[str, ElicitValue | None] | ElicitAction
"""What a handler of elicitation may return: the result, what was filled in, or only what the user did."""

OnElicit: TypeAlias = Callable[[ElicitRequestParams], ElicitAnswer | Awaitable[ElicitAnswer]]
"""Asks the user."""

OnElicitationComplete: TypeAlias = Callable[[str], object]
"""Called with the id of an elicitation whose user is done at its URL; a returned awaitable is awaited."""


async def elicit(on_elicit: OnElicit, params: ElicitRequestParams) -> ElicitResult:
    """Ask the user's handler, and check what it answers against what was asked.

    Raises:
        LocalProtocolError: The answer does not fit the form, or fills in one where there is none.
        TypeError: The handler returned something else than an answer.
        Others: Whatever the handler raises.
    """
    answer: Any = on_elicit(params)
    if inspect.isawaitable(answer):
        answer = await answer
    await trio.lowlevel.checkpoint()
    if isinstance(answer, ElicitResult):
        result = answer
    elif isinstance(answer, Mapping):
        result = ElicitResult(action="accept", content=answer)  # pyright: ignore[reportUnknownArgumentType] - checked
    elif answer in {"accept", "decline", "cancel"}:
        result = ElicitResult(action=answer)
    else:
        raise TypeError(f"on_elicit returns an ElicitResult, a mapping or an action, not {answer!r:.60}")
    return _fitting(result, params)


def _fitting(result: ElicitResult, params: ElicitRequestParams) -> ElicitResult:
    content: Mapping[str, ElicitValue] | None = None
    if result.action == "accept":
        if isinstance(params, ElicitRequestFormParams):
            content = fill_in(result.content or {}, params.requested_schema)
        elif result.content:
            raise LocalProtocolError("the answer fills in a form, and the user was asked to go to a URL")
    return ElicitResult(meta=result.meta, action=result.action, content=content)


@final
class KnownElicitations:
    """The elicitations by URL whose end a server may still tell of; what it tells of others is ignored.

    Spec: 2025-11-25, client/elicitation, "Completion Notifications for URL Mode Elicitation".

    Args:
        max_open: How many are remembered. Those asked first are forgotten first.
        max_bytes: What their ids may take in memory.
    """

    def __init__(self, max_open: int, max_bytes: int) -> None:
        self._max_open = max_open
        self._max_bytes = max_bytes
        self._bytes = 0
        self._open: OrderedDict[str, None] = OrderedDict()

    def add(self, params: ElicitRequestParams) -> None:
        """The server asks the user to go to a URL; it may tell of the end before the user has answered."""
        if isinstance(params, ElicitRequestURLParams) and params.elicitation_id is not None:
            self.finish(params.elicitation_id)
            self._open[params.elicitation_id] = None
            self._bytes += _weight(params.elicitation_id)
            while len(self._open) > self._max_open or self._bytes > self._max_bytes:
                self.finish(next(iter(self._open)))

    def add_required(self, data: object) -> None:
        """The server refuses a request until the user has been at some URLs: error -32042."""
        try:
            required = from_wire(data, URLElicitationRequiredData)
        except InvalidData:
            return  # the caller gets the error as it is
        for params in required.elicitations:
            self.add(params)

    def finish(self, elicitation_id: str) -> bool:
        """The user is done. Returns whether the elicitation was known and not done before."""
        if elicitation_id not in self._open:
            return False
        del self._open[elicitation_id]
        self._bytes -= _weight(elicitation_id)
        return True


def _weight(id: str) -> int:
    """Return what an id takes in memory at most."""
    return 256 + 4 * len(id)
