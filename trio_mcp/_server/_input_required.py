"""Questions that a handler leaves to its caller by hand, instead of waiting for the answers.

States that clients have carried and brought once, and may not bring again.

What a client must be able to do for a question, whichever way it is asked.

What a handler may return in place of a result of its own.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import attrs

from .. import types
from .._absent import ABSENT, Absent
from .._codec._convert import from_wire, to_wire
from .._codec._jsonrpc import InvalidData
from .._core._account import Account, Loan, Overdrawn, lend_all
from .._core._lifecycle import CORE_RESULT_TYPES, Agreement
from .._core._sealing import StateRefused
from .._errors import SERVER_BUSY, RequestError
from .._limits import Limits
from .._peer._exchange import Exchange
from .._trio import open_hidden_nursery
from ._asking import Abilities, read_said, require_roots, unusable
from ._elicitation import require_form, require_urls

USED_BYTES: Final = 512
"""What it takes to remember one."""


@final
class UsedStates:
    """Remembers which states were used, each until it has expired, so that none is good twice.

    None is forgotten before, or it would be good again. So what is remembered cannot be taken back, and each
    client gets only as much as is left to others.

    Args:
        limits: How many are remembered, and for how long.
        account: Lends their places, and what they take.
    """

    def __init__(self, limits: Limits, account: Account) -> None:
        self._lasts = limits.parked_timeout
        self._places = account.places("used states", "max_used_states", limits.max_used_states)
        self._bytes = account.bytes
        # In the order of their ends.
        self._used: OrderedDict[bytes, tuple[float, tuple[Loan, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def use(self, state: str, holder: str, now: float) -> None:
        """Use a state that is good but for that.

        Args:
            state: As it came; each has one spelling only.
            holder: Who brings it.
            now: What time it is, in seconds, on the clock by which states expire.

        Raises:
            StateRefused: It was used before.
            RequestError: No more can be remembered.
        """
        while self._used and (oldest := next(iter(self._used.values())))[0] <= now:
            self._used.popitem(last=False)
            for loan in oldest[1]:
                loan.give_back()
        digest = hashlib.sha256(state.encode("ascii")).digest()
        if digest in self._used:
            raise StateRefused
        try:
            loans = lend_all(((self._places, 1), (self._bytes, USED_BYTES)), holder, "used states")
        except Overdrawn as error:
            raise RequestError(SERVER_BUSY, f"no more states can be used for now: {error}") from None
        self._used[digest] = now + self._lasts, loans  # it was sealed before, and has less time left


def require_for(client: Abilities, params: object) -> None:
    """Check that a client can be asked what these parameters ask.

    Raises:
        CapabilityMissing: It has not declared it, or its revision lacks it.
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


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@final
@attrs.frozen
class ExtensionResult:
    """Return it from a tool, prompt or resource to answer with a result of a type that an extension has added.

    The client must have declared the extension; look at `Context.client_extensions` first.

    Attributes:
        result_type: The type: one that a `ServerExtension` of the server adds.
        members: What else the result has, as plain JSON.

    Raises:
        ValueError: The type is the protocol's own.

    Spec: 2026-07-28, basic, "ResultType".
    """

    result_type: str
    members: Mapping[str, Any] = _NOTHING

    def __attrs_post_init__(self) -> None:
        if self.result_type in CORE_RESULT_TYPES:
            raise ValueError(f"{self.result_type!r} is the protocol's own type of result")


Interim: TypeAlias = InputRequired | ExtensionResult
"""Not the end of the matter: the client comes again, or an extension of it goes on."""


def is_interim(hint: Any) -> bool:
    """Whether a return annotation, or a branch of it, is for the client alone and no part of a schema."""
    return hint is InputRequired or hint is ExtensionResult
