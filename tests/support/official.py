"""The official schemas, and what covers each of their definitions. No test lives here.

A definition is covered by a `Target`: a wire class, and how an object of it becomes an instance of the definition.
The definitions for which that is not a matter of course are in the tables.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeGuard

import attrs
import jsonschema_rs
from inside_base import METHODS, Side
from inside_wire import options_of, span_of
from method_types import METHOD_TYPES
from places import DATA

from trio_mcp import Revision, types

Definitions = Mapping[str, Mapping[str, Any]]


@functools.cache
def schema(revision: Revision) -> Mapping[str, Any]:
    path = DATA / "mcp-schema" / revision / "schema.json"
    document: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def definitions(revision: Revision) -> Definitions:
    document = schema(revision)
    found: Definitions = document.get("$defs") or document["definitions"]
    return found


def _refuse(uri: str) -> dict[str, Any]:
    raise AssertionError(f"a schema refers to {uri}")


@functools.cache
def validator(revision: Revision, definition: str) -> jsonschema_rs.Validator:
    document = schema(revision)
    place = "$defs" if "$defs" in document else "definitions"
    root = {**document, "$ref": f"#/{place}/{definition}"}
    return jsonschema_rs.validator_for(root, validate_formats=True, retriever=_refuse)


Wrap = Callable[[Any], Any]


@attrs.frozen
class Target:
    """Objects of `cls`, wrapped, are instances of `definition`."""

    definition: str
    cls: type
    wrap: Wrap


def bare(wire: Any) -> Any:
    return wire


def request(method: str) -> Wrap:
    return lambda wire: {"jsonrpc": "2.0", "id": 1, "method": method, "params": wire}


def notification(method: str) -> Wrap:
    return lambda wire: {"jsonrpc": "2.0", "method": method, "params": wire}


def message(method: str) -> Wrap:
    return notification(method) if method.startswith("notifications/") else request(method)


def response(wire: Any) -> Any:
    return {"jsonrpc": "2.0", "id": "r", "result": wire}


def error(code: int) -> Wrap:
    return lambda wire: {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "Failed", "data": wire}}


def member_of_map(wire: Any) -> Any:
    return {"key": wire}


def _twice(wrap: Wrap, wire: Any) -> Any:
    return [wrap(wire), wrap(wire)]


def _error_in(wrap: Wrap, wire: Any) -> Any:
    return wrap(wire)["error"]


def is_object(data: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(data, dict)


def is_list(data: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(data, (list, tuple))


BY_ANOTHER_NAME: Final[Mapping[str, tuple[type, ...]]] = {
    # What several objects have in common is no class here, but a member of each.
    "Annotated": (types.TextContent, types.ImageContent, types.Resource),
    "BaseMetadata": (types.Tool, types.Prompt, types.Resource, types.Implementation),
    "Icons": (types.Tool, types.Prompt, types.Resource, types.Implementation),
    "ResourceContents": (types.TextResourceContents, types.BlobResourceContents),
    "ResourceRequestParams": (types.ReadResourceRequestParams,),
    "TaskAugmentedRequestParams": (types.CallToolRequestParams, types.CreateMessageRequestParams),
    # Renamed in 2025-06-18.
    "ResourceReference": (types.ResourceTemplateReference,),
    # One object in 2025-06-18, a union later.
    "EnumSchema": (types.LegacyTitledEnumSchema, types.UntitledSingleSelectEnumSchema),
    # The result of whichever request became the task.
    "GetTaskPayloadResult": (types.CallToolResult, types.CreateMessageResult, types.ElicitResult),
}

MAPS: Final[Mapping[str, Any]] = {
    "InputRequests": types.InputRequest,
    "InputResponses": types.InputResponse,
}

ERROR_DATA: Final[Mapping[str, tuple[int, type]]] = {
    "UnsupportedProtocolVersionError": (-32022, types.UnsupportedProtocolVersionData),
    "MissingRequiredClientCapabilityError": (-32021, types.MissingRequiredClientCapabilityData),
    "URLElicitationRequiredError": (-32042, types.URLElicitationRequiredData),
}

ERRORS_WITHOUT_DATA: Final[Mapping[str, int]] = {
    "ParseError": -32700,
    "InvalidRequestError": -32600,
    "MethodNotFoundError": -32601,
    "InvalidParamsError": -32602,
    "InternalError": -32603,
    "HeaderMismatchError": -32020,
}
"""Errors that are a code and no more: `RequestError`, and a constant in `trio_mcp._errors`."""

# The envelopes are the codec's; here they are put together by hand around what they carry.
REQUESTS: Final = ("Request", "JSONRPCRequest")
NOTIFICATIONS: Final = ("Notification", "JSONRPCNotification")
RESPONSES: Final = ("JSONRPCResponse", "JSONRPCResultResponse")
ERRORS: Final = ("JSONRPCError", "JSONRPCErrorResponse")

NOT_OBJECTS: Final[Mapping[str, str]] = {
    "Cursor": "types.Cursor",
    "LoggingLevel": "types.LoggingLevel",
    "ProgressToken": "types.ProgressToken",
    "RequestId": "types.RequestId",
    "ResultType": "str: the set is open",
    "Role": "types.Role",
    "TaskStatus": "types.TaskStatus",
    "JSONArray": "object",
    "JSONObject": "types.JSONObject",
    "JSONValue": "object",
    "MetaObject": "types.MetaObject; the keys are in trio_mcp._revisions",
    "NotificationMetaObject": "types.MetaObject",
    "RequestMetaObject": "types.MetaObject",
    "ResultMetaObject": "types.MetaObject",
    "SubscriptionsListenResultMetaObject": "types.MetaObject",
}
"""Definitions of scalars and of open objects, and the alias that stands for each."""


def wire_class(name: str) -> type | None:
    found = getattr(types, name, None)
    return found if isinstance(found, type) and attrs.has(found) else None


def methods_of(revision: Revision) -> tuple[str, ...]:
    return tuple(m for m, rule in METHODS.items() if any(rule.allows(side, revision) for side in Side))


def result_classes(revision: Revision) -> tuple[type, ...]:
    results = (METHOD_TYPES[method].result for method in methods_of(revision))
    return tuple(dict.fromkeys(result for result in results if result is not None))


@functools.cache
def targets_of(revision: Revision, definition: str) -> tuple[Target, ...]:
    """Return what covers a definition, in classes that the revision has."""
    candidates = (Target(definition, cls, wrap) for cls, wrap in _candidates(revision, definition))
    return tuple(target for target in candidates if revision in span_of(target.cls))


def _candidates(revision: Revision, name: str) -> Iterator[tuple[type, Wrap]]:
    definition = definitions(revision)[name]
    same = wire_class(name)
    if same is not None:
        yield same, bare
    for cls in BY_ANOTHER_NAME.get(name, ()):
        yield cls, bare
    for cls in options_of(MAPS[name]) if name in MAPS else ():
        yield cls, member_of_map
    if name in ERROR_DATA:
        code, cls = ERROR_DATA[name]
        yield cls, error(code)
    yield from _enveloped(revision, name)
    method = definition.get("properties", {}).get("method", {}).get("const")
    if method is not None:
        for cls in options_of(METHOD_TYPES[method].params):
            yield cls, message(method)
    result = definition.get("properties", {}).get("result")
    if result is not None and name not in RESPONSES:
        for cls, _ in _referred(revision, result):
            yield cls, response
    # Unions, and other names for the same.
    yield from _referred(revision, definition)


def _referred(revision: Revision, part: Mapping[str, Any]) -> Iterator[tuple[type, Wrap]]:
    for option in (part, *part.get("anyOf", ())):
        if "$ref" in option:
            for target in targets_of(revision, option["$ref"].rpartition("/")[2]):
                yield target.cls, target.wrap


def _enveloped(revision: Revision, name: str) -> Iterator[tuple[type, Wrap]]:
    for method in methods_of(revision):
        for cls in options_of(METHOD_TYPES[method].params):
            is_request = not method.startswith("notifications/")
            if name in (REQUESTS if is_request else NOTIFICATIONS):
                yield cls, message(method)
            if name == "JSONRPCBatchRequest":
                yield cls, partial(_twice, message(method))
            if name == "PaginatedRequest" and cls is types.PaginatedRequestParams:
                yield cls, message(method)
    if name in RESPONSES:
        for cls in result_classes(revision):
            yield cls, response
    if name == "JSONRPCBatchResponse":
        for cls in result_classes(revision):
            yield cls, lambda wire: [response(wire)]
    if name in ERRORS:
        for cls in (types.CallToolRequestParams, *(cls for _, cls in ERROR_DATA.values())):
            yield cls, error(-32000)
    if name == "Error":
        for code, cls in ERROR_DATA.values():
            yield cls, partial(_error_in, error(code))


@functools.cache
def targets_by_class(revision: Revision) -> Mapping[type, tuple[Target, ...]]:
    """Return the definitions an object of each class is checked against, each once."""
    found: dict[type, dict[str, Target]] = {}
    for definition in definitions(revision):
        for target in targets_of(revision, definition):
            found.setdefault(target.cls, {}).setdefault(definition, target)
    return {cls: tuple(targets.values()) for cls, targets in found.items()}
