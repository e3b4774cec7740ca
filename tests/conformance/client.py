"""The client that the official conformance suite runs: ``python client.py URL``.

The suite says in the environment which scenario it plays, in which revision, and what the scenario needs to know.
What the client does in each is the suite's to say; it is written as any user of the library would write it.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, final
from urllib.parse import urlsplit

import attrs
import trio

from trio_mcp import (
    Auth,
    Client,
    ClientCredentials,
    ClientOptions,
    EnterpriseManaged,
    OAuth,
    PrivateKeyJwt,
    Revision,
    SkillApproval,
    SkillChanged,
    WorkloadIdentity,
    open_client,
)

Context: TypeAlias = Mapping[str, Any]
"""What the suite tells beside the URL."""

Play: TypeAlias = Callable[[Client, Context], Awaitable[None]]


@final
@attrs.frozen
class Scenario:
    """What a client does, and what it is told before.

    Attributes:
        play: What it does once it is connected.
        options: What it is told.
        pins_revision: Whether it speaks only the revision of the run, or any of its era.
        auth: Who it is, of what the suite tells it.
    """

    play: Play
    options: ClientOptions = attrs.field(factory=ClientOptions)
    pins_revision: bool = True
    auth: Callable[[Context], Auth] | None = None


async def list_tools(client: Client, _context: Context) -> None:
    """Only list the tools."""
    await client.list_tools()


async def add_numbers(client: Client, _context: Context) -> None:
    """Call a tool with numbers."""
    await client.list_tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def be_asked_for_defaults(client: Client, _context: Context) -> None:
    """Call a tool whose server asks the user."""
    await client.list_tools()
    await client.call_tool("test_client_elicitation_defaults", {})


async def call_and_reconnect(client: Client, _context: Context) -> None:
    """Call a tool whose server lets the connection go before it answers."""
    await client.list_tools()
    await client.call_tool("test_reconnection", {})


async def send_requests(client: Client, _context: Context) -> None:
    """Send requests of several kinds."""
    await client.discover(fresh=True)
    await client.list_tools()
    await client.call_tool("any", {})


async def send_every_header(client: Client, _context: Context) -> None:
    """Send every request that a header field names something of."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name, {})
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def call_what_is_told(client: Client, context: Context) -> None:
    """Call the tools that the suite names, with its arguments, which header fields mirror."""
    await client.list_tools()
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def call_what_is_offered(client: Client, _context: Context) -> None:
    """Call every tool that is left of those the server lists."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name, {"region": "us-west1"})


async def be_asked_in_results(client: Client, _context: Context) -> None:
    """Call tools whose server must know more before it answers."""
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        await client.call_tool(f"test_mrtr_{name}", {})


async def give_a_schema_back(client: Client, _context: Context) -> None:
    """Hand the server the schema of one of its tools, as it was received."""
    schemas = {tool.name: tool.input_schema async for tool in client.list_tools()}
    await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def use_a_protected_server(client: Client, _context: Context) -> None:
    """List the tools, and call the one there is, which may need a greater authorization."""
    await client.list_tools()
    await client.call_tool("test-tool", {})


async def list_skills(client: Client, _context: Context) -> None:
    """Only list the skills, and approve them: nothing of them is read."""
    for skill in await client.list_skills():
        SkillApproval.of("the suite", skill)


async def load_a_skill(client: Client, _context: Context) -> None:
    """Load a skill, and read what it refers to. That must not come to pass: SKILL.md is not what was listed."""
    (skill,) = await client.list_skills()
    try:
        loaded = await client.load_skill(skill)
    except SkillChanged:
        return
    await client.read_skill_file(loaded.skill, "references/FORMS.md")


def _visit(url: str) -> str | None:
    """Open a page as a browser would, and return where it sends the browser."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().getheader("Location")
    finally:
        connection.close()


async def log_in(url: str) -> str | None:
    """Stand in for a person who logs in at once."""
    return await trio.to_thread.run_sync(_visit, url)


def a_person(context: Context) -> Auth:
    """Return the authorization of a person, by a client that may be registered."""
    return OAuth(
        open_page=log_in,
        redirect_uri="http://localhost:3000/callback",
        listen=False,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        issuer=context.get("issuer"),
    )


def a_program_with_a_key(context: Context) -> Auth:
    """Return the authorization of a program that signs."""
    key = PrivateKeyJwt(key=context["private_key_pem"], algorithm=context["signing_algorithm"])
    return ClientCredentials(client_id=context["client_id"], key=key)


def a_program_with_a_secret(context: Context) -> Auth:
    """Return the authorization of a program that has a secret."""
    return ClientCredentials(client_id=context["client_id"], client_secret=context["client_secret"])


def an_employee(context: Context) -> Auth:
    """Return the authorization of a person by their organisation."""
    return EnterpriseManaged(
        id_token=lambda: context["idp_id_token"],
        idp_client_id=context["idp_client_id"],
        idp_issuer=context["idp_issuer"],
        idp_token_endpoint=context["idp_token_endpoint"],
        client_id=context["client_id"],
        client_secret=context["client_secret"],
    )


def a_workload(context: Context) -> Auth:
    """Return the authorization of a program by its platform."""
    return WorkloadIdentity(token=lambda: context["valid_jwt"])


PROTECTED: Final = Scenario(use_a_protected_server, auth=a_person)

DECLARES_EVERYTHING: Final = ClientOptions(
    on_sample=lambda _: "Paris", on_elicit=lambda _: "decline", roots=("file:///work",)
)

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "initialize": Scenario(list_tools),
    "tools_call": Scenario(add_numbers),
    # An empty form that is accepted: what is left empty gets its default.
    "elicitation-sep1034-client-defaults": Scenario(
        be_asked_for_defaults, ClientOptions(on_elicit=lambda _: "accept")
    ),
    # Its server speaks 2025-03-26, in the runs of other revisions too.
    "sse-retry": Scenario(call_and_reconnect, pins_revision=False),
    "request-metadata": Scenario(send_requests, DECLARES_EVERYTHING),
    "http-standard-headers": Scenario(send_every_header),
    "http-custom-headers": Scenario(call_what_is_told),
    "http-invalid-tool-headers": Scenario(call_what_is_offered),
    "sep-2322-client-request-state": Scenario(
        be_asked_in_results, ClientOptions(on_elicit=lambda _: {"confirmed": True})
    ),
    "json-schema-ref-no-deref": Scenario(list_tools),
    "json-schema-2020-12-preservation": Scenario(give_a_schema_back),
    "sep-2640-client-no-prefetch": Scenario(list_skills),
    "sep-2640-client-verify-digest": Scenario(load_a_skill),
    "sep-2640-client-verify-size": Scenario(load_a_skill),
    "sep-2640-client-verify-frontmatter": Scenario(load_a_skill),
    "auth/client-credentials-jwt": Scenario(use_a_protected_server, auth=a_program_with_a_key),
    "auth/client-credentials-basic": Scenario(use_a_protected_server, auth=a_program_with_a_secret),
    "auth/enterprise-managed-authorization": Scenario(use_a_protected_server, auth=an_employee),
    "auth/wif-jwt-bearer": Scenario(use_a_protected_server, auth=a_workload),
}
"""What a client does in each scenario; in those of ``auth/`` that are not here, it lets a person log in."""


async def main(url: str) -> None:
    """Play the scenario that the environment names.

    Raises:
        SystemExit: There is none of this name.
    """
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    scenario = SCENARIOS.get(name, PROTECTED if name.startswith("auth/") else None)
    if scenario is None:
        raise SystemExit(f"there is no scenario {name!r} here")
    context: Context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    revision = Revision(os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"])
    options = scenario.options.copy()
    options["era"] = "modern" if revision.is_modern else "legacy"
    if scenario.pins_revision:
        options["revision"] = revision
    if scenario.auth is not None:
        options["auth"] = scenario.auth(context)
    async with open_client(url, **options) as client:
        await scenario.play(client, context)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
