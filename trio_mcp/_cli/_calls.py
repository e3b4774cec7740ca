"""What is asked of a server: ``call``, ``read``, ``prompt``, ``ping`` and ``listen``."""

from __future__ import annotations

import base64
import binascii
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import trio

from .. import types
from .._client._client import Client
from .._codec._json import is_object
from .._codec._jsonrpc import to_wire
from .._core._changes import (
    Change,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    Resynced,
    TaskUpdated,
    ToolsListChanged,
)
from .._core._output_schemas import RESULT_MEMBER
from .._revisions import Revision
from ._arguments import check_sendable, read_arguments, read_object, split_pairs
from ._console import Console
from ._layout import shown_line
from ._offers import find_tool
from ._parser import Exit, Failure, Options


async def call(client: Client, options: Options, console: Console) -> int:
    """Call a tool and print its structured output as JSON, or else its text.

    The tool is listed first, for its schema says how the arguments are read; not if they are given as JSON.
    """
    check_sendable({"TOOL": options.name})
    if options.arguments_json is not None:
        if options.words:
            raise Failure(Exit.USAGE, "the arguments are given by --json or as key=value, not both")
        arguments = read_object(await _given_json(options.arguments_json), "--json")
    else:
        tool = await find_tool(client, options.name) if options.words else None
        arguments = read_arguments(options.words, {} if tool is None else tool.input_schema)
    result = await client.call_tool(options.name, arguments, on_progress=console.progress)
    console.end_progress()
    if options.raw:
        await console.say_json(to_wire(result, client.revision), is_raw=True)
    elif result.is_error:
        why = "\n".join(shown_content(result.content))
        console.quote("the tool has failed: ", why or "it does not say why")
    elif result.has_structured_content:
        await console.say_json(_unwrapped(result.structured_content, client.revision))
    else:
        await console.say(*shown_content(result.content))
    return Exit.FAILED if result.is_error else Exit.DONE


def _unwrapped(output: object, revision: Revision) -> object:
    """Return structured output without the object that older revisions need around everything else."""
    if not revision.is_modern and is_object(output) and output.keys() == {RESULT_MEMBER}:
        return output[RESULT_MEMBER]
    return output


async def _given_json(text: str) -> str:
    await trio.lowlevel.checkpoint()
    if text != "-":
        return text
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise Failure(Exit.USAGE, "--json - reads standard input, and there is none")
    try:
        # A thread that still reads is gone with the process. Past `sys.stdin`, whose lock Python would wait for.
        data = await trio.to_thread.run_sync(_read_all, stdin.fileno(), abandon_on_cancel=True)
    except OSError as error:
        raise Failure(Exit.USAGE, f"standard input cannot be read: {error.strerror}") from None
    return data.decode(errors="replace")


def _read_all(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(descriptor, 65_536):
        pieces.append(piece)
    return b"".join(pieces)


def shown_content(content: Iterable[types.ContentBlock | types.SamplingMessageContentBlock]) -> Iterator[str]:
    """Yield content as text, block by block; of what is no text, what it is."""
    for block in content:
        match block:
            case types.TextContent(text=text):
                yield text
            case types.ImageContent(data=data, mime_type=kind):
                yield f"[image: {kind}, {_size(data)}]"
            case types.AudioContent(data=data, mime_type=kind):
                yield f"[audio: {kind}, {_size(data)}]"
            case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
                yield text
            case types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, blob=data, mime_type=kind)):
                yield f"[{uri}: {kind or 'bytes'}, {_size(data)}]"
            case types.ResourceLink(uri=uri, name=name):
                yield f"[{name}: {uri}]"
            case _:
                yield f"[{block.type}]"


def _size(data: str) -> str:
    """Return how many bytes a text in base64 stands for."""
    return f"{len(data) * 3 // 4 - data[-2:].count('='):,} bytes"


async def read(client: Client, options: Options, console: Console) -> int:
    """Read a resource, and print its text or write its bytes to a file."""
    check_sendable({"URI": options.name})
    result = await client.read_resource(options.name, on_progress=console.progress)
    console.end_progress()
    if options.output is not None:
        await _write(options.output, b"".join(map(_bytes_of, result.contents)), console)
    elif options.json or options.raw:
        await console.say_json(to_wire(result, client.revision), is_raw=options.raw)
    else:
        for contents in result.contents:
            if isinstance(contents, types.TextResourceContents):
                await console.say(contents.text.removesuffix("\n"))
            else:
                size = _size(contents.blob)
                await console.say(
                    f"[{contents.uri}: {contents.mime_type or 'bytes'}, {size}; --output FILE writes them]"
                )
    return Exit.DONE


def _bytes_of(contents: types.TextResourceContents | types.BlobResourceContents) -> bytes:
    if isinstance(contents, types.TextResourceContents):
        return contents.text.encode(errors="replace")
    try:
        return base64.b64decode(contents.blob, validate=True)
    except (binascii.Error, ValueError):
        raise Failure(Exit.PROTOCOL, f"what the server sends for {contents.uri} is not base64") from None


async def _write(path: str, data: bytes, console: Console) -> None:
    try:
        await trio.Path(path).write_bytes(data)
    except OSError as error:
        raise Failure(Exit.USAGE, f"{path} cannot be written: {error.strerror}") from None
    console.note(f"{len(data):,} bytes are in {Path(path)}")


async def prompt(client: Client, options: Options, console: Console) -> int:
    """Get a prompt and print its messages."""
    arguments: dict[str, str] = {}
    for key, texts in split_pairs(options.words).items():
        if len(texts) > 1:
            raise Failure(Exit.USAGE, f"{key} is given {len(texts)} times")
        arguments[key] = texts[0]
    check_sendable(arguments)
    check_sendable({"NAME": options.name})
    result = await client.get_prompt(options.name, arguments, on_progress=console.progress)
    console.end_progress()
    if options.json or options.raw:
        await console.say_json(to_wire(result, client.revision), is_raw=options.raw)
        return Exit.DONE
    for number, message in enumerate(result.messages):
        await console.say(*([""] if number else []), f"{message.role}:", *shown_content([message.content]))
    return Exit.DONE


async def ping(client: Client, options: Options, console: Console) -> int:
    """Ask the server for a sign of life, and print how long it took."""
    del options
    begin = trio.current_time()
    await client.ping()
    took = trio.current_time() - begin
    info = client.server_info
    name = "the server" if info is None else shown_line(f"{info.name} {info.version}".strip())
    await console.say(f"{name} has answered in {took * 1000:.1f} ms")
    return Exit.DONE


async def listen(client: Client, options: Options, console: Console) -> int:
    """Print changes as they happen, until as many have come as are wanted, or the server ends it."""
    kinds = {word for word in options.words if word in {"tools", "prompts", "resources"}}
    uris = [word for word in options.words if word not in kinds]
    for word in uris:
        check_sendable({"URI": word})
        if ":" not in word:
            raise Failure(Exit.USAGE, f"{word!r} is neither tools, prompts, resources nor the URI of a resource")
    if not options.words:
        kinds = _declared_changes(client)
        if not kinds:
            raise Failure(Exit.USAGE, "the server declares no changes of lists; name what to listen to")
    left = options.count
    async with client.listen(
        tools_list_changed="tools" in kinds,
        prompts_list_changed="prompts" in kinds,
        resources_list_changed="resources" in kinds,
        resources=uris,
    ) as events:
        agreed = events.acknowledged
        lists = {
            "tools": agreed.tools_list_changed,
            "prompts": agreed.prompts_list_changed,
            "resources": agreed.resources_list_changed,
        }
        wanted = [*sorted(kinds), *uris]
        heard = [word for word in wanted if lists.get(word) or word in (agreed.resource_subscriptions or ())]
        if not heard:
            raise Failure(Exit.PROTOCOL, f"the server notifies of no changes of {', '.join(wanted)}")
        if len(heard) < len(wanted):
            console.note(f"the server notifies of no changes of {', '.join(w for w in wanted if w not in heard)}")
        console.note(f"listening to {', '.join(heard)}; Ctrl+C ends it")
        async for event in events:
            text, plain = _told(event)
            if options.json or options.raw:
                await console.say_json(plain, is_raw=True)  # a line for each
            else:
                await console.say(text)
            left = None if left is None else left - 1
            if left == 0:
                break
    return Exit.DONE


def _declared_changes(client: Client) -> set[str]:
    declared = client.server_capabilities
    if declared is None:
        return {"tools", "prompts", "resources"}
    lists = {"tools": declared.tools, "prompts": declared.prompts, "resources": declared.resources}
    return {kind for kind, capability in lists.items() if capability is not None and capability.list_changed}


def _told(event: Change) -> tuple[str, dict[str, str]]:
    """Return a change in words, and as plain JSON."""
    match event:
        case ToolsListChanged():
            return "the list of tools has changed", {"changed": "tools"}
        case PromptsListChanged():
            return "the list of prompts has changed", {"changed": "prompts"}
        case ResourcesListChanged():
            return "the list of resources has changed", {"changed": "resources"}
        case ResourceUpdated(uri=uri):
            return f"{shown_line(uri)} has changed", {"changed": "resource", "uri": uri}
        case TaskUpdated(id=id):
            return f"task {shown_line(id)} has changed", {"changed": "task", "id": id}
        case Resynced(reason=reason):
            return f"anything may have changed: {shown_line(reason)}", {"changed": "all", "reason": reason}
