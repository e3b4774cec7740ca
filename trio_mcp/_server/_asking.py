"""A handler's questions to its client: what clients must declare, how they are asked, how answers are read.

An `InputRequester` knows how a question travels: as a request in the legacy era, inside the result in the modern
one. Of the questions themselves only ``roots/list`` lives here; elicitation and sampling have their own modules.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeGuard, TypeVar, final
from weakref import WeakKeyDictionary

import attrs
import trio

from .. import types
from .._codec._json import InvalidData
from .._codec._jsonrpc import Request, from_wire, to_wire
from .._core._lifecycle import Agreement
from .._errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    ToolError,
)
from .._limits import KIB, check_given
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._revisions import INPUT_METHODS, Revision
from ..types import ClientCapabilities
from ._threads import PerRun, ends_with_its_thread, leaves_its_place

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
@attrs.define(eq=False)
class _NeverAsked:
    """Asks nobody: the handler of the request was registered as one that does not.

    Args:
        request: The request.
    """

    _request: Request

    @ends_with_its_thread
    async def ask(
        self, method: str, params: object, *, on_progress: OnProgress | None = None
    ) -> Mapping[str, Any]:
        """Refuse to ask; see `InputRequester.ask`."""
        del params, on_progress
        await trio.lowlevel.checkpoint()
        given = self._request.params or {}
        target = given.get("name", given.get("uri"))
        raise LocalProtocolError(
            f"{method} cannot be asked: what serves {self._request.method} of {target!r:.100} is registered with "
            'resume="never"; leave that out'
        )


def requester_of(exchange: Exchange, revision: Revision) -> InputRequester:
    """Return what asks the client of a request that no parked handler can serve."""
    if revision.is_modern and exchange.request.method in INPUT_METHODS:
        return _NeverAsked(exchange.request)
    return LegacyInputRequester(exchange, revision)


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
        data = None if required is None else {"requiredCapabilities": to_wire(required, revision)}
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


def failed_by_client(error: object) -> TypeGuard[RemoteProtocolError | ConnectionLost]:
    """Whether a handler failed because the client's answer cannot be used, or the client left without one."""
    return isinstance(error, (RemoteProtocolError, ConnectionLost)) and error.question is not None


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


MAX_ROOTS: Final = 1_000
"""How many roots of one client a path is compared with."""

MAX_PATH_LENGTH: Final = 4_096
"""Characters of a path that is looked up; more is in no root. Resolving takes the square of it."""

MAX_ROOTS_LENGTH: Final = 256 * KIB
"""Characters of the URIs of all roots that a path is compared with."""

MAX_KEPT_ROOTS_BYTES: Final = 8 * KIB
"""What the URIs of the roots may weigh that are kept for a session; longer ones are asked for each time."""

MAX_RESOLVING: Final = 8
"""Threads that resolve paths at once, in one run of Trio."""

_resolving: Final = PerRun(lambda: trio.CapacityLimiter(MAX_RESOLVING))


@final
class KnownRoots:
    """What is known of the roots of the client of one connection, so that it is not asked about each path.

    In the legacy era they are kept until the client notifies that they have changed, if it has declared that it
    will. In the modern era, where clients notify of no such thing, they are those that one request was told.
    """

    __slots__ = ("_changes", "_kept", "_of_requests")

    def __init__(self) -> None:
        self._kept: Sequence[types.Root] | None = None
        self._changes = 0
        # Made when it is needed: empty, it is half a kilobyte of each session.
        self._of_requests: WeakKeyDictionary[object, Sequence[types.Root]] | None = None

    def forget(self) -> None:
        """The client has notified that its roots have changed."""
        self._kept = None
        self._changes += 1

    async def get(self, client: AskableClient, request: object) -> Sequence[types.Root]:
        """Return the roots, and ask for them if they are not known. The errors are those of `list_roots`.

        Args:
            client: The client.
            request: What is collected as garbage when the request is over.
        """
        require_roots(client)
        known = self._kept
        if client.revision.is_modern:
            if self._of_requests is None:
                self._of_requests = WeakKeyDictionary()
            known = self._of_requests.get(request)
        if known is not None:
            await trio.lowlevel.checkpoint()
            return known
        changes = self._changes
        roots = await list_roots(client)
        if len(roots) > MAX_ROOTS:
            raise unusable_answer(_METHOD, f"{len(roots)} roots, and a path is compared with {MAX_ROOTS} at most")
        length = sum(len(root.uri) for root in roots)
        if length > MAX_ROOTS_LENGTH:
            raise unusable_answer(
                _METHOD, f"roots of {length} characters, and a path is compared with {MAX_ROOTS_LENGTH} at most"
            )
        declared = client.capabilities.roots
        if self._of_requests is not None:
            self._of_requests[request] = roots
        elif (
            declared is not None
            and declared.list_changed
            and changes == self._changes  # otherwise these may be the old ones
            and length <= MAX_KEPT_ROOTS_BYTES
        ):
            self._kept = roots
        return roots


def _resolved(path: str) -> str | None:
    """Return a path without links and ``..``; `None` if it is too long or leads where nobody may look."""
    if len(path) > MAX_PATH_LENGTH:
        return None
    try:
        resolved = os.path.realpath(path)
        # Where links form a circle, they and what follows are left as they are, with links of their own.
        try:
            again = os.path.realpath(resolved, strict=True)
        except (FileNotFoundError, NotADirectoryError):
            again = os.path.realpath(resolved)
    except (OSError, ValueError):
        return None
    return resolved if again == resolved else None


def _find_within(path: str, roots: Sequence[types.Root]) -> Path | None:
    resolved = _resolved(path)
    if resolved is not None:
        found = Path(resolved)
        for root in roots:
            trio.from_thread.check_cancelled()  # nobody waits any more, and others want the thread
            directory = _resolved(str(root.path))
            if directory is not None and found.is_relative_to(directory):
                return found
    return None


async def find_within(path: str | os.PathLike[str], roots: Sequence[types.Root], *, require: bool) -> Path | None:
    """Return a path without links and ``..`` if it is in one of the roots; see `Context.within_roots`."""
    check_given(find_within, {"path": path, "require": require})
    plain = os.fspath(path)
    if not isinstance(plain, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        raise TypeError(f"a path is a str or a path of str, not {path!r:.60}")
    found = None
    with suppress(ValueError):  # it is a URI, and not one of a file on this machine
        if plain[:7].lower() == "file://":
            plain = str(types.Root(uri="file://" + plain[7:]).path)
        # A thread that is left behind does no harm: it only reads links.
        found = await trio.to_thread.run_sync(
            _find_within, plain, roots, abandon_on_cancel=True, limiter=_resolving.get()
        )
    if found is None and require:
        raise ToolError(f"{os.fspath(path)!r:.300} is outside of the roots that the client has shared")
    return found
