"""The MCP Inspector's command line and our server: stdio, Streamable HTTP in both eras, and HTTP+SSE.

Each run is one question. What it prints is held against the same features as what other clients find.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from environments import INSPECTOR, node
from features import FEATURE, LEGACY, MODERN, TOOLS, Feature, Refused, essence
from http_recorder import open_http_recorder
from inside_wire import is_array
from listening import Listener, Transport, open_listener
from recordings import Recording, open_recorder

from trio_mcp import Revision

SERVER: Final = Path(__file__).with_name("full_server.py")
NULLABLE: Final = Path(__file__).with_name("nullable_server.py")
LAUNCHER: Final = (
    INSPECTOR.package("@modelcontextprotocol/inspector") / "clients" / "launcher" / "build" / "index.js"
)
HANGS: Final = 60
"""Seconds after which a run hangs, on a machine that is busy with other things."""

QUESTIONS: Final[Mapping[str, str]] = {
    "weather": "tools/call --tool-name weather --tool-arg city=Kyiv country=UA",
    "broken": "tools/call --tool-name broken",
    "resources": "resources/list",
    "read_binary": "resources/read --uri notes://picture.png",
    "read_missing": "resources/read --uri notes://lem/nothing",
    "review": "prompts/get --prompt-name review --prompt-args title=Solaris tone=honest",
    "prompt_wrong": "prompts/get --prompt-name review --prompt-args title=Solaris tone=loud",
}
"""Each feature it can ask for, and how."""

WAYS: Final[Sequence[tuple[Transport, Revision]]] = [
    ("stdio", LEGACY),
    ("stdio", MODERN),
    ("streamable-http", LEGACY),
    ("streamable-http", MODERN),
    ("sse", LEGACY),
]


async def ask(
    transport: Transport, revision: Revision, question: str, listener: Listener | None = None
) -> tuple[dict[str, Any], Recording]:
    """Ask one question, and return what was printed and what was said."""
    INSPECTOR.require()
    method, *more = question.split()
    era = "modern" if revision.is_modern else "legacy"
    told = ["--cli", "--format", "json", "--quiet", "--protocol-era", era, "--method", method, *more]
    with trio.fail_after(HANGS):
        if listener is None:
            async with open_recorder() as recorder:
                done = await _run(*told, "--", *map(str, recorder.command(sys.executable, SERVER)))
            return done, recorder.only
        async with open_http_recorder(listener.url(transport)) as http_recorder:
            done = await _run(
                *told, "--transport", transport.removeprefix("streamable-"), "--server-url", http_recorder.url
            )
        return done, http_recorder.recording


async def _run(*arguments: str) -> dict[str, Any]:
    done = await trio.run_process(
        [node(), LAUNCHER, *arguments],
        cwd=INSPECTOR.directory,
        capture_stdout=True,
        capture_stderr=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    said = done.stdout or done.stderr  # results here, what went wrong there
    printed: dict[str, Any] = json.loads(said.splitlines()[0])
    return printed


@pytest.fixture(scope="module")
def listener() -> Generator[Listener]:
    """Our server, for all runs over HTTP."""
    with open_listener((sys.executable, SERVER, "sse")) as listener:
        yield listener


def expected_of(feature: Feature, revision: Revision) -> Any:
    """Return what it prints, which for a list is a whole page."""
    expected = feature.for_revision(revision)
    return {feature.name: expected} if is_array(expected) else expected


def check(printed: Mapping[str, Any], recording: Recording, revision: Revision, name: str) -> None:
    """Check what was found, and that all that our server wrote is what the official schema says."""
    expected = expected_of(FEATURE[name], revision)
    if isinstance(expected, Refused):
        assert expected.words in printed["error"]["message"]  # it does not print codes
        codes = [message["error"]["code"] for message in recording.messages("server") if "error" in message]
        assert codes[-1] == expected.code
    else:
        assert essence(printed["result"]) == expected
    wire = recording.check("server")
    assert wire.revision == revision
    assert wire.checked_messages > 0


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_what_it_asks_over_streamable_http_is_answered(
    listener: Listener, revision: Revision, name: str
) -> None:
    """The section is told with each feature."""
    printed, recording = await ask("streamable-http", revision, QUESTIONS[name], listener)
    check(printed, recording, revision, name)


@pytest.mark.parametrize(("transport", "revision"), WAYS)
async def test_all_pages_of_the_tools_are_listed_over_each_transport(
    request: pytest.FixtureRequest, transport: Transport, revision: Revision
) -> None:
    """2026-07-28, server/utilities/pagination; basic/transports: the same server by all ways there are."""
    listener = None if transport == "stdio" else request.getfixturevalue("listener")
    printed, recording = await ask(transport, revision, "tools/list", listener)
    assert [tool["name"] for tool in printed["result"]["tools"]] == TOOLS
    assert recording.check("server").revision == revision


async def test_what_it_cannot_be_asked_is_refused(listener: Listener) -> None:
    """2025-11-25, client/elicitation, "Capabilities": it declares none."""
    for revision in (LEGACY, MODERN):
        printed, _ = await ask("streamable-http", revision, "tools/call --tool-name book", listener)
        assert printed["error"]["message"] == "the client has not declared elicitation"


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_it_finds_nothing_strange_about_parameters_that_may_be_null(revision: Revision) -> None:
    """Clients that know one type at a time drop a list of types, which is what it warns of where that is written."""
    INSPECTOR.require()
    era = "modern" if revision.is_modern else "legacy"
    told = ("--cli", "--strict", "--format", "json", "--protocol-era", era, "--method", "tools/list")
    with trio.fail_after(HANGS):
        printed = await _run(*told, "--", sys.executable, str(NULLABLE))
    assert [tool["name"] for tool in printed["result"]["tools"]] == ["look", "by_hand"]
    found = {tool["toolName"]: tool["findings"] for tool in printed["schemaFindings"]}
    assert [finding["rule"] for finding in found.pop("by_hand")] == ["type-union"]
    assert found == {}
