"""A handler's questions to its client: what they need of the client, how they are put, how answers are read.

What is asked has modules of its own. How a question travels is an `Asker`'s business: as a request in the legacy
era, inside the result in the modern one.

Asking the client for its roots. Spec: client/roots. Deprecated since 2026-07-28 (SEP-2577).
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeGuard, TypeVar, final

import attrs

from .. import types
from .._absent import ABSENT
from .._codec._convert import from_wire, to_wire
from .._codec._jsonrpc import InvalidData
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


class Asker(Protocol):
    """Brings a question to the client and its answer back."""

    def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, Mapping[str, Any]]:
        """Ask the client, and wait for the answer.

        Args:
            method: What to ask.
            params: An object of `trio_mcp.types`.
            on_progress: Called with each progress notification, where there are any.

        Returns:
            The answer as plain JSON.

        Raises:
            RequestError: The client answers with an error.
            ConnectionLost: The connection ended first.
        """
        ...


@final
class WireAsker:
    """Asks by a request of the server: the legacy era's way.

    Args:
        exchange: What the question belongs to.
        revision: What the client speaks.
    """

    def __init__(self, exchange: Exchange, revision: Revision) -> None:
        self._exchange = exchange
        self._revision = revision

    @ends_with_its_thread
    @leaves_its_place
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Ask the client; see `Asker.ask`.

        Raises:
            LocalProtocolError: The revision has no requests of a server.
        """
        if self._revision.is_modern:
            raise LocalProtocolError(f"a server of {self._revision} has no request {method}")
        return await self._exchange.ask(method, to_wire(params, self._revision), on_progress=on_progress)


@final
class CapabilityMissing(RequestError):
    """The client cannot be asked this: it, or its revision of the protocol, has no such thing. Nothing was sent.

    A handler may catch it and do without. If it does not, this is the answer to its request; from 2026-07-28 on
    with the code and the data that the specification demands.

    Attributes:
        required: What the client would have to declare; `None` if its revision has nothing of the kind.

    Spec: 2026-07-28, basic, "_meta"; 2025-11-25, basic/lifecycle, "Operation".
    """

    def __init__(self, message: str, required: ClientCapabilities | None, revision: Revision) -> None:
        code = MISSING_REQUIRED_CLIENT_CAPABILITY if revision.is_modern else INVALID_REQUEST
        data = ABSENT if required is None else {"requiredCapabilities": to_wire(required, revision)}
        super().__init__(code, message, data)
        self.required = required


@attrs.frozen
class Abilities:
    """What a client can be asked.

    Attributes:
        revision: What it speaks.
        capabilities: What it says it can do.
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
            what = f"{self.revision}, which the client speaks, has no {what}"
            raise CapabilityMissing(what, None, self.revision)


@final
@attrs.frozen
class Inquiry(Abilities):
    """A client, as far as it can be asked.

    Attributes:
        asker: Brings it a question.
    """

    asker: Asker

    async def ask(
        self, method: str, params: object, kind: type[_T], *, on_progress: OnProgress | None = None
    ) -> _T:
        """Ask, and read the answer.

        Raises:
            RemoteProtocolError: The answer is not what the specification says it must be.
            RequestError: It is an error.
        """
        answer = await self.asker.ask(method, params, on_progress=on_progress)
        try:
            return from_wire(answer, kind)
        except InvalidData as error:
            raise unusable(method, str(error)) from error


def unusable(method: str, why: str) -> RemoteProtocolError:
    """Return the error for an answer that cannot be used, and tell our log."""
    error = RemoteProtocolError(f"the client's answer to {method} cannot be used: {why}")
    error.question = method
    _log.warning("%s", error)
    return error


def is_answered_wrongly(error: object) -> TypeGuard[RemoteProtocolError]:
    """Whether a handler failed because the client's answer to its question cannot be used: no mistake of ours."""
    return isinstance(error, RemoteProtocolError) and error.question is not None


def read_said(said: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read what a client says of itself.

    Raises:
        RequestError: It cannot be read.
    """
    try:
        return from_wire(said, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"what the client says of itself cannot be read: {error}") from error


_METHOD: Final = "roots/list"


async def list_roots(inquiry: Inquiry) -> Sequence[types.Root]:
    """Ask for the roots; see `Context.list_roots`."""
    require_roots(inquiry)
    result = await inquiry.ask(_METHOD, types.ListRootsRequestParams(), types.ListRootsResult)
    for number, root in enumerate(result.roots):
        # Whoever gets a root takes it for a path ("Data Types": it must be a file URI).
        if not root.uri.startswith("file://"):
            raise unusable(_METHOD, f"roots[{number}].uri: must begin with file://, is {root.uri[:60]!r}")
        try:
            _ = root.path
        except ValueError as error:
            raise unusable(_METHOD, f"roots[{number}].uri: {error}") from error
    return result.roots


def require_roots(client: Abilities) -> None:
    """Check that the client has roots.

    Raises:
        CapabilityMissing: It has not.
    """
    if client.capabilities.roots is None:
        raise client.missing("roots", types.ClientCapabilities(roots=types.RootsCapability()))
