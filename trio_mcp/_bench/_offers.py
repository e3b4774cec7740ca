"""What a server offers, and what of it can be called thousands of times: found out by asking it.

Nobody has to name a tool that does no harm: one that declares that it only reads, or has the name of one that
everybody knows. Its arguments are made up from its schema. All others are called only if they are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, final

from .._codec._json import encode, is_array, is_object, show
from .._printable import printable
from ._http_links import HttpLink, SseLink
from ._links import LineLink, LoadError, now
from ._messages import Message
from ._opening import PATIENCE, AnsweredByError, Opened, ask_once, open_server

PAGES: Final = 50
"""How many pages of a list are asked for."""
TRIES: Final = 6
"""How many tools are tried."""
DEEPEST: Final = 8
"""How many levels of a schema are looked at."""
MARKER: Final = "trio-mcp-bench-marker"
SLOW_SECONDS: Final = 5
"""How long a tool is asked to take that is given up."""

HARMLESS: Final = re.compile(
    r"(get[-_]?)?(echo|ping|add|sum|noop|hello|greet|version|now|((get|current)[-_]?)*(time|date))", re.IGNORECASE
)
"""Names of tools that are called without any annotation."""
SLOW: Final = re.compile(r"sleep|wait|delay|slow|long[-_ ]?running|hold", re.IGNORECASE)
DURATION: Final = re.compile(r"duration|second|secs|delay|milli|(^|_)ms$|sleep|wait", re.IGNORECASE)
MILLISECONDS: Final = re.compile(r"milli|(^|_)ms$", re.IGNORECASE)
NAMED: Final[Sequence[tuple[re.Pattern[str], str]]] = (
    (re.compile(r"time_?zone$|^tz$", re.IGNORECASE), "UTC"),
    (re.compile(r"(^|_)time$", re.IGNORECASE), "12:00"),
    (re.compile(r"(^|_)date$", re.IGNORECASE), "2026-01-01"),
    (re.compile(r"ur[il]$", re.IGNORECASE), "https://example.com/"),
)
"""What a string is called that must have a certain form, and one of it."""
FORMATS: Final[Mapping[str, str]] = {
    "date-time": "2026-01-01T12:00:00Z",
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "uri": "https://example.com/",
    "email": "ada@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def look_at(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Open a server and find out what it is, has, and can be asked; the server is ended again.

    The job is one of `open_server`, and may have ``tool``, ``arguments``, ``slow``, ``slow_arguments``,
    ``flood``, ``flood_arguments``.

    Raises:
        LoadError: It cannot be opened, or refuses what it was asked to be called with.
    """
    opened = open_server(job)
    try:
        return _Look(opened, job).facts()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LoadError(f"an answer that is not what the protocol has: {error!r}") from error
    finally:
        opened.close()


@final
class _Look:
    def __init__(self, opened: Opened, job: Mapping[str, Any]) -> None:
        self._opened = opened
        self._link = opened.link
        self._job = job
        self._ask: Callable[..., Message] = partial(ask_once, self._link, within=job.get("patience", PATIENCE))
        self._notes: list[str] = []

    def facts(self) -> Mapping[str, Any]:
        """Return what was found."""
        tools, has_list = self._list()
        call: Message | None
        call, about = self._choose(tools)
        echoes = self._echo_parameter(tools, call) if call is not None else None
        slow = self._named(tools, "slow") or _slow_call(tools)
        flood = self._named(tools, "flood")
        if call is None:
            method = "server/discover" if self._opened.dialect.is_modern else "ping"
            call, about = _request(method), method
            if tools:
                self._notes.append(
                    "no tool is called, as none declares that it only reads (annotations.readOnlyHint); "
                    "--tool names one that may be called very often"
                )
            else:
                self._notes.append("it has no tools")
            self._time(call)
        if slow is None and tools:
            self._notes.append("giving up is not measured, as no slow tool was found; --slow names one")
        strays = self._link.strays if isinstance(self._link, LineLink) else None
        if strays:
            self._notes.append(
                f"it prints what is no message to standard output, such as {strays[0]}: clients stumble over it"
            )
        process = self._opened.server
        return {
            "name": printable(self._opened.name, 60),
            "version": printable(self._opened.version, 40),
            "revision": self._opened.dialect.revision,
            "era": "modern" if self._opened.dialect.is_modern else "legacy",
            "transport": "sse" if isinstance(self._link, SseLink) else "",
            "is_http": isinstance(self._link, (HttpLink, SseLink)),
            "has_process": process is not None and process.memory_bytes() > 0,
            "tools": len(tools),
            "has_list": has_list,
            "call": call,
            "about": about,
            "milliseconds": self._time(call),
            "echoes": echoes,
            "slow": slow,
            "flood": flood,
            "notes": self._notes,
        }

    def _list(self) -> tuple[list[Message], bool]:
        """Return the tools, and whether there is a list."""
        tools: list[Message] = []
        params: Message = {}
        for _ in range(PAGES):
            try:
                result = self._ask("tools/list", params)
            except AnsweredByError:
                return tools, False
            tools += [tool for tool in result["tools"] if is_object(tool) and isinstance(tool.get("name"), str)]
            if not result.get("nextCursor"):
                break
            params = {"cursor": result["nextCursor"]}
        return tools, True

    def _choose(self, tools: Sequence[Message]) -> tuple[Message | None, str]:
        """Return a call that succeeds, and how it is written."""
        if self._job.get("tool"):
            call = self._named(tools, "tool")
            assert call is not None
            result = self._ask(**call)
            if result.get("isError"):
                raise LoadError(f"the tool fails, so it is not called: {show(_text_of(result))}; see --arguments")
            return call, _written(call)
        for tool in sorted(filter(_is_harmless, tools), key=_preference)[:TRIES]:
            call = _call_of(tool)
            try:
                result = self._ask(**call)
            except AnsweredByError:
                continue
            if not result.get("isError") and result.get("resultType", "complete") == "complete":
                return call, _written(call)
        return None, ""

    def _named(self, tools: Sequence[Message], option: str) -> Message | None:
        """Return the call of a tool that was named on the command line, if one was."""
        name = self._job.get(option)
        if not name:
            return None
        found = [tool for tool in tools if tool["name"] == name]
        if not found:
            known = ", ".join(printable(tool["name"], 40) for tool in tools[:20]) or "none"
            raise LoadError(f"the server has no tool {name}; it has {known}")
        given = self._job.get("arguments" if option == "tool" else f"{option}_arguments")
        return _call_of(found[0], given)

    def _echo_parameter(self, tools: Sequence[Message], call: Message) -> str | None:
        """Return the parameter of a tool whose text comes back in the result."""
        tool = next(tool for tool in tools if tool["name"] == call["params"]["name"])
        schemas = dict(_properties_of(tool))
        arguments: Message = call["params"]["arguments"]
        for name, value in arguments.items():
            schema = schemas.get(name, {})
            if isinstance(value, str) and not {"enum", "const", "format", "maxLength"} & schema.keys():
                marked = {**call["params"], "arguments": {**arguments, name: MARKER}}
                try:
                    result = self._ask("tools/call", marked)
                except AnsweredByError:
                    continue
                if not result.get("isError") and MARKER.encode() in encode(result):
                    return name
        return None

    def _time(self, call: Mapping[str, Any]) -> float:
        """Return how many milliseconds one call takes."""
        began = now()
        self._ask(**call)
        return (now() - began) / 1e6


def _text_of(result: Message) -> str:
    blocks: Any = result.get("content") or []
    return " ".join(str(block.get("text", "")) for block in blocks if is_object(block))


def _written(call: Message) -> str:
    arguments = ", ".join(f"{name}={show(value)}" for name, value in call["params"]["arguments"].items())
    return printable(f"{call['params']['name']}({arguments})", 100)


def _is_harmless(tool: Message) -> bool:
    annotations: Any = tool.get("annotations") or {}
    if annotations.get("readOnlyHint") is True:
        return SLOW.search(tool["name"]) is None
    return annotations.get("destructiveHint") is not True and HARMLESS.fullmatch(tool["name"]) is not None


def _preference(tool: Message) -> tuple[bool, int]:
    """Put well-known names first, then those that need little."""
    needed: Any = _schema_of(tool).get("required") or ()
    return HARMLESS.fullmatch(tool["name"]) is None, len(needed)


def _schema_of(tool: Message) -> Message:
    schema: Any = tool.get("inputSchema")
    return schema if is_object(schema) else dict[str, Any]()


def _request(method: str, params: Message | None = None) -> Message:
    return {"method": method, "params": params or {}}


def _call_of(tool: Message, arguments: Mapping[str, Any] | None = None) -> Message:
    schema = _schema_of(tool)
    made: Any = example_of(schema, schema) if arguments is None else arguments
    return _request("tools/call", {"name": tool["name"], "arguments": made if is_object(made) else {}})


def _slow_call(tools: Sequence[Message]) -> Message | None:
    """Return a call that takes some seconds, of a tool that says so by its name and has a duration."""
    for tool in tools:
        if SLOW.search(tool["name"]) is None:
            continue
        call = _call_of(tool)
        for name, schema in _properties_of(tool):
            if DURATION.search(name) and schema.get("type") in {"integer", "number"}:
                wanted = SLOW_SECONDS * (1_000 if MILLISECONDS.search(name) else 1)
                call["params"]["arguments"][name] = min(wanted, schema.get("maximum", wanted))
                return call
    return None


def _properties_of(tool: Message) -> Iterator[tuple[str, Message]]:
    properties: Any = _schema_of(tool).get("properties")
    for name, schema in properties.items() if is_object(properties) else ():
        if is_object(schema):
            yield name, schema


def example_of(schema: Any, root: Message, name: str = "", depth: int = 0) -> Any:
    """Return a value that a schema may admit: what it says itself, or the simplest; no optional properties.

    Args:
        schema: The schema.
        root: The whole schema that it is a part of.
        name: What the value is called.
        depth: How deep it is in the whole.
    """
    schema = _resolved(schema, root)
    if depth > DEEPEST or not is_object(schema):
        return None
    for told in ("const", "default"):
        if told in schema:
            return schema[told]
    for told in ("enum", "examples"):
        if is_array(schema.get(told)) and schema[told]:
            return schema[told][0]
    for several in ("anyOf", "oneOf", "allOf"):
        if is_array(schema.get(several)) and schema[several]:
            real = [one for one in schema[several] if not (is_object(one) and one.get("type") == "null")]
            return example_of((real or schema[several])[0], root, name, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if is_array(kind):
        kind = next((one for one in kind if one != "null"), "null")
    match kind:
        case "object":
            properties: Any = schema.get("properties") or {}
            needed: Any = schema.get("required") or ()
            return {one: example_of(properties.get(one, {}), root, one, depth + 1) for one in needed}
        case "array":
            return [example_of(schema.get("items", {}), root, name, depth + 1)] * int(schema.get("minItems", 0))
        case "string":
            return _string_of(schema, name)
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            return min(max(1, least), schema.get("maximum", max(1, least)))
        case "boolean":
            return False
        case _:
            return None


def _string_of(schema: Message, name: str) -> str:
    text = FORMATS.get(schema.get("format", ""), "")
    text = text or next((text for pattern, text in NAMED if pattern.search(name)), "hello")
    return text.ljust(int(schema.get("minLength", 0)), "x")


def _resolved(schema: Any, root: Message) -> Any:
    for _ in range(DEEPEST):
        reference: Any = schema.get("$ref") if is_object(schema) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        schema = root
        for step in reference[2:].split("/"):
            schema = schema.get(step) if is_object(schema) else None
    return schema
