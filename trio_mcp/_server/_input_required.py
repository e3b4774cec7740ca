"""Input required (MRTR): what a handler returns to be called again with its client's answers, and the questions.

Also the states that clients have brought back once and may not use again. How a handler waits for an answer
instead lives in `_parking`.

Spec: 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import attrs

from .. import types
from .._absent import ABSENT, Absent
from .._codec._json import InvalidData
from .._codec._jsonrpc import from_wire, to_wire
from .._core._account import Account, Loan, Overdrawn, lend_all
from .._core._lifecycle import CORE_RESULT_TYPES, Agreement
from .._core._sealing import StateRefused
from .._errors import INVALID_PARAMS, SERVER_BUSY, RequestError
from .._limits import Limits
from .._peer._exchange import Exchange
from .._trio import open_hidden_nursery
from ._asking import ClientFeatures, features_of, require_roots, unusable_answer
from ._elicitation import require_form, require_urls

USED_BYTES: Final = 512
"""What it takes to remember a used state, in bytes."""


class Asking(enum.Enum):
    """Whether a handler may ask its client, and what happens to it in the modern era until the answer comes.

    The values are those of the option `resume`. A handler that is given no context never asks, either.
    """

    NEVER = "never"
    PARK = "park"
    REPLAY = "replay"


if TYPE_CHECKING:
    Question: TypeAlias = (
        types.InputRequest
        | types.ElicitRequestParams
        | types.CreateMessageRequestParams
        | types.ListRootsRequestParams
    )
    """A question to the client, or just its parameters, which show what is asked."""
else:  # text, which is evaluated by few servers, for few load these
    _PARAMS = "types.ElicitRequestParams | types.CreateMessageRequestParams | types.ListRootsRequestParams"
    Question = f"types.InputRequest | {_PARAMS}"


# What a handler may return instead of its own result.


@final
@attrs.frozen
class InputRequired:
    """Return it from a tool, prompt or resource to be called again when the client has answered.

    Nothing of the handler stays alive meanwhile. It is called anew with the same arguments, and finds the answers
    in `Context.input_responses` and its own notes in `Context.request_state`. In the legacy era the questions are
    asked at once and it is called again within the same request, so that a handler need not know the era.

    A handler that just awaits `Context.elicit` and the like needs none of this.

    Attributes:
        requests: The questions, by keys you choose. Without any, the client just sends the request again.
        state: Returned to you as `Context.request_state`, as plain JSON. The client carries it, but cannot read
            or change it.

    Spec: 2026-07-28, basic/patterns/mrtr.
    """

    requests: Mapping[str, Question] = attrs.field(factory=dict[str, "Question"])
    state: object | Absent = ABSENT


_NO_MEMBERS: Final[Mapping[str, Any]] = MappingProxyType({})


@final
@attrs.frozen
class ExtensionResult:
    """Return it from a tool, prompt or resource to answer with a result of a type that an extension has added.

    The client must have declared the extension; look at `Context.client_extensions` first.

    Attributes:
        result_type: The type: one that a `ServerExtension` of the server adds.
        members: The other members of the result, as plain JSON.

    Raises:
        ValueError: The type is the protocol's own.

    Spec: 2026-07-28, basic, "ResultType".
    """

    result_type: str
    members: Mapping[str, Any] = _NO_MEMBERS

    def __attrs_post_init__(self) -> None:
        if self.result_type in CORE_RESULT_TYPES:
            raise ValueError(f"{self.result_type!r} is the protocol's own type of result; choose another name")


NonFinalResult: TypeAlias = InputRequired | ExtensionResult
"""A result that is not final: the client will retry the request, or an extension will handle it."""


def is_non_final(hint: Any) -> bool:
    """Whether a return annotation, or a branch of it, is a `NonFinalResult`: no part of an output schema."""
    return hint is InputRequired or hint is ExtensionResult


# Questions as they are sent. Their classes have the most members of all objects of the protocol; they are looked
# up when the first one is needed, so that programs that never ask do without them.


@functools.cache
def input_types() -> Mapping[str, tuple[Any, Any]]:
    """Return the requests a server may make of its client while it serves one, and their results, by method."""
    return {
        "elicitation/create": (types.ElicitRequest, types.ElicitResult),
        "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
        "roots/list": (types.ListRootsRequest, types.ListRootsResult),
    }


def check_answers(answers: Mapping[str, types.InputResponse], asked: Mapping[str, str]) -> None:
    """Check that answers are of the kinds that were asked for.

    Args:
        answers: The answers, by key; those to nothing that was asked are not looked at.
        asked: The method of each question, by its key.

    Raises:
        RequestError: One is not.
    """
    for key, method in asked.items():
        if key in answers and not isinstance(answers[key], input_types()[method][1]):
            raise RequestError(INVALID_PARAMS, f"invalid params: inputResponses.{key} does not answer {method}")


def input_request(question: Question) -> types.InputRequest:
    """Return the question as the object that is sent.

    Raises:
        TypeError: It is no question.
    """
    match question:
        case types.ElicitRequest() | types.CreateMessageRequest() | types.ListRootsRequest():
            return question
        case types.ElicitRequestFormParams() | types.ElicitRequestURLParams():
            return types.ElicitRequest(params=question)
        case types.CreateMessageRequestParams():
            return types.CreateMessageRequest(params=question)
        case types.ListRootsRequestParams():
            return types.ListRootsRequest(params=question)
        case _:
            raise TypeError(
                "a question must be an ElicitRequest, a CreateMessageRequest or a ListRootsRequest, "
                f"or the parameters of one, not {question!r:.80}"
            )


def require_for(client: ClientFeatures, params: object) -> None:
    """Check that a client can be asked a question with these parameters.

    Raises:
        CapabilityMissing: It has not declared the capability, or its revision lacks it.
    """
    match params:
        case types.ElicitRequestFormParams():
            require_form(client, params.requested_schema)
        case types.ElicitRequestURLParams():
            require_urls(client)
        case types.CreateMessageRequestParams():
            from ._sampling import require_sampling  # most servers never get here

            require_sampling(client, params)
        case _:
            require_roots(client)


async def ask_in_session(
    required: InputRequired, exchange: Exchange, agreement: Agreement
) -> tuple[dict[str, types.InputResponse], object]:
    """Ask the questions of an `InputRequired` by requests of the server, as in the legacy era.

    Returns:
        The answers by key, and the state.

    Raises:
        RequestError: The client answers one with an error.
        RemoteProtocolError: An answer cannot be used.
    """
    answers: dict[str, types.InputResponse] = {}
    client = features_of(agreement)

    async def ask(key: str, request: types.InputRequest) -> None:
        params = {} if request.params is None else to_wire(request.params, agreement.revision)
        answer = await exchange.ask(request.method, params)
        try:
            answers[key] = from_wire(answer, input_types()[request.method][1])
        except InvalidData as error:
            raise unusable_answer(request.method, str(error)) from error

    async with open_hidden_nursery() as nursery:
        for key, question in required.requests.items():
            request = input_request(question)
            require_for(client, request.params)
            nursery.start_soon(ask, key, request)
    return answers, required.state


MAX_USED_STATES: Final = 100_000
"""States that are remembered as used until they expire: 50 MB. One client may have half of what others leave."""


@final
class UsedStates:
    """Remembers which states were used, each until it has expired, so that none is good twice.

    A used state that was forgotten earlier would be good again. So this memory is never taken back, and each
    client gets only as much of it as leaves room for others.

    Args:
        limits: For how long.
        account: Lends the places and the memory.
        most: How many states are remembered.
    """

    def __init__(self, limits: Limits, account: Account, most: int = MAX_USED_STATES) -> None:
        self._ttl = limits.parked_timeout
        self._places = account.places("used states", "the largest number of them", most)
        self._bytes = account.bytes
        # The first to expire is first.
        self._used: OrderedDict[bytes, tuple[float, tuple[Loan, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def use(self, state: str, client: str, now: float) -> None:
        """Use a valid state.

        Args:
            state: The state as the client sent it; each has one spelling only.
            client: The client that sent it.
            now: The time in seconds, on the clock by which states expire.

        Raises:
            StateRefused: It was used before.
            RequestError: No more states can be remembered.
        """
        while self._used and (oldest := next(iter(self._used.values())))[0] <= now:
            self._used.popitem(last=False)
            for loan in oldest[1]:
                loan.give_back()
        digest = hashlib.sha256(state.encode("ascii")).digest()
        if digest in self._used:
            raise StateRefused
        try:
            loans = lend_all(((self._places, 1), (self._bytes, USED_BYTES)), client, "used states")
        except Overdrawn as error:
            raise RequestError(
                SERVER_BUSY, f"no more states can be used for now: {error}; try again later"
            ) from None
        self._used[digest] = now + self._ttl, loans  # it was sealed earlier, and expires before that
