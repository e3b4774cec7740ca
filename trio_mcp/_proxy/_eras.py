"""What a message becomes when it passes from one era to the other, in plain JSON. No I/O, no Trio.

Within an era parameters, results and errors pass as they are, but for what belongs to one connection: the
progress token and the time that is left. Between the eras only what the receiver's revision demands is added, and
what only the sender's has is left out; unknown members stay. Which revision has a member, or a type of content,
is written beside it in `types`.

Spec: 2026-07-28, basic, "_meta", "ResultType"; basic/patterns/mrtr; server/utilities/caching.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from .._codec._json import InvalidData, is_array, is_object
from .._codec._jsonrpc import from_wire, to_wire
from .._core._cache import CACHEABLE
from .._core._lifecycle import Agreement
from .._core._output_schemas import RESULT_MEMBER, needs_wrapping, wrapped_schema
from .._errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    TRANSPORT_FAILED,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
)
from .._revisions import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LATEST,
    LATEST_LEGACY,
    LOG_LEVEL_KEY,
    PROGRESS_TOKEN_KEY,
    PROTOCOL_VERSION_KEY,
    REFUSED,
    SERVER_INFO_KEY,
    SUBSCRIPTION_ID_KEY,
    TIMEOUT_KEY,
    Revision,
    Side,
)
from ..types import CacheableResult, ContentBlock, CreateMessageRequestParams, Result
from ..types._fields import members, span_of

_Params = Mapping[str, Any] | None

_OF_CONNECTION: Final = (PROGRESS_TOKEN_KEY, TIMEOUT_KEY)
"""What `_meta` says for one connection: the next one has its own."""

_OF_MODERN_REQUESTS: Final = (PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY)

_OF_MODERN_RESULTS: Final = [m.name for m in members(CacheableResult) if LATEST_LEGACY not in m.span]

_WITH_FRESHNESS: Final = CACHEABLE | {"resources/directory/read"}
"""Results that must say in the modern era how long they are fresh (server/utilities/caching)."""

UNKNOWN: Final[Mapping[str, Any]] = {"name": "unknown", "version": "unknown"}
"""How a server, or a client, is shown that has not said what it is, where that must be said."""


def meta_of(params: _Params) -> Mapping[str, Any]:
    """Return the `_meta` of parameters or of a result, empty if there is none."""
    meta = None if params is None else params.get("_meta")
    return meta if is_object(meta) else {}


def _without(params: _Params, keys: tuple[str, ...]) -> _Params:
    meta = meta_of(params)
    if params is None or not any(key in meta for key in keys):
        return params
    rest = {key: value for key, value in meta.items() if key not in keys}
    if rest:
        return {**params, "_meta": rest}
    return {name: value for name, value in params.items() if name != "_meta"}


# Parameters.


def passed_on(params: _Params) -> _Params:
    """Return the parameters of a request without what belongs to the connection on which it came."""
    return _without(params, _OF_CONNECTION)


def to_legacy_params(params: _Params) -> _Params:
    """Return the parameters of a modern request or notification for a legacy server."""
    return _without(params, _OF_MODERN_REQUESTS)


def to_params(method: str, params: _Params, client: Agreement, revision: Revision) -> _Params:
    """Return the parameters of a client's request for a server of a revision.

    Raises:
        RequestError: The two are of different eras, and that of the server has no such method.
    """
    own = passed_on(params)
    if client.revision.is_modern is revision.is_modern:
        return own
    if method in REFUSED[Side.CLIENT][revision]:
        raise no_such_method(method, revision)
    return _to_modern_params(own, client, revision) if revision.is_modern else to_legacy_params(own)


def _to_modern_params(params: _Params, session: Agreement, revision: Revision) -> Mapping[str, Any]:
    declared = {PROTOCOL_VERSION_KEY: str(revision), CLIENT_CAPABILITIES_KEY: session.client_capabilities}
    if session.client_info is not None:
        declared[CLIENT_INFO_KEY] = session.client_info
    if session.log_level is not None:
        declared[LOG_LEVEL_KEY] = session.log_level
    return {**(params or {}), "_meta": {**declared, **meta_of(params)}}


def to_legacy_question(method: str, params: _Params, revision: Revision) -> Mapping[str, Any]:
    """Return the parameters of a question in a modern result for a client of the legacy era."""
    asked: Mapping[str, Any] = {} if params is None else params
    if (
        method == "elicitation/create"
        and asked.get("mode") == "url"
        and revision >= Revision.V2025_11_25
        and "elicitationId" not in asked
    ):
        return {**asked, "elicitationId": secrets.token_hex(16)}
    if method == "sampling/createMessage" and revision < Revision.V2025_11_25:
        with suppress(InvalidData, LocalProtocolError):  # what cannot be read passes as it is
            return to_wire(from_wire(asked, CreateMessageRequestParams), revision)  # a message is one block there
    return asked


# Results.


def to_legacy_result(method: str, result: Mapping[str, Any], revision: Revision) -> Mapping[str, Any]:
    """Return a modern result for a legacy client, as its revision can read it.

    Structured output that is no object is wrapped, with its schema, as servers do that know both eras
    (`_core._output_schemas`); content that the client's revision lacks becomes text.
    """
    plain = {name: value for name, value in result.items() if name not in _OF_MODERN_RESULTS}
    if method == "tools/list" and is_array(plain.get("tools")):
        plain["tools"] = [_with_schema_of_object(tool) for tool in plain["tools"]]
    elif method == "tools/call":
        output = plain.get("structuredContent")
        if output is not None and not is_object(output):
            plain["structuredContent"] = {RESULT_MEMBER: output}
        if is_array(plain.get("content")):
            plain["content"] = [_known_block(block, revision) for block in plain["content"]]
    elif method == "prompts/get" and is_array(plain.get("messages")):
        plain["messages"] = [
            {**message, "content": _known_block(message["content"], revision)}
            if is_object(message) and "content" in message
            else message
            for message in plain["messages"]
        ]
    return _without(plain, (SERVER_INFO_KEY,)) or {}


def _with_schema_of_object(tool: Any) -> Any:
    schema = tool.get("outputSchema") if is_object(tool) else None
    if not is_object(schema) or not needs_wrapping(schema):
        return tool
    if isinstance(schema.get("type"), str):
        return {**tool, "outputSchema": wrapped_schema(schema)}
    # Its output may be an object, which is not wrapped, or something else, which is: no schema fits both.
    return {name: value for name, value in tool.items() if name != "outputSchema"}


def _known_block(block: Any, revision: Revision) -> Any:
    """Return a block of content, or a text instead if the revision lacks its class."""
    with suppress(InvalidData, LocalProtocolError):  # likewise
        read: Any = from_wire(block, ContentBlock)
        if revision not in span_of(read.__class__):
            return to_wire(read, revision)
    return block


def to_modern_result(method: str, result: Mapping[str, Any], server: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a legacy result for a modern client.

    Args:
        method: What it answers.
        result: The result.
        server: How the server has described itself in the handshake.
    """
    added = to_wire(CacheableResult() if method in _WITH_FRESHNESS else Result(), LATEST)
    info = server.get("serverInfo", UNKNOWN)
    return {**added, **result, "_meta": {SERVER_INFO_KEY: info, **meta_of(result)}}


def with_subscription(params: _Params, id: object) -> dict[str, Any]:
    """Return a notification's parameters, or a result, that belong to the subscription with this id."""
    return {**(params or {}), "_meta": {**meta_of(params), SUBSCRIPTION_ID_KEY: id}}


# How the server has described itself.


def to_initialize_result(description: Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """Return the answer to ``initialize`` for what a modern server has answered to ``server/discover``."""
    info = description.get("serverInfo") or meta_of(description).get(SERVER_INFO_KEY) or UNKNOWN
    return {"protocolVersion": str(revision), "serverInfo": info, **_of_either_era(description)}


def to_discover_result(description: Mapping[str, Any], versions: list[str]) -> Mapping[str, Any]:
    """Return the answer to ``server/discover`` for what a legacy server has answered to ``initialize``."""
    result = {"supportedVersions": versions, **_of_either_era(description)}
    return to_modern_result("server/discover", result, description)


def _of_either_era(description: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: description[name] for name in ("capabilities", "instructions") if name in description}
    return {"capabilities": {}, **said}


# Errors.


def to_error(error: Exception, method: str, *, client_is_modern: bool) -> RequestError:
    """Return the error that answers a client's request, for the failure of the forwarded one.

    What the server has answered is returned as it is, but for the one code that the eras have not in common.
    """
    match error:
        case RequestError(code=code) if code == TRANSPORT_FAILED:
            return RequestError(INTERNAL_ERROR, f"the server behind this proxy: {error}")
        case RequestError(code=code) if method == "resources/read" and _means_not_found(error, code):
            expected = INVALID_PARAMS if client_is_modern else RESOURCE_NOT_FOUND
            return error if code == expected else RequestError(expected, error.message, error.data)
        case RequestError():
            return error
        case ConnectionLost():
            return RequestError(INTERNAL_ERROR, f"the server behind this proxy is lost: {error.reason}")
        case LocalProtocolError():
            return RequestError(INTERNAL_ERROR, f"this cannot be forwarded: {error}")
        case RemoteProtocolError():
            return RequestError(INTERNAL_ERROR, f"the server behind this proxy: {error}")
        case _:
            return RequestError(INTERNAL_ERROR, "the connection to the server behind this proxy was closed")


def _means_not_found(error: RequestError, code: int) -> bool:
    return code == RESOURCE_NOT_FOUND or (
        code == INVALID_PARAMS and is_object(error.data) and "uri" in error.data
    )


def no_such_method(method: str, revision: Revision) -> RequestError:
    """Return the error for a method that the other era does not have."""
    return RequestError(
        METHOD_NOT_FOUND, f"the server behind this proxy speaks {revision}, which has no method {method}"
    )
