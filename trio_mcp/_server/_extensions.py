"""Extensions of the protocol that a server knows: what each adds, in which revisions, and for which clients.

What an extension says of itself is a `ServerExtension`; `ServerExtensions` are those of one server, looked up by
its connections. What the official extensions do is in files of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, final

import attrs

from .._codec._json import is_object
from .._core._http1 import NAME_SOURCES
from .._core._lifecycle import (
    CORE_RESULT_TYPES,
    Agreement,
    check_identifier,
    chosen_revisions,
    revisions_with,
)
from .._errors import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestError
from .._limits import check_given
from .._printable import kind_shown
from .._revisions import REFUSED, Revision, Side
from ._context import Context, NotificationHandler, declared_in
from ._functions import MethodHandler
from ._input_required import ExtensionResult
from ._tools import read_method_handler, takes, with_failures

CallWrapper: TypeAlias = Callable[[Mapping[str, Any], Context[Any], MethodHandler], Awaitable[object]]
"""Wraps every ``tools/call``: its parameters as plain JSON, its context, and what calls the tool with both.

It returns what that returns, an `ExtensionResult`, or another result. What it is given may be called later, more
than once, or not at all. Who may call the tool, and how often, was checked before.
"""

_T = TypeVar("_T")


def _read_only(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(given))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


def _functions(given: Iterable[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    return tuple(given)


@final
@attrs.frozen
class ServerExtension:
    """An extension that a server knows. It is declared to clients, in `initialize` too.

    Its methods, notifications and types of results are only for clients that also declare it, but for those in
    `open_to_all`; requests of others are refused, and the error names it. Its tools, prompts and resources are
    for every client.

    Attributes:
        identifier: What it is called, for example ``com.example/notes``.
        settings: What is declared with it, as plain JSON.
        request_handlers: The handlers of the methods it adds, by method.
        notification_handlers: The handlers of the notifications it adds, by method.
        result_types: The types of results it adds; see `ExtensionResult`.
        revisions: The revisions it is for. In others it is not declared, and a method is the protocol's, or
            unknown. Default: all; a name that the protocol has in some revisions is the extension's in the
            others.
        open_to_all: Those of its methods that clients may call without declaring it.
        names: Which parameter of a method the header field `Mcp-Name` repeats over HTTP, by method. A request
            whose field is another or missing is refused (-32020).
        tools: Functions that it adds as tools.
        prompts: Functions that it adds as prompts.
        resources: What it adds as resources, by URI or template: functions, text or bytes.
        wrap_call: Called in place of every registered tool, in the revisions it is for; see `CallWrapper`. The
            first extension that has one is the outermost. A handler of ``tools/call`` itself is not wrapped.

    Raises:
        TypeError: Something is of another kind.
        ValueError: The identifier is not valid, something of the core protocol is claimed, or `open_to_all` or
            `names` has a method that the extension does not add.

    Spec: 2026-07-28, basic/versioning, "Extension Negotiation"; SEP-2133, "Negotiation"; basic/transports/
        streamable-http, "Standard Request Headers".
    """

    identifier: str
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any], converter=_read_only, kw_only=True)
    request_handlers: Mapping[str, MethodHandler] = attrs.field(
        factory=dict[str, MethodHandler], converter=_read_only, kw_only=True
    )
    notification_handlers: Mapping[str, NotificationHandler] = attrs.field(
        factory=dict[str, NotificationHandler], converter=_read_only, kw_only=True
    )
    result_types: Collection[str] = attrs.field(default=(), converter=_names, kw_only=True)
    revisions: Collection[Revision] | None = attrs.field(default=None, converter=chosen_revisions, kw_only=True)
    open_to_all: Collection[str] = attrs.field(default=(), converter=_names, kw_only=True)
    names: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_read_only, kw_only=True)
    tools: Sequence[Callable[..., Any]] = attrs.field(default=(), converter=_functions, kw_only=True)
    prompts: Sequence[Callable[..., Any]] = attrs.field(default=(), converter=_functions, kw_only=True)
    resources: Mapping[str, Callable[..., Any] | str | bytes] = attrs.field(
        factory=dict[str, "Callable[..., Any] | str | bytes"], converter=_read_only, kw_only=True
    )
    wrap_call: CallWrapper | None = attrs.field(default=None, kw_only=True)

    def __attrs_pre_init__(self, identifier: object, **given: object) -> None:
        for name in [name for name, value in given.items() if value is attrs.NOTHING or name == "revisions"]:
            del given[name]
        check_given(ServerExtension, {**given, "identifier": identifier})

    def __attrs_post_init__(self) -> None:
        check_identifier(self.identifier)
        if self.wrap_call is not None and not takes(self.wrap_call, {}, None, None):
            raise TypeError("wrap_call takes three arguments: write async def wrap(params, context, call_tool)")
        for kind in CORE_RESULT_TYPES.intersection(self.result_types):
            raise ValueError(f"{self.identifier} claims the result type {kind}, which is the protocol's own")
        for method in [*self.request_handlers, *self.notification_handlers]:
            revisions_with(method, self.identifier, self.revisions)
        for option, methods in (("open_to_all", self.open_to_all), ("names", self.names)):
            for method in methods:
                if method not in self.request_handlers:
                    raise ValueError(f"{self.identifier}: {option} has {method}, which request_handlers lacks")


@final
class ServerExtensions:
    """The extensions of a server, together. Members that map revisions have all of them.

    Attributes:
        settings: What is declared in a revision, by identifier.
        request_handlers: The handlers of the methods they add, by method and revision.
        notification_handlers: Those of notifications, likewise.
        refused: By revision, which methods no client may send.
        names: Which parameter of a method a header field repeats.
        wraps_calls: Whether calls of tools go through `call`.

    Raises:
        ValueError: Two of them have one identifier, or claim one method or result type.
    """

    def __init__(self, extensions: Sequence[ServerExtension]) -> None:
        self.settings: dict[Revision, dict[str, Mapping[str, Any]]] = {revision: {} for revision in Revision}
        self.request_handlers: dict[str, dict[Revision, MethodHandler]] = {}
        self.notification_handlers: dict[str, dict[Revision, NotificationHandler]] = {}
        self.refused: Final = dict(REFUSED[Side.CLIENT])
        self.names: Final = dict(NAME_SOURCES)
        self.wraps_calls = False
        self._result_types: dict[str, tuple[str, Collection[Revision]]] = {}
        self._wrappers: dict[Revision, list[CallWrapper]] = {revision: [] for revision in Revision}
        self._added: dict[str, ServerExtension] = {}
        for extension in extensions:
            self.add(extension)

    def has(self, identifier: str) -> bool:
        """Whether the server knows an extension."""
        return identifier in self._added

    def add(self, extension: ServerExtension) -> None:
        """Add an extension. It holds for the requests from then on.

        Raises:
            TypeError: A handler of a method cannot be called as one.
            ValueError: See above.
        """
        name = extension.identifier
        _claim(self._added, name, extension, f"identifier {name}")
        revisions = extension.revisions or tuple(Revision)
        for kind in extension.result_types:
            _claim(self._result_types, kind, (name, revisions), f"result type {kind}")
        for method, given in extension.request_handlers.items():
            handler = read_method_handler(method, given)
            is_open = method in extension.open_to_all
            serve = handler if is_open else _for_declared(name, handler)
            self._take(self.request_handlers, method, serve, extension, "method")
        for method, hear in extension.notification_handlers.items():
            self._take(self.notification_handlers, method, hear, extension, "notification")
        self.names.update(extension.names)
        for revision in revisions:
            self.settings[revision][name] = dict(extension.settings)
            if extension.wrap_call is not None:
                self._wrappers[revision].append(extension.wrap_call)
                self.wraps_calls = True

    def add_once(self, extension: ServerExtension) -> None:
        """Add an extension, unless it was added before; see `add`."""
        if self._added.get(extension.identifier) is not extension:
            self.add(extension)

    def _take(
        self,
        handlers: dict[str, dict[Revision, _T]],
        method: str,
        handler: _T,
        extension: ServerExtension,
        kind: str,
    ) -> None:
        of_method = handlers.setdefault(method, {})
        for revision in revisions_with(method, extension.identifier, extension.revisions):
            _claim(of_method, revision, handler, f"{kind} {method}")
            self.refused[revision] -= {method}

    def plain(self, result: ExtensionResult, agreement: Agreement) -> dict[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type, in this revision.
            RequestError: The client has not declared the extension.
        """
        extension, revisions = self._result_types.get(result.result_type, ("", ()))
        if agreement.revision not in revisions:
            where = f" in {agreement.revision}" if extension else ""
            raise TypeError(f"no extension of this server adds the result type {result.result_type!r}{where}")
        require_declared(extension, agreement.client_capabilities, is_modern=agreement.revision.is_modern)
        return {**result.members, "resultType": result.result_type}

    def call(
        self, params: Mapping[str, Any], context: Context[Any], call_tool: MethodHandler
    ) -> Awaitable[object]:
        """Call a tool through all that is wrapped around calls in the client's revision."""
        for wrap in reversed(self._wrappers[context.revision]):
            call_tool = partial(_call_through, wrap, call_tool)
        return call_tool(params, context)


async def _call_through(
    wrap: CallWrapper, call_tool: MethodHandler, params: Mapping[str, Any], context: Context[Any]
) -> object:
    result: object = await with_failures(wrap, params, context, call_tool)
    if result is None or isinstance(result, str) or hasattr(result, "__await__"):
        raise TypeError(
            f"wrap_call returned {kind_shown(result)}: "
            "write 'return await call_tool(params, context)', or return CallToolResult(content=...)"
        )
    return result


def _claim(claimed: dict[Any, _T], key: object, what: _T, shown: str) -> None:
    if key in claimed:
        raise ValueError(f"two extensions claim the {shown}")
    claimed[key] = what


def _for_declared(extension: str, handler: MethodHandler) -> MethodHandler:
    async def serve(params: Mapping[str, Any], context: Context[Any]) -> object:
        require_declared(extension, declared_in(context), is_modern=context.revision.is_modern)
        return await handler(params, context)

    return serve


def require_declared(extension: str, declared: Mapping[str, Any], *, is_modern: bool) -> None:
    """Check that a client has declared an extension.

    Args:
        extension: The extension's identifier.
        declared: The client's capabilities, as plain JSON; of a request, `declared_in`.
        is_modern: Whether the request is of the modern era.

    Raises:
        RequestError: It has not.
    """
    extensions: Any = declared.get("extensions")
    settings = extensions.get(extension) if is_object(extensions) else None
    if settings is not None and settings is not False:
        return
    problem = f"the client has not declared the extension {extension}"
    if not is_modern:  # the legacy era has no error code for this
        raise RequestError(METHOD_NOT_FOUND, problem)
    needed: object = {"requiredCapabilities": {"extensions": {extension: {}}}}
    raise RequestError(MISSING_REQUIRED_CLIENT_CAPABILITY, problem, needed)
