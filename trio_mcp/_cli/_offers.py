"""What a server is and offers: ``list``, ``describe`` and ``discover``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeAlias

from .._client._client import Client
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import to_wire
from .._revisions import Revision
from ..types import Prompt, Resource, ResourceTemplate, Tool
from ._console import Console
from ._layout import (
    columns,
    first_sentence,
    json_text,
    parameters_of,
    resolved,
    shown_line,
    signature_of,
    type_name,
    wrapped,
)
from ._parser import KINDS, Exit, Failure, Options

Offer: TypeAlias = Tool | Resource | ResourceTemplate | Prompt


def _list_of(client: Client, kind: str) -> AsyncIterator[Offer]:
    match kind:
        case "tools":
            return client.list_tools()
        case "resources":
            return client.list_resources()
        case "templates":
            return client.list_resource_templates()
        case _:
            return client.list_prompts()


def _name_of(offer: Offer) -> str:
    match offer:
        case Tool(name=name, input_schema=schema):
            return signature_of(name, schema)
        case Resource(uri=uri):
            return uri
        case ResourceTemplate(uri_template=template):
            return template
        case Prompt(name=name, arguments=arguments):
            names = (f"{each.name}{'' if each.required else '?'}" for each in arguments or ())
            return f"{name}({', '.join(names)})"


async def list_offers(client: Client, options: Options, console: Console) -> int:
    """Print what the server offers, of one kind or of all that it has."""
    wanted = (options.kind,) if options.kind is not None else ()
    found: dict[str, list[Offer]] = {}
    for kind in wanted or KINDS:
        items = await _items(client, kind, is_wanted=bool(wanted))
        if items or wanted:
            found[kind] = items
    if options.json or options.raw:
        plain = {kind: [to_wire(item, client.revision) for item in items] for kind, items in found.items()}
        await console.say_json(plain[wanted[0]] if wanted else plain, is_raw=options.raw)
        return Exit.DONE
    if not any(found.values()):
        console.note(f"the server has no {wanted[0] if wanted else 'tools, resources, templates or prompts'}")
    for number, (kind, items) in enumerate(found.items()):
        if not wanted:
            await console.say(*([""] if number else []), kind)
        rows = ((_name_of(item), first_sentence(item.description or item.title or "")) for item in items)
        await console.say(*columns(rows, console.width, indent=0 if wanted else 2))
    return Exit.DONE


async def _items(client: Client, kind: str, *, is_wanted: bool) -> list[Offer]:
    """Return what the server has of a kind; nothing if it declares none and nobody has asked for it by name."""
    declared = client.server_capabilities
    noun = "resources" if kind == "templates" else kind
    if not is_wanted and declared is not None and getattr(declared, noun) is None:
        return []
    return [item async for item in _list_of(client, kind)]


async def find_tool(client: Client, name: str) -> Tool | None:
    """Return a tool as the server lists it, or `None` if it lists none of this name."""
    async for tool in client.list_tools():
        if tool.name == name:
            return tool
    return None


async def describe(client: Client, options: Options, console: Console) -> int:
    """Print what a tool does, takes and gives."""
    tool = await find_tool(client, options.name)
    if tool is None:
        raise Failure(Exit.USAGE, f"the server has no tool {options.name!r}; `trio-mcp list` says what it has")
    if options.json or options.raw:
        await console.say_json(to_wire(tool, client.revision), is_raw=options.raw)
    else:
        await console.say(*_described(tool, console.width))
    return Exit.DONE


def _described(tool: Tool, width: int) -> Iterator[str]:
    yield shown_line(signature_of(tool.name, tool.input_schema))
    if tool.title:
        yield shown_line(tool.title)
    if tool.description:
        yield ""
        yield from wrapped(tool.description.strip(), width)
    yield from _members("parameters", tool.input_schema, width)
    if tool.output_schema is not None:
        outputs = tool.output_schema
        if parameters_of(outputs):
            yield from _members("output", outputs, width)
        else:
            yield ""
            yield from columns([("output", type_name(outputs, outputs))], width, indent=0)
    hints = tool.annotations
    said = {
        "read only": hints and hints.read_only_hint,
        "destructive": hints and hints.destructive_hint,
        "idempotent": hints and hints.idempotent_hint,
        "open world": hints and hints.open_world_hint,
    }
    if any(hint is not None for hint in said.values()):
        yield ""
        words = ", ".join(name if hint else f"not {name}" for name, hint in said.items() if hint is not None)
        yield from columns([("hints", words)], width, indent=0)


def _members(headline: str, schema: Mapping[str, Any], width: int) -> Iterator[str]:
    parameters = parameters_of(schema)
    if not parameters:
        return
    required = schema["required"] if is_array(schema.get("required")) else ()
    rows: list[tuple[str, str]] = []
    for name, of_value in parameters.items():
        here = resolved(of_value, schema)
        words = type_name(of_value, schema)
        if "default" in here:
            words += f", default {json_text(here['default'], indent=None)}"
        elif name not in required and headline == "parameters":
            words += ", may be left out"
        description: object = here.get("description")
        rows.append((name, f"{words}\n{description}" if isinstance(description, str) else words))
    yield ""
    yield headline
    yield from columns(rows, width)


async def discover(client: Client, options: Options, console: Console) -> int:
    """Print what the server is, speaks and can do."""
    found = await client.discover()
    info = client.server_info
    revision = client.revision
    if options.json or options.raw:
        plain = {
            "revision": str(revision),
            "era": _era(revision),
            "serverInfo": None if info is None else to_wire(info, revision),
            "supportedVersions": list(found.supported_versions),
            "capabilities": to_wire(found.capabilities, revision),
            "instructions": found.instructions,
        }
        await console.say_json(plain, is_raw=options.raw)
        return Exit.DONE
    rows = [
        ("speaks", ", ".join(found.supported_versions)),
        ("agreed on", f"{revision}, the {_era(revision)} era"),
        ("can", ", ".join(_capabilities(to_wire(found.capabilities, revision))) or "nothing that it declares"),
    ]
    if info is not None:
        name = f"{info.name} {info.version}".strip()
        rows.insert(0, ("server", name if not info.title else f"{name}: {info.title}"))
        if info.description:
            rows.append(("about", info.description))
        if info.website_url:
            rows.append(("website", info.website_url))
    if found.instructions:
        rows.append(("instructions", found.instructions))
    await console.say(*columns(rows, console.width, indent=0))
    return Exit.DONE


def _era(revision: Revision) -> str:
    return "modern" if revision.is_modern else "legacy"


def _capabilities(declared: Mapping[str, Any]) -> Iterator[str]:
    for name, detail in declared.items():
        is_all = name == "extensions"  # one without settings is declared, too
        flags = ", ".join(key for key, value in detail.items() if value or is_all) if is_object(detail) else ""
        yield f"{name} ({flags})" if flags else name
