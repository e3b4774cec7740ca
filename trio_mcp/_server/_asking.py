"""A handler's questions to its client: what clients must declare, how they are asked, how answers are read.

An `InputRequester` knows how a question travels: as a request in the legacy era, inside the result in the modern
one. Of the questions themselves only ``roots/list`` lives here; elicitation and sampling have their own modules.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeGuard, TypeVar, final

import attrs

from .. import types
from .._absent import ABSENT
from .._codec._json import InvalidData
from .._codec._jsonrpc import from_wire, to_wire
from .._core._lifecycle import Agreement
from .._errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
)
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._revisions import Revision
from ..types import ClientCapabilities
from ._threads import ends_with_its_thread, leaves_its_place

_log: Final = Log("trio_mcp.server")

_T = TypeVar("_T")


class InputRequester(Protocol):
    """Asks the client a question and returns its answer."""

    def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        """Ask the client, and wait for the answer.

        Args:
            method: The request's method.
            params: Its parameters, an object of `trio_mcp.types`.
            on_progress: Called with each progress notification, if the era has them for questions.

        Returns:
            The result as plain JSON.

        Raises:
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.
        """
        ...


@final
@attrs.define(eq=False)
class LegacyInputRequester:
    """Asks by a request of the server, as in the legacy era.

    Args:
        exchange: The exchange that the question belongs to.
        revision: The client's revision.
    """

    _exchange: Exchange
    _revision: Revision

    @ends_with_its_thread
    @leaves_its_place
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Ask the client; see `InputRequester.ask`.

        Raises:
            LocalProtocolError: In this revision servers send no requests.
        """
        if self._revision.is_modern:
            raise LocalProtocolError(f"a server of {self._revision} has no request {method}")
        return await self._exchange.ask(method, to_wire(params, self._revision), on_progress=on_progress)


@final
class CapabilityMissing(RequestError):
    """The client has not declared a capability, or its revision of the protocol lacks it. Nothing was sent.

    A handler may catch it and do without. If it does not, this is the answer to its request; from 2026-07-28 on
    with the code and the data that the specification demands.

    Attributes:
        required: What the client would have to declare; `None` if its revision has no such capability.

    Spec: 2026-07-28, basic, "_meta"; 2025-11-25, basic/lifecycle, "Operation".
    """

    def __init__(self, message: str, required: ClientCapabilities | None, revision: Revision) -> None:
        code = MISSING_REQUIRED_CLIENT_CAPABILITY if revision.is_modern else INVALID_REQUEST
        data = ABSENT if required is None else {"requiredCapabilities": to_wire(required, revision)}
        super().__init__(code, message, data)
        self.required = required


@attrs.frozen
class ClientFeatures:
    """What a client can be asked.

    Attributes:
        revision: The revision it speaks.
        capabilities: The capabilities it has declared.
    """

    revision: Revision
    capabilities: ClientCapabilities

    def missing(self, what: str, required: ClientCapabilities) -> CapabilityMissing:
        """Return the error for a client that has not declared what a question needs."""
        return CapabilityMissing(f"the client has not declared {what}", required, self.revision)

    def require_revision(self, since: Revision, what: str) -> None:
        """Check that what a question needs exists in the client's revision.

        Raises:
            CapabilityMissing: It came later.
        """
        if self.revision < since:
            problem = f"{self.revision}, which the client speaks, has no {what}"
            raise CapabilityMissing(problem, None, self.revision)


@final
@attrs.frozen
class AskableClient(ClientFeatures):
    """A client, and the way to ask it.

    Attributes:
        requester: Asks it.
    """

    requester: InputRequester

    async def ask(
        self, method: str, params: object, kind: type[_T], *, on_progress: OnProgress | None = None
    ) -> _T:
        """Ask, and read the answer.

        Raises:
            RemoteProtocolError: The answer is not what the specification demands.
            RequestError: The client answers with an error.
        """
        answer = await self.requester.ask(method, params, on_progress=on_progress)
        try:
            return from_wire(answer, kind)
        except InvalidData as error:
            raise unusable_answer(method, str(error)) from error


def unusable_answer(method: str, why: str) -> RemoteProtocolError:
    """Return the error for an answer that cannot be used, and log it."""
    error = RemoteProtocolError(f"the client's answer to {method} cannot be used: {why}")
    error.question = method
    _log.warning("%s", error)
    return error


def is_unusable_answer(error: object) -> TypeGuard[RemoteProtocolError]:
    """Whether a handler failed because the client's answer to its question cannot be used."""
    return isinstance(error, RemoteProtocolError) and error.question is not None


def read_declared(declared: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read what a client has declared: its capabilities, or its name and version.

    Raises:
        RequestError: It is invalid.
    """
    try:
        return from_wire(declared, kind)
    except InvalidData as error:
        raise RequestError(
            INVALID_PARAMS, f"invalid capabilities or clientInfo of the client: {error}"
        ) from error


def features_of(agreement: Agreement) -> ClientFeatures:
    """Return what the client of an agreement can be asked.

    Raises:
        RequestError: Its capabilities are invalid.
    """
    return ClientFeatures(agreement.revision, read_declared(agreement.client_capabilities, ClientCapabilities))


# Roots. Spec: client/roots. Deprecated since 2026-07-28 (SEP-2577).

_METHOD: Final = "roots/list"


async def list_roots(client: AskableClient) -> Sequence[types.Root]:
    """Ask for the roots; see `Context.list_roots`."""
    require_roots(client)
    result = await client.ask(_METHOD, types.ListRootsRequestParams(), types.ListRootsResult)
    for number, root in enumerate(result.roots):
        # Handlers use a root as a path ("Data Types": it must be a file URI).
        if not root.uri.startswith("file://"):
            raise unusable_answer(_METHOD, f"roots[{number}].uri: must begin with file://, is {root.uri[:60]!r}")
        try:
            _ = root.path
        except ValueError as error:
            raise unusable_answer(_METHOD, f"roots[{number}].uri: {error}") from error
    return result.roots


def require_roots(client: ClientFeatures) -> None:
    """Check that the client has declared roots.

    Raises:
        CapabilityMissing: It has not.
    """
    if client.capabilities.roots is None:
        raise client.missing("roots", types.ClientCapabilities(roots=types.RootsCapability()))
