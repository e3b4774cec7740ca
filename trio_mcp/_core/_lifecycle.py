"""Which revision and which capabilities hold: decided by the server for each request, by the client once.

Decisions only: no I/O, no Trio, no clock. Also the names of extensions and their methods, which both sides check.

Spec: 2026-07-28, basic/versioning; basic/transports/stdio, "Backward Compatibility"; 2025-11-25, basic/lifecycle.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, final, get_args

import attrs

from .._codec._json import is_array, is_object
from .._codec._jsonrpc import Notification, Request
from .._errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_ERRORS,
    SERVER_BUSY,
    UNSUPPORTED_PROTOCOL_VERSION,
    RemoteProtocolError,
    RequestError,
)
from .._revisions import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LATEST_LEGACY,
    LOG_LEVEL_KEY,
    PROTOCOL_VERSION_KEY,
    REFUSED,
    Revision,
    Side,
    is_free,
)
from ..types import LoggingLevel

# The server. A modern request names its revision and the client's capabilities in its `_meta`; a legacy request
# relies on the `initialize` handshake before it. Both may come over one connection, so the era is decided for
# each request.


@final
@attrs.frozen
class Agreement:
    """What holds for one request.

    Attributes:
        revision: The revision by which it is served.
        client_capabilities: The capabilities of the client, as it declared them.
        client_info: The `clientInfo`, as the client declared it; for display and logs only.
        log_level: The least severe level of log messages for this request; `None` for no messages.
    """

    revision: Revision
    client_capabilities: Mapping[str, Any]
    client_info: Mapping[str, Any] | None
    log_level: str | None


def names_era(params: Mapping[str, Any] | None) -> bool:
    """Return whether the `_meta` of parameters says that they are of the modern era."""
    meta: Any = None if params is None else params.get("_meta")
    return meta.__class__ is dict and (PROTOCOL_VERSION_KEY in meta or CLIENT_CAPABILITIES_KEY in meta)


def target_of(params: Mapping[str, Any] | None) -> str | None:
    """Return the name of the tool or prompt that a request is about, or the URI, if it has one."""
    ref: Any = None if params is None else params.get("ref")  # of `completion/complete`
    named: Any = ref if ref.__class__ is dict else params or {}
    target = named.get("name") or named.get("uri")
    return target if isinstance(target, str) else None


_REFUSED: Final = REFUSED[Side.CLIENT]

LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
"""The levels of log messages, the least severe first."""

DEFAULT_LOG_LEVEL: Final = "info"
"""The log level of a legacy client that has not set one; the specification leaves the choice to the server."""


@final
class ServerLifecycle:
    """The server's view of one connection.

    Args:
        supported: The revisions that the server speaks.
        session: What holds without a handshake, if a transport serves requests of the legacy era one by one.
        refused: By revision, which methods no client may send; extensions may add what the core does not have.

    Attributes:
        session: What the handshake agreed on; `None` before it.
    """

    def __init__(
        self,
        supported: Sequence[Revision] = tuple(Revision),
        session: Agreement | None = None,
        refused: Mapping[Revision, Collection[str]] = _REFUSED,
    ) -> None:
        self._supported = tuple(supported)
        self._refused = refused
        self._legacy = tuple(revision for revision in supported if not revision.is_modern)
        self.session = session
        # What the last modern request declared, and what followed: the next request mostly declares the same.
        self._declared: tuple[object, ...] | None = None
        self._agreed: Agreement | None = None

    @property
    def supported_versions(self) -> list[str]:
        """The revisions the server speaks, newest first."""
        return [str(revision) for revision in sorted(self._supported, reverse=True)]

    def initialize(self, request: Request) -> Agreement:
        """Decide a handshake.

        Returns:
            What holds from now on. Its revision is the client's if the server speaks it, else the newest of that
            era.

        Raises:
            RequestError: The parameters are invalid, there was a handshake before, or the server speaks no
                revision of that era.
        """
        params = request.params or {}
        version = _expect(params, "protocolVersion", str, "a string")
        capabilities = _expect_capabilities(params, "capabilities")
        client_info = _expect(params, "clientInfo", dict, "an object")
        if self.session is not None:
            raise RequestError(INVALID_REQUEST, "invalid request: this connection is initialized already")
        if not self._legacy:
            # A legacy client shows its user this message and nothing else (basic/versioning).
            raise RequestError(
                UNSUPPORTED_PROTOCOL_VERSION,
                f"this server speaks {', '.join(self.supported_versions)}, which has no initialize handshake",
                {"supported": self.supported_versions, "requested": version},
            )
        revision = next((one for one in self._legacy if one == version), max(self._legacy))
        self.session = Agreement(revision, capabilities, client_info, DEFAULT_LOG_LEVEL)
        return self.session

    def forget(self) -> None:
        """Undo the handshake: it was answered with an error."""
        self.session = None

    def set_log_level(self, level: str) -> None:
        """Remember the level of the session (2025-11-25, server/utilities/logging)."""
        if self.session is not None:
            self.session = attrs.evolve(self.session, log_level=level)

    def agree(self, request: Request) -> Agreement:
        """Decide what holds for a request.

        Raises:
            RequestError: The server does not speak its revision, it names none, or its method is not in it.
        """
        agreement = self.agreement_of(request)
        if request.method in self._refused[agreement.revision]:
            raise RequestError(METHOD_NOT_FOUND, f"{agreement.revision} has no method {request.method}")
        return agreement

    def agreement_of(self, request: Request) -> Agreement:
        """Decide what holds for a request, whatever its method.

        Raises:
            RequestError: The server does not speak its revision, or it names none.
        """
        if names_era(request.params):
            meta: Mapping[str, Any] = (request.params or {})["_meta"]
            declared = (
                meta.get(PROTOCOL_VERSION_KEY),
                meta.get(CLIENT_CAPABILITIES_KEY),
                meta.get(CLIENT_INFO_KEY),
                meta.get(LOG_LEVEL_KEY),
            )
            if self._agreed is None or declared != self._declared:
                self._agreed = self._agree_modern(meta)
                self._declared = declared
            return self._agreed
        return self._agree_legacy(request)

    def agree_on_notification(self, notification: Notification) -> Agreement | None:
        """Decide what holds for a notification; `None` if no supported revision has it.

        One that does not name its revision belongs to the session, if there is one.
        """
        meta = (notification.params or {}).get("_meta")
        newest = max((one for one in self._supported if one.is_modern), default=None)
        if is_object(meta) and PROTOCOL_VERSION_KEY in meta:
            try:
                agreement = self._agree_modern({CLIENT_CAPABILITIES_KEY: {}, **meta})
            except RequestError:
                return None
        elif self.session is not None:
            agreement = self.session
        elif newest is not None:
            agreement = Agreement(newest, {}, None, None)
        else:
            return None
        return None if notification.method in self._refused[agreement.revision] else agreement

    def _agree_modern(self, meta: Mapping[str, Any]) -> Agreement:
        version = _expect(meta, PROTOCOL_VERSION_KEY, str, "a string", "_meta")
        revision = next((one for one in self._supported if one == version and one.is_modern), None)
        if revision is None:
            supported = [one for one in self.supported_versions if one != version]
            raise RequestError(
                UNSUPPORTED_PROTOCOL_VERSION,
                f"unsupported protocol version {version[:40]!r}",
                {"supported": supported, "requested": version},
            )
        capabilities = _expect_capabilities(meta, CLIENT_CAPABILITIES_KEY, "_meta")
        client_info = meta.get(CLIENT_INFO_KEY)
        level = meta.get(LOG_LEVEL_KEY)
        if level is not None and level not in LEVELS:
            raise RequestError(INVALID_PARAMS, f"_meta: {LOG_LEVEL_KEY} must be one of {', '.join(LEVELS)}")
        return Agreement(revision, capabilities, client_info if is_object(client_info) else None, level)

    def _agree_legacy(self, request: Request) -> Agreement:
        if self.session is not None:
            return self.session
        if request.method == "initialize" or (request.method == "ping" and self._legacy):
            # The handshake itself, and `ping`, which is allowed at any time (2025-11-25, basic/lifecycle).
            return Agreement(LATEST_LEGACY, {}, None, None)
        raise RequestError(
            INVALID_PARAMS, f"params._meta lacks {PROTOCOL_VERSION_KEY}, and no initialize handshake came before"
        )


def _expect(members: Mapping[str, Any], name: str, kind: type, kind_name: str, where: str = "params") -> Any:
    value = members.get(name)
    if not isinstance(value, kind):
        problem = "is missing" if value is None else f"must be {kind_name}"
        raise RequestError(INVALID_PARAMS, f"{where}: {name} {problem}")
    return value


def _expect_capabilities(members: Mapping[str, Any], name: str, where: str = "params") -> Mapping[str, Any]:
    """Return the declared capabilities. An array (PHP writes ``{}`` as ``[]``) or a boolean stands for none."""
    value = members.get(name)
    if is_array(value) or isinstance(value, bool):
        return {}
    capabilities: Mapping[str, Any] = _expect(members, name, dict, "an object", where)
    return capabilities


# Extensions (2026-07-28, basic/versioning, "Extension Negotiation").

_IDENTIFIER: Final = re.compile(
    r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"/([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
"""A key of `_meta` with its prefix, which is optional there and required here (2026-07-28, basic/versioning)."""

CORE_RESULT_TYPES: Final = frozenset({"complete", "input_required"})
"""The types of results that the protocol itself defines (2026-07-28, basic, "ResultType")."""


def check_identifier(identifier: str) -> None:
    """Check the identifier of an extension.

    Raises:
        ValueError: It has no prefix, or is not an identifier.
    """
    if not _IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"an extension is called prefix/name, for example com.example/x, not {identifier!r}")


def revisions_with(method: str, identifier: str, wanted: Collection[Revision] | None) -> tuple[Revision, ...]:
    """Return the revisions in which an extension has a method.

    Args:
        method: The method.
        identifier: The extension.
        wanted: Those that the extension is for; `None` for all in which the core protocol has no such method.

    Raises:
        ValueError: The core protocol has it, in one of those or in all.
    """
    found = tuple(revision for revision in wanted or Revision if is_free(method, revision))
    if not found or (wanted is not None and len(found) < len(wanted)):
        where = "" if wanted is None else f" in {', '.join(one for one in wanted if one not in found)}"
        raise ValueError(f"{identifier} claims the method {method}, which is the protocol's own{where}")
    return found


def chosen_revisions(given: Collection[Revision | str] | None) -> tuple[Revision, ...] | None:
    """Return the revisions that an extension is for, as it was told them.

    Raises:
        TypeError: It is not a list of them.
        ValueError: There is none, or one is no revision.
    """
    if given is None:
        return None
    if isinstance(given, str):
        raise TypeError(f"revisions takes revisions in a list, such as ['2026-07-28'], not {given!r:.60}")
    if not given:
        raise ValueError("an extension needs a revision: give one in revisions, or leave it out for all")
    return tuple(sorted({Revision(one) for one in given}))


# The client. If it does not know the server, it sends ``server/discover`` first. An answer that only a modern
# server gives settles the era; any other answer means a legacy server, to which `initialize` is sent. Silence
# settles nothing, nor does an error about the client (401) or the moment (503): `initialize` is tried, and the
# era stays open.

_INCONCLUSIVE: Final = frozenset({401, 403, 407, 408, 425, 429})
"""HTTP statuses below 500 that are about the client or the moment, and not about the request."""


def common_revision(offered: Iterable[object], ours: Sequence[Revision]) -> Revision | None:
    """Return the newest revision that is in both lists, or `None`."""
    theirs = [version for version in offered if isinstance(version, str)]
    return max((revision for revision in ours if revision in theirs), default=None)


def choose_revision(offered: Iterable[object], ours: Sequence[Revision]) -> Revision:
    """Return the newest revision that is in both lists.

    Raises:
        RemoteProtocolError: They have none in common.
    """
    theirs = [version for version in offered if isinstance(version, str)]
    common = common_revision(theirs, ours)
    if common is None:
        raise RemoteProtocolError(
            f"no revision in common: the server speaks {', '.join(theirs) or 'none'}, "
            f"this client {', '.join(ours)}"
        )
    return common


def is_inconclusive(error: RequestError) -> bool:
    """Whether an error settles no era, because the server has not looked at the request.

    Args:
        error: The outcome of ``server/discover``.
    """
    if error.code in MODERN_ERRORS:
        return False
    status = error.status
    return error.code == SERVER_BUSY or (status is not None and (status in _INCONCLUSIVE or status >= 500))


def judge_discovery(
    outcome: Mapping[str, Any] | RequestError | None, ours: Sequence[Revision]
) -> Revision | None:
    """Decide by the outcome of ``server/discover`` which revision to speak.

    Args:
        outcome: The result, the error, or `None` for silence.
        ours: The revisions that this client speaks; the newest was asked for.

    Returns:
        The revision to speak; `None` if the server is of the legacy era and decides at `initialize`. That does
        not depend on one error code: legacy servers answer unknown requests in many ways.

    Raises:
        RemoteProtocolError: The server is modern and speaks none of our revisions.
    """
    if isinstance(outcome, RequestError):
        if outcome.code not in MODERN_ERRORS:
            return None
        supported = outcome.data.get("supported") if is_object(outcome.data) else None
        if outcome.code == UNSUPPORTED_PROTOCOL_VERSION and is_array(supported):
            return choose_revision(supported, ours)
        return max(ours)
    supported = None if outcome is None else outcome.get("supportedVersions")
    return choose_revision(supported, ours) if is_array(supported) else None


def judge_initialize(result: Mapping[str, Any], ours: Sequence[Revision]) -> Revision:
    """Return the revision that the server's answer to `initialize` settles.

    Raises:
        RemoteProtocolError: The result names none, or one that this client does not speak.
    """
    version = result.get("protocolVersion")
    if not isinstance(version, str):
        raise RemoteProtocolError("initialize: the result names no protocolVersion")
    for revision in ours:
        if revision == version and not revision.is_modern:
            return revision
    raise RemoteProtocolError(f"initialize: the server wants to speak {version}, this client {', '.join(ours)}")
