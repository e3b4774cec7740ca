"""The host's side of a page that is shown: what it may send, what is answered at once, what the host has to do.

`AppView` decides and remembers; it does no I/O and knows no Trio, so that messages may come over any channel:
from a WebSocket, from requests over HTTP, or in process. What the host has to do is done in `_client/_apps`, or
by the host itself.

Spec: SEP-1865, 2026-01-26, "Communication Protocol" and "MCP Apps Specific Messages".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, cast, final

import attrs

from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import to_json
from .._errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from .._limits import check_given, valid_size
from .._printable import kind_shown
from ..types import CallToolResult, Tool
from ._apps import AppPage, visibility_of
from ._uri_template import check_web_url

VERSION: Final = "2026-01-26"
"""The version of the protocol between pages and hosts."""

REFUSED: Final = -32000
"""The code of what a host does not want to do."""

DISPLAY_MODES: Final = frozenset(("inline", "fullscreen", "pip"))
_MAX_ID: Final = 128
"""How long the id of a request may be, in characters: it is kept until the answer."""
_MAX_INT: Final = 1 << 53
"""Which whole numbers an id may be: those that JavaScript knows."""


@final
@attrs.frozen
class ViewAsk:
    """What a page wants of its host. Its parameters have the form that the method requires.

    Attributes:
        method: ``"tools/call"``, ``"resources/read"``, ``"ui/open-link"``, ``"ui/message"``,
            ``"ui/update-model-context"`` or ``"ui/request-display-mode"``, which are answered; or a notification,
            ``"ui/notifications/initialized"``, ``"ui/notifications/size-changed"`` or
            ``"notifications/message"``.
        params: The parameters, as plain JSON.
        id: What the answer is sent with; `None` for a notification.
    """

    method: str
    params: Mapping[str, Any]
    id: str | int | None = None


@final
@attrs.frozen
class ViewOutcome:
    """What becomes of a message of a page.

    Attributes:
        send: What is sent to the page now: messages as plain JSON, in this order.
        ask: What the host has to do; `None` for nothing.
        problem: Why the message was refused or ignored, for the host's log; `None` if it was not.
    """

    send: tuple[dict[str, Any], ...] = ()
    ask: ViewAsk | None = None
    problem: str | None = None


def _tools(given: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(given)


def _methods(given: Iterable[str]) -> frozenset[str]:
    return frozenset(given)


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@final
@attrs.define(eq=False, repr=False, kw_only=True)
class AppView:
    """One page that a host shows: decides on each message that comes from it, and on what may be sent to it.

    Give `received` every message of the page, send what it returns, do what is asked for, and send what `answer`
    or `refuse` makes of the outcome. What is to be sent earlier than a page can take it is kept until it can.

    Args:
        page: The page.
        tools: The tools of the page's own server: the only ones that it may call, and of these only those that
            are visible to apps.
        tool: The tool that has led to the page; it is shown to it.
        host: What the host is called, and its version.
        offers: Which methods of `ViewAsk` beside ``"tools/call"`` and ``"resources/read"`` the host serves; it
            refuses others by itself.
        context: What else the page is told of where it is shown: ``{"theme": "dark"}`` (`hostContext`).
        sandbox: What the page's own frame allows. With ``"allow-same-origin"`` in it, which some pages want for
            what they store, they get at the sandbox around them, whose origin must then be of no other use.
        max_message_bytes: How large a message of the page may be, in bytes of JSON.
        max_open_requests: How many requests of the page may be open at once.

    Attributes:
        is_initialized: Whether messages can be sent to the page.
        display_mode: How it is shown now.
        has_ended: Whether the page has agreed to be taken away; see `teardown`.

    Raises:
        TypeError: Something is of another kind.
        ValueError: A limit is less than 1, or there is no such method.
    """

    page: AppPage
    tools: Collection[Tool] = attrs.field(default=(), converter=_tools)
    tool: Tool | None = None
    host: tuple[str, str] = ("trio_mcp", "")
    offers: Collection[str] = attrs.field(default=(), converter=_methods)
    context: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    sandbox: str = "allow-scripts"
    max_message_bytes: int = attrs.field(default=1 << 20, validator=valid_size)
    max_open_requests: int = attrs.field(default=32, validator=valid_size)
    is_initialized: bool = attrs.field(default=False, init=False)
    display_mode: str = attrs.field(default="inline", init=False)
    has_ended: bool = attrs.field(default=False, init=False)
    _modes: frozenset[str] | None = attrs.field(default=None, init=False)  # that the page has declared
    _is_introduced: bool = attrs.field(default=False, init=False)
    _is_sent: bool = attrs.field(default=False, init=False)  # the page, to the sandbox
    _open: set[str | int] = attrs.field(factory=set[str | int], init=False)
    _waiting: dict[str, dict[str, Any]] = attrs.field(factory=dict[str, dict[str, Any]], init=False)  # by method
    _has_input: bool = attrs.field(default=False, init=False)
    _has_result: bool = attrs.field(default=False, init=False)
    _teardown: str | None = attrs.field(default=None, init=False)

    def __attrs_pre_init__(self, **given: object) -> None:
        check_given(AppView, {name: value for name, value in given.items() if value is not attrs.NOTHING})

    def __attrs_post_init__(self) -> None:
        unknown = set(self.offers) - _OFFERED.keys()
        if unknown:
            raise ValueError(f"offers takes {', '.join(sorted(_OFFERED))}, not {min(unknown)!r}")

    # From the page.

    def received(self, message: str | bytes | Mapping[str, Any]) -> ViewOutcome:
        """Decide on a message of the page, or of the sandbox around it.

        Nothing that a page sends raises an error: what is wrong is refused or ignored, and `problem` says why.

        Args:
            message: It, as JSON or decoded.
        """
        try:
            read = self._read(message)
        except (ValueError, TypeError, RecursionError) as error:
            return ViewOutcome(problem=f"no message: {error!s:.200}")
        method, id = read.get("method"), cast("Any", read.get("id"))
        if not isinstance(method, str):
            return self._answered(read)
        if "id" not in read:
            return self._heard(method, read.get("params"))
        if not (id.__class__ is str and len(id) <= _MAX_ID) and not (id.__class__ is int and abs(id) <= _MAX_INT):
            return ViewOutcome(problem=f"{method:.60} has no usable id")
        try:
            return self._asked(id, method, read.get("params"))
        except _Refused as error:
            problem = f"refused {method:.60}: {error}"
            return ViewOutcome((_error(id, error.code, str(error)),), problem=problem)

    def _read(self, message: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
        data: Any = _json.encode(dict(message)) if isinstance(message, Mapping) else message
        data = data.encode("utf-8", "replace") if isinstance(data, str) else data
        if not isinstance(data, bytes):
            raise TypeError(f"{kind_shown(data)} is no object of JSON, and no text")
        if len(data) > self.max_message_bytes:
            raise ValueError(f"{len(data)} bytes are more than max_message_bytes, {self.max_message_bytes}")
        read: object = _json.decode(data)
        if not is_object(read) or read.get("jsonrpc") != "2.0":
            raise ValueError("it is none of JSON-RPC 2.0")
        return read

    def _answered(self, read: Mapping[str, Any]) -> ViewOutcome:
        if self._teardown is not None and read.get("id") == self._teardown:
            self.has_ended = True
            return ViewOutcome()
        return ViewOutcome(problem="an answer to nothing that was asked")

    def _heard(self, method: str, params: Any) -> ViewOutcome:
        if not is_object(params):
            params = {}
        match method:
            case "ui/notifications/sandbox-proxy-ready" if not self._is_sent:
                self._is_sent = True
                return ViewOutcome((self._resource_ready(),))
            case "ui/notifications/initialized" if self._is_introduced and not self.is_initialized:
                self.is_initialized = True
                sent = tuple(self._waiting.pop(name) for name in _ORDER if name in self._waiting)
                return ViewOutcome(sent, ViewAsk(method, {}))
            case "ui/notifications/size-changed" if self.is_initialized:
                size = {name: _pixels(params.get(name)) for name in ("width", "height")}
                return ViewOutcome(
                    ask=ViewAsk(method, {name: value for name, value in size.items() if value is not None})
                )
            case "notifications/message" if self.is_initialized:
                return ViewOutcome(ask=ViewAsk(method, params))
            case _:
                return ViewOutcome(problem=f"ignored {method:.60}: no page sends it, or not now")

    def _asked(self, id: str | int, method: str, params: Any) -> ViewOutcome:
        if params is None:
            params = {}
        if not is_object(params):
            raise _Refused(INVALID_PARAMS, "params must be an object")
        if method == "ping":
            return ViewOutcome((_result(id, {}),))
        if method == "ui/initialize":
            return ViewOutcome((_result(id, self._introduced(params)),))
        check = _CHECKS.get(method)
        if check is None or (method in _OFFERED and method not in self.offers):
            raise _Refused(METHOD_NOT_FOUND, f"this host has no method {method[:60]}")
        if not self._is_introduced or self.has_ended:
            raise _Refused(
                INVALID_REQUEST, "the page has ended" if self.has_ended else "ui/initialize comes first"
            )
        if id in self._open:
            raise _Refused(INVALID_REQUEST, "another request has this id")
        if len(self._open) >= self.max_open_requests:
            raise _Refused(REFUSED, f"more than {self.max_open_requests} requests are open (max_open_requests)")
        check(params)
        if method == "tools/call":
            self._check_tool(params["name"])
        elif method == "ui/request-display-mode" and not self._can_be(params["mode"]):
            return ViewOutcome((_result(id, {"mode": self.display_mode}),))
        self._open.add(id)
        return ViewOutcome(ask=ViewAsk(method, params, id))

    def _introduced(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if self._is_introduced:
            raise _Refused(INVALID_REQUEST, "ui/initialize was sent before")
        capabilities: Any = params.get("appCapabilities")
        if not is_object(capabilities):
            raise _Refused(INVALID_PARAMS, "appCapabilities must be an object")
        modes = capabilities.get("availableDisplayModes")
        if is_array(modes):
            self._modes = frozenset(mode for mode in DISPLAY_MODES if mode in modes)
        self._is_introduced = True
        declared: dict[str, Any] = {name: {} for method in sorted(self.offers) if (name := _OFFERED[method])}
        sandbox: dict[str, Any] = {"permissions": self.page.permissions.plain()}
        if self.page.csp is not None:
            sandbox["csp"] = self.page.csp.plain()
        context: dict[str, Any] = {"displayMode": self.display_mode, **self.context}
        if self.tool is not None:
            context["toolInfo"] = {"tool": to_json(self.tool)}
        name, version = self.host
        return {
            "protocolVersion": VERSION,
            "hostInfo": {"name": name, "version": version},
            "hostCapabilities": {
                "serverTools": {},
                "serverResources": {},
                "logging": {},
                "sandbox": sandbox,
                **declared,
            },
            "hostContext": context,
        }

    def _check_tool(self, name: str) -> None:
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise _Refused(INVALID_PARAMS, f"the server of this page has no tool {name[:128]!r}")
        if "app" not in visibility_of(tool):
            raise _Refused(REFUSED, f"the tool {name[:128]!r} is not for apps")

    def _can_be(self, mode: str) -> bool:
        possible: Any = self.context.get("availableDisplayModes", ())
        return mode in possible and (self._modes is None or mode in self._modes)

    # Answers.

    def answer(self, ask: ViewAsk, result: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the message that answers a request of the page.

        Args:
            ask: The request.
            result: The result, as plain JSON. Default: empty.

        Raises:
            ValueError: It was answered before, or is a notification.
        """
        self._close(ask)
        found = dict(result or {})
        if ask.method == "ui/request-display-mode":
            mode = found.get("mode", self.display_mode)
            self.display_mode = mode if mode in DISPLAY_MODES else self.display_mode
            found["mode"] = self.display_mode
        return _result(ask.id, found)

    def refuse(self, ask: ViewAsk, message: str, code: int = REFUSED) -> dict[str, Any]:
        """Return the message that refuses a request of the page.

        Args:
            ask: The request.
            message: Why. The page reads it.
            code: The code of JSON-RPC. Default: -32000.

        Raises:
            ValueError: It was answered before, or is a notification.
        """
        self._close(ask)
        return _error(ask.id, code, message)

    def _close(self, ask: ViewAsk) -> None:
        if ask.id not in self._open:
            raise ValueError(f"{ask.method} of a page was answered before, or is no request")
        self._open.remove(ask.id)

    # To the page.

    def _resource_ready(self) -> dict[str, Any]:
        params: dict[str, Any] = {"html": self.page.html, "sandbox": self.sandbox}
        if self.page.csp is not None:
            params["csp"] = self.page.csp.plain()
        return _notification(
            "ui/notifications/sandbox-resource-ready", {**params, "permissions": self.page.permissions.plain()}
        )

    def tool_input(self, arguments: Mapping[str, Any], *, partial: bool = False) -> list[dict[str, Any]]:
        """Return what to send the page when the arguments of the tool's call are there, once.

        Args:
            arguments: The arguments.
            partial: Whether there is more to come. Any number of these may be sent before the whole.

        Raises:
            ValueError: The whole arguments were given before.
        """
        check_given(AppView.tool_input, {"arguments": arguments})
        if self._has_input:
            raise ValueError("a page gets the arguments of its tool once")
        self._has_input = not partial
        name = "tool-input-partial" if partial else "tool-input"
        return self._sent(f"ui/notifications/{name}", {"arguments": dict(arguments)})

    def tool_result(self, result: CallToolResult | Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what to send the page when the tool's call is done.

        Args:
            result: The result, as `Client.call_tool` returns it, or as plain JSON.

        Raises:
            ValueError: `tool_input` was not called before, or the call ended before.
        """
        check_given(AppView.tool_result, {"result": result})
        plain = to_json(result) if isinstance(result, CallToolResult) else result
        shown = {name: value for name, value in plain.items() if name != "resultType"}
        return self._ended("ui/notifications/tool-result", shown)

    def tool_cancelled(self, reason: str) -> list[dict[str, Any]]:
        """Return what to send the page when the tool's call was given up.

        Args:
            reason: Why.

        Raises:
            ValueError: `tool_input` was not called before, or the call ended before.
        """
        return self._ended("ui/notifications/tool-cancelled", {"reason": reason})

    def _ended(self, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        if not self._has_input or self._has_result:
            raise ValueError("tool_input() comes first, and then one end of the call")
        self._has_result = True
        return self._sent(method, params)

    def context_changed(self, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what to send the page when something of its surroundings has changed.

        Args:
            changes: The members of `hostContext` that are different now.
        """
        self.context = {**self.context, **changes}
        self.display_mode = changes.get("displayMode", self.display_mode)
        # A page that has not begun yet is told with the answer to its first request.
        return self._sent("ui/notifications/host-context-changed", dict(changes)) if self._is_introduced else []

    def teardown(self, reason: str) -> list[dict[str, Any]]:
        """Return what to send the page before it is taken away; wait a while until it `has_ended`.

        Args:
            reason: Why.
        """
        if not self.is_initialized or self._teardown is not None:
            self.has_ended = self.has_ended or not self.is_initialized
            return []
        self._teardown = "teardown"
        return [{**_notification("ui/resource-teardown", {"reason": reason}), "id": self._teardown}]

    def _sent(self, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        message = _notification(method, params)
        if self.is_initialized:
            return [message]
        if method == "ui/notifications/host-context-changed" and method in self._waiting:
            params = {**self._waiting[method]["params"], **params}
            message = _notification(method, params)
        self._waiting[method] = message  # the last of each is what counts
        if method == "ui/notifications/tool-input":
            self._waiting.pop("ui/notifications/tool-input-partial", None)
        return []


_ORDER: Final = (
    "ui/notifications/host-context-changed",
    "ui/notifications/tool-input-partial",
    "ui/notifications/tool-input",
    "ui/notifications/tool-result",
    "ui/notifications/tool-cancelled",
)


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _result(id: str | int | None, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _pixels(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return min(value, 100_000) if is_number and value >= 0 else None


# The form of each request.


def _need_text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _Refused(INVALID_PARAMS, f"{name} must be a string")
    return value


def _check_call(params: Mapping[str, Any]) -> None:
    _need_text(params, "name")
    if not is_object(params.get("arguments", {})):
        raise _Refused(INVALID_PARAMS, "arguments must be an object")


def _check_read(params: Mapping[str, Any]) -> None:
    _need_text(params, "uri")


def _check_link(params: Mapping[str, Any]) -> None:
    try:
        check_web_url(_need_text(params, "url"))
    except ValueError as error:
        raise _Refused(INVALID_PARAMS, f"url: {error}") from error


def _check_message(params: Mapping[str, Any]) -> None:
    content = params.get("content")
    if params.get("role") != "user":
        raise _Refused(INVALID_PARAMS, "role must be user")
    if not is_object(content) and not (is_array(content) and all(map(is_object, content))):
        raise _Refused(INVALID_PARAMS, "content must be a block, or an array of blocks")


def _check_update(params: Mapping[str, Any]) -> None:
    content = params.get("content", [])
    if not is_array(content) or not all(map(is_object, content)):
        raise _Refused(INVALID_PARAMS, "content must be an array of blocks")
    if not is_object(params.get("structuredContent", {})):
        raise _Refused(INVALID_PARAMS, "structuredContent must be an object")


def _check_mode(params: Mapping[str, Any]) -> None:
    if _need_text(params, "mode") not in DISPLAY_MODES:
        raise _Refused(INVALID_PARAMS, f"mode must be one of {', '.join(sorted(DISPLAY_MODES))}")


_OFFERED: Final[Mapping[str, str | None]] = {
    "ui/open-link": "openLinks",
    "ui/message": "message",
    "ui/update-model-context": "updateModelContext",
    "ui/request-display-mode": None,
}
"""The methods that a host may serve, and what it declares then."""

_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "tools/call": _check_call,
    "resources/read": _check_read,
    "ui/open-link": _check_link,
    "ui/message": _check_message,
    "ui/update-model-context": _check_update,
    "ui/request-display-mode": _check_mode,
}
