"""Questions that a handler leaves to its caller by hand, instead of waiting for the answers."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

import attrs

from .. import types
from .._absent import ABSENT, Absent
from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._core._lifecycle import Agreement
from .._groups import open_hidden_nursery
from .._peer._exchange import Exchange
from ._asking import Abilities, read_said, unusable
from ._requirements import require_for

__all__ = [
    "Asking",
    "InputRequired",
    "answer_in_session",
    "input_request",
    "input_requests",
    "input_responses",
]

# What is asked has the most members of all objects of the protocol. Programs that never ask do without them.


@functools.cache
def input_requests() -> Mapping[str, Any]:
    """Return what a server may ask its client while it serves a request, by method."""
    return {
        "elicitation/create": types.ElicitRequest,
        "sampling/createMessage": types.CreateMessageRequest,
        "roots/list": types.ListRootsRequest,
    }


@functools.cache
def input_responses() -> Mapping[str, Any]:
    """Return what the client answers, by method."""
    return {
        "elicitation/create": types.ElicitResult,
        "sampling/createMessage": types.CreateMessageResult,
        "roots/list": types.ListRootsResult,
    }


@functools.cache
def _requests_of_params() -> Mapping[type, Any]:
    return {
        types.ElicitRequestFormParams: types.ElicitRequest,
        types.ElicitRequestURLParams: types.ElicitRequest,
        types.CreateMessageRequestParams: types.CreateMessageRequest,
        types.ListRootsRequestParams: types.ListRootsRequest,
    }


class Asking(enum.Enum):
    """Whether a handler may ask its client, and what becomes of it in the modern era until the answer comes."""

    NEVER = "it is not given anything to ask with"
    PARK = "it waits"
    REPLAY = "it is run again"


if TYPE_CHECKING:
    Question: TypeAlias = (
        types.InputRequest
        | types.ElicitRequestFormParams
        | types.ElicitRequestURLParams
        | types.CreateMessageRequestParams
        | types.ListRootsRequestParams
    )
    """A question to the client, or just its parameters, which tell what is asked."""


@final
@attrs.frozen
class InputRequired:
    """Return it from a tool, prompt or resource to be called again when the client has answered.

    Nothing of the handler stays alive meanwhile. It is called anew with the same arguments, and finds the answers
    in `Context.input_responses` and its own notes in `Context.request_state`. In the legacy era the questions are
    asked at once and it is called again within the same request, so that a handler need not know.

    A handler that just awaits `Context.elicit` and the like needs none of this.

    Attributes:
        requests: The questions, by keys of your own; none just asks for the request to come again.
        state: What to find again, as plain JSON. The client carries it, but cannot read or change it.

    Spec: 2026-07-28, basic/patterns/mrtr.
    """

    requests: Mapping[str, Question] = attrs.field(factory=dict[str, "Question"])
    state: object | Absent = ABSENT


def input_request(question: Question) -> types.InputRequest:
    """Return the question as the object that is sent.

    Raises:
        TypeError: It is none.
    """
    if isinstance(question, (types.ElicitRequest, types.CreateMessageRequest, types.ListRootsRequest)):
        return question
    make = _requests_of_params().get(type(question))
    if make is None:
        raise TypeError(
            f"a question is an ElicitRequest, a CreateMessageRequest or a ListRootsRequest: {question!r:.80}"
        )
    return cast("types.InputRequest", make(params=question))


async def answer_in_session(
    required: InputRequired, exchange: Exchange, agreement: Agreement
) -> tuple[dict[str, types.InputResponse], object]:
    """Ask the questions of an `InputRequired` at once, in the era in which a server can.

    Returns:
        The answers by key, and the state.

    Raises:
        RequestError: The client refuses one.
        RemoteProtocolError: An answer is none.
    """
    answers: dict[str, types.InputResponse] = {}
    capabilities = read_said(agreement.client_capabilities, types.ClientCapabilities)

    async def ask(key: str, request: types.InputRequest) -> None:
        params = {} if request.params is None else to_wire(request.params, agreement.revision)
        answer = await exchange.ask(request.method, params)
        try:
            answers[key] = from_wire(answer, input_responses()[request.method])
        except InvalidData as error:
            raise unusable(request.method, str(error)) from error

    async with open_hidden_nursery() as nursery:
        for key, question in required.requests.items():
            request = input_request(question)
            require_for(Abilities(agreement.revision, capabilities), request.params)
            nursery.start_soon(ask, key, request)
    return answers, required.state
