"""One outgoing message over HTTP, and what becomes of it: its answers, its end, its place in the books."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import trio

from .._channel import Outgoing
from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import RequestId, answered_id, read_id
from .._core._http_headers import version_of
from .._errors import RemoteProtocolError

__all__ = ["HttpExchange", "answered_ids"]


@final
class HttpExchange:
    """One outgoing message and what becomes of it. It is the origin of what its response brings.

    Attributes:
        message: What is sent.
        method: Its method; `None` for an answer or a batch.
        params: Its parameters, decoded from the very bytes that are sent.
        asked: The ids of the requests in it: the only ones that its response may answer.
        unanswered: Those of them whose answers have not come.
        scope: Around everything that is done for it.
        is_sent: Whether the server may have all of it.
        is_given_up: Whether the server was told that nobody waits for an answer.
        problem: What came in place of an answer, in words; `None` if nothing did.
        on_result: Called with the result of a single request before anybody else sees it; it may change it, and
            then says so.
    """

    principal = None
    """Who the server is says its URL."""

    def __init__(self, message: Outgoing) -> None:
        value: Any = _json.decode(message.data)
        single: dict[str, Any] = value if is_object(value) else {}
        self.message: Final = message
        self.method: Final[str | None] = single.get("method")
        self.params: Final[dict[str, Any] | None] = single.get("params")
        self.asked: Final = frozenset(message.request_ids)
        self.unanswered: Final = set(self.asked)
        self.scope: Final = trio.CancelScope()
        self.is_sent = False
        self.is_given_up = False
        self.problem: str | None = None
        self.on_result: Callable[[dict[str, Any]], bool] | None = None

    @property
    def is_modern(self) -> bool:
        """Whether it says its revision itself, as requests of the modern era do."""
        return version_of(self.params) is not None

    @property
    def is_request(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self.message.request_ids)

    @property
    def takes_turns(self) -> bool:
        """Whether what comes after it may have to wait: an answer, or the end of a handshake."""
        return not self.is_request and self.method in (None, "notifications/initialized")

    @property
    def gives_up(self) -> RequestId | None:
        """The request that it cancels, if it does that."""
        if self.method != "notifications/cancelled" or self.params is None:
            return None
        return read_id(self.params.get("requestId"))

    def mark_sent(self) -> None:
        """Its last bytes are about to go."""
        self.is_sent = True

    def missing_answer(self) -> RemoteProtocolError:
        """Return the failure of what is unanswered now that the response has ended."""
        problem = "" if self.problem is None else f": {self.problem}"
        return RemoteProtocolError(f"the server ended the response without an answer{problem}")


def answered_ids(value: Any) -> list[RequestId]:
    """Return the ids of the requests that a message, or the messages of a batch, answer.

    Whether the answers can be used or not: those that receive them end the requests either way.
    """
    messages: list[Any] = value if is_array(value) else [value]
    return [id for id in map(answered_id, messages) if id is not None]
