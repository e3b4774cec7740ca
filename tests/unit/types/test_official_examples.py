"""The official examples, the examples in the specification's pages and recorded traffic are read as what they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from inside_wire import from_wire, to_wire
from method_types import METHOD_TYPES
from official import ERROR_DATA, ERRORS_WITHOUT_DATA, is_list, is_object, wire_class
from places import DATA

from trio_mcp import Revision, types


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


Place = tuple[Any, Any]
"""A part of a message, and what reads it."""


def places_in(message: Mapping[str, Any], answers: str | None = None) -> Iterator[Place]:
    """Find the parts of a JSON-RPC message that are objects of the protocol."""
    if "method" in message:
        if message["method"] in METHOD_TYPES:
            yield message.get("params", {}), METHOD_TYPES[message["method"]].params
    elif "result" in message:
        result = message["result"]
        if result.get("resultType") == "input_required":
            yield result, types.InputRequiredResult
        elif "task" in result:
            yield result, types.CreateTaskResult
        else:
            yield result, METHOD_TYPES[answers or METHOD_OF_RESULT[_sign_of(result)]].result
    else:
        for code, cls in ERROR_DATA.values():
            if message["error"]["code"] == code:
                yield message["error"]["data"], cls


METHOD_OF_RESULT: Final = {
    "action": "elicitation/create",
    "completion": "completion/complete",
    "contents": "resources/read",
    "messages": "prompts/get",
    "model": "sampling/createMessage",
    "prompts": "prompts/list",
    "protocolVersion": "initialize",
    "resourceTemplates": "resources/templates/list",
    "resources": "resources/list",
    "roots": "roots/list",
    "supportedVersions": "server/discover",
    "tasks": "tasks/list",
    "taskId": "tasks/get",
    "tools": "tools/list",
    # Last, because others have it too.
    "content": "tools/call",
    "": "ping",
}
"""The member that shows which method a result belongs to."""


def _sign_of(result: Mapping[str, Any]) -> str:
    return next((sign for sign in METHOD_OF_RESULT if sign in result), "")


def written(obj: Any, revision: Revision) -> Any:
    if is_object(obj):
        return {key: written(value, revision) for key, value in obj.items()}
    return to_wire(obj, revision)


# The official examples.

EXAMPLES: Final = sorted((DATA / "mcp-schema" / "2026-07-28" / "examples").glob("*/*.json"))

Patch = Callable[[Any], Any]


def _with_mode(result: Any) -> Any:
    params = result["inputRequests"]["github_login"]["params"]
    params["mode"] = "form"
    return result


NOT_AS_THEY_ARE: Final[Mapping[str, Patch]] = {
    # `mode` may be missing; it is always sent.
    "input-required-result-with-elicitation-and-sampling-and-request-state": _with_mode,
    # Without what 2026-07-28 requires of a cacheable result. The schema lets it pass for an InputRequiredResult.
    "read-resource-result-response": lambda result: {**result, "ttlMs": 0, "cacheScope": "private"},
    # The schema has no id there; the example has one, and it is ignored.
    "list-roots-request": lambda request: {"method": request["method"]},
}
"""What is written in place of an example, by its name."""


def _example_places(path: Path) -> Iterator[Place]:
    definition, example = path.parent.name, read_json(path)
    cls = wire_class(definition)
    if cls is not None:
        yield example, cls
    elif definition in ("InputRequests", "InputResponses"):
        yield example, getattr(types, definition)
    elif definition not in ERRORS_WITHOUT_DATA:
        yield from places_in(example)


def test_official_examples_are_read_and_written_unchanged(subtests: pytest.Subtests) -> None:
    """Nothing in an official example is lost or added, except what the table says."""
    assert len(EXAMPLES) > 100
    for path in EXAMPLES:
        with subtests.test(path=path):
            places = list(_example_places(path))
            assert len(places) == (path.parent.name not in ERRORS_WITHOUT_DATA)
            for data, kind in places:
                patch = NOT_AS_THEY_ARE.get(path.stem, _as_it_is)
                assert written(from_wire(data, kind), Revision.V2026_07_28) == patch(data)


def _as_it_is(data: Any) -> Any:
    return data


# The examples in the pages.

NO_OBJECT_OF_MCP: Final = (
    "basic/authorization",
    "basic/index.mdx",  # schemas of JSON
)
"""Where the pages show other JSON, and not an object of the protocol."""

META: Final[Mapping[str, object]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

SIGNS: Final[Mapping[str, Any]] = {
    "inputSchema": types.Tool,
    "action": types.ElicitResult,
    "roots": types.ListRootsResult,
    "model": types.CreateMessageResult,
    "role": types.SamplingMessage,
    "blob": types.BlobResourceContents,
    "method": types.InputRequest,
}
"""What reads a block that is part of a message, by a member that only it has."""


def _block_places(file: str, section: str, block: Any) -> Iterator[Place]:
    if is_list(block):
        yield from ((root, types.Root) for root in block)
    elif "jsonrpc" in block:
        yield from places_in(block)
    elif "capabilities" in block:
        is_client = file.startswith("client/") or "roots" in block["capabilities"] or section.startswith("Client")
        yield block["capabilities"], types.ClientCapabilities if is_client else types.ServerCapabilities
    elif "_meta" in block:
        yield block["_meta"]["io.modelcontextprotocol/clientCapabilities"], types.ClientCapabilities
    elif section in ("InputRequests", "InputResponses"):
        yield block, getattr(types, section)
    elif "task" in block:
        yield block["task"], types.TaskMetadata
    elif "io.modelcontextprotocol/related-task" in block:
        yield block["io.modelcontextprotocol/related-task"], types.RelatedTaskMetadata
    elif "type" in block:
        is_field = file.endswith("elicitation.mdx")
        yield block, types.PrimitiveSchemaDefinition if is_field else types.ContentBlock
    elif "uri" in block and "text" in block:
        yield block, types.TextResourceContents
    elif "uri" in block and "blob" not in block:
        yield block, types.Root if file == "client/roots.mdx" else types.Resource
    else:
        sign = next(sign for sign in SIGNS if sign in block)
        yield block, SIGNS[sign]


def _without_annotations_of_contents(block: Any) -> Any:
    del block["resource"]["annotations"]
    return block


def _without_pattern(block: Any) -> Any:
    del block["pattern"]
    return block


NOT_AS_ON_THE_PAGE: Final[Mapping[str, Patch]] = {
    # No revision's schema has annotations of a resource's contents; they belong to the block around it.
    "2025-06-18/65-server/tools": _without_annotations_of_contents,
    "2025-11-25/105-server/tools": _without_annotations_of_contents,
    "2026-07-28/92-server/tools": _without_annotations_of_contents,
    # No revision's schema has it, and the page of 2026-07-28 has it no more.
    "2025-11-25/34-client/elicitation": _without_pattern,
}
"""What is written in place of a block, by its name below."""


def _pages() -> dict[tuple[Revision, str], list[tuple[str, str, Any]]]:
    """Return the examples by page, with their names and sections."""
    pages: dict[tuple[Revision, str], list[tuple[str, str, Any]]] = {}
    for revision in Revision:
        for number, block in enumerate(read_json(DATA / "mcp-schema" / revision / "doc-examples.json")):
            page = block["file"]
            if not page.startswith(NO_OBJECT_OF_MCP) or "jsonrpc" in block["json"]:
                name = f"{revision}/{number}-{page.removesuffix('.mdx')}"
                pages.setdefault((revision, page), []).append((name, block["section"], block["json"]))
    return pages


PAGES: Final = _pages()


def _is_of_request(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, types.RequestParams)


def test_examples_in_the_pages_are_read_and_written_unchanged(subtests: pytest.Subtests) -> None:
    """The text of the specification is understood as well as its schema."""
    assert len(PAGES) > 60
    for (revision, page), blocks in PAGES.items():
        with subtests.test(revision=revision, page=page):
            for name, section, block in blocks:
                patch = NOT_AS_ON_THE_PAGE.get(name, _as_it_is)
                for part, kind in _block_places(page, section, block):
                    # The pages of 2026-07-28 leave out what every request says.
                    data: Any = {"_meta": META, **part} if revision.is_modern and _is_of_request(kind) else part
                    assert written(from_wire(data, kind), revision) == patch(data), name


# Recorded traffic.

# Lines end with a newline; `str.splitlines` would also split at separators inside the strings.
CORPUS: Final = [
    json.loads(line)
    for line in (DATA / "wire-corpus" / "stdio.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
]


MEMBERS_OF_THEIR_OWN: Final = {
    "requestedSchema.title",  # what pydantic adds to the schema of an object
    "resources.text",  # "everything" lists its resources with their contents
    "resources.blob",
    "contents.name",
}
"""Members that peers send and no revision knows. They are ignored."""


def _lost(data: Any, written: Any, where: str = "") -> Iterator[str]:
    """Yield the paths of what is not written back; a `null` is not missed."""
    if is_object(data) and is_object(written):
        for name, value in data.items():
            path = f"{where}.{name}".strip(".")
            if name not in written and value is not None:
                yield path
            elif name in written:
                yield from _lost(value, written[name], path)
    elif is_list(data) and is_list(written) and len(data) == len(written):
        for value, written_value in zip(data, written, strict=True):
            yield from _lost(value, written_value, where)
    elif data != written:
        yield where


def test_recorded_messages_are_read() -> None:
    """What peers in use really say, nulls and newer members included, is understood, and nothing of it is lost."""
    assert len(CORPUS) > 300
    for number, recorded in enumerate(CORPUS):
        message = recorded["message"]
        places = list(places_in(message, recorded.get("answers")))
        assert len(places) == ("error" not in message), number
        for data, kind in places:
            # "?": the server spoke before a revision was agreed on.
            revision = Revision(recorded["revision"].replace("?", "2025-11-25"))
            assert set(_lost(data, written(from_wire(data, kind), revision))) <= MEMBERS_OF_THEIR_OWN, number
