"""A server asking the client before it can answer. Spec: 2026-07-28, basic/patterns/mrtr.

In the legacy era the same questions are requests of their own.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias, final

from .._revisions import Revision
from ._elicitation import ElicitRequestParams, ElicitResult
from ._fields import member, wire
from ._messages import RequestParams, Result
from ._roots import ListRootsRequestParams, ListRootsResult
from ._sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "CreateMessageRequest",
    "ElicitRequest",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponseRequestParams",
    "InputResponses",
    "ListRootsRequest",
]


@final
@wire(since=Revision.V2026_07_28)
class CreateMessageRequest:
    """A question to the client's model, as part of a result."""

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams


@final
@wire(since=Revision.V2026_07_28)
class ElicitRequest:
    """A question to the client's user, as part of a result."""

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams


@final
@wire(since=Revision.V2026_07_28)
class ListRootsRequest:
    """A question for the client's roots, as part of a result."""

    method: Literal["roots/list"] = "roots/list"
    params: ListRootsRequestParams | None = None


InputRequest: TypeAlias = CreateMessageRequest | ElicitRequest | ListRootsRequest
"""A question to the client. It has neither an id nor an answer of its own: it is part of a result."""

InputRequests: TypeAlias = Mapping[str, InputRequest]
"""Questions to the client, by keys the server chose."""

InputResponse: TypeAlias = CreateMessageResult | ElicitResult | ListRootsResult
"""The client's answer to a question."""

InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The client's answers, by the keys of the questions."""


@final
@wire(since=Revision.V2026_07_28)
class InputRequiredResult(Result):
    """The server's answer when it must know more: ask again, and bring what is wanted.

    Attributes:
        input_requests: What the server asks.
        request_state: What to bring back unread.

    Raises:
        ValueError: It has neither. There would be nothing to bring.
    """

    result_type: Literal["input_required"] = "input_required"
    input_requests: InputRequests | None = None
    request_state: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.input_requests is None and self.request_state is None:
            raise ValueError("an InputRequiredResult needs inputRequests, requestState or both")


@wire
class InputResponseRequestParams(RequestParams):
    """What a request brings along when it is asked again.

    Attributes:
        input_responses: The answers to what the server asked.
        request_state: What the server gave to be brought back.
    """

    input_responses: InputResponses | None = member(default=None, since=Revision.V2026_07_28)
    request_state: str | None = member(default=None, since=Revision.V2026_07_28)
