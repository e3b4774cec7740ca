"""The clients of other implementations and our server: real processes over stdio, on the real clock.

Each client runs once and reports what it found; each test is about one finding, or about what was on the wire.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
import trio
from environments import (
    PYTHON_1_0,
    PYTHON_1_30,
    PYTHON_2_3,
    TYPESCRIPT_1_4,
    TYPESCRIPT_1_32,
    TYPESCRIPT_2_4,
)
from their_clients import Session, TheirClient, every_way, run

from trio_mcp import Revision

SERVER: Final = Path(__file__).with_name("fixture_server.py")
EXITING: Final = 1.5
"""Seconds our server may take to exit once its input has ended, on such a machine: less than clients wait."""

TOOLS: Final = [
    "add",
    "sync_add",
    "echo",
    "divide",
    "fail",
    "slow",
    "proceed",
    "block",
    "noisy",
    "structured",
    "log",
]


LEGACY: Final = Revision.V2025_11_25
MODERN: Final = Revision.V2026_07_28
CLIENTS: Final = (
    TheirClient(
        environment=PYTHON_1_0,
        program="python_1_0.py",
        agreed=Revision.V2024_11_05,
        shows_progress=False,
        has_structured=False,
    ),
    TheirClient(environment=PYTHON_1_30, program="python_1_30.py", agreed=LEGACY),
    TheirClient(environment=PYTHON_2_3, program="python_2_3.py", agreed=MODERN, mode="auto"),
    TheirClient(environment=PYTHON_2_3, program="python_2_3.py", agreed=LEGACY, mode="legacy"),
    TheirClient(environment=PYTHON_2_3, program="python_2_3.py", agreed=MODERN, mode=MODERN),
    TheirClient(environment=PYTHON_2_3, program="fastmcp_4.py", agreed=MODERN, mode="auto"),
    TheirClient(environment=PYTHON_2_3, program="fastmcp_4.py", agreed=LEGACY, mode="legacy"),
    TheirClient(
        environment=TYPESCRIPT_1_4,
        program="typescript_1.mjs",
        agreed=Revision.V2024_11_05,
        has_structured=False,
        asks_politely=False,
    ),
    TheirClient(environment=TYPESCRIPT_1_32, program="typescript_1.mjs", agreed=LEGACY),
    TheirClient(environment=TYPESCRIPT_2_4, program="typescript_2.mjs", agreed=MODERN, mode="auto"),
    TheirClient(environment=TYPESCRIPT_2_4, program="typescript_2.mjs", agreed=LEGACY, mode="legacy"),
    TheirClient(environment=TYPESCRIPT_2_4, program="typescript_2.mjs", agreed=MODERN, mode=MODERN),
)


EVERY_WAY: Final = every_way(CLIENTS)
LEAVING: Final = [
    client
    for client in every_way(
        [
            TheirClient(environment=PYTHON_2_3, program="leaving_python_2.py", agreed=MODERN),
            TheirClient(environment=TYPESCRIPT_1_32, program="leaving_typescript_1.mjs", agreed=LEGACY),
        ]
    )
    if client.transport != "sse"
]


@pytest.fixture(scope="module", params=EVERY_WAY, ids=[client.id for client in EVERY_WAY])
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One run of each client, for all tests."""
    return trio.run(run, request.param, SERVER, tmp_path_factory.mktemp("block") / "ended")


def test_the_newest_revision_the_client_speaks_is_agreed_on(session: Session) -> None:
    """2026-07-28, basic/versioning; 2025-11-25, basic/lifecycle, "Version Negotiation"."""
    assert session.findings["agreed"]["revision"] == session.client.agreed
    if session.client.mode != MODERN:  # who speaks that without asking may not have heard the name yet
        assert session.findings["agreed"]["server"] == "fixture"
    assert session.recordings[-1].check("server").revision == session.client.agreed


def test_tools_are_listed_in_order_and_calls_are_answered(subtests: pytest.Subtests, session: Session) -> None:
    """2026-07-28, server/tools, "Listing Tools" and "Calling Tools": coroutines, threads, and any text there is."""
    with subtests.test("tools"):
        assert session.findings["tools"] == TOOLS
    for name, said in (("add", "3"), ("sync_add", "3"), ("echo", "Grüße, 世界 🌍 \u2028 \n")):
        with subtests.test(name):
            assert (session.findings[name]["error"], session.findings[name]["text"]) == (False, said)


def test_many_calls_at_once_and_large_ones_are_answered(session: Session) -> None:
    """Each answer goes to its question, and neither side waits for the other to read."""
    assert session.findings["big"]
    if "too_big" in session.findings:  # SDK 2.3 lets go of an HTTP+SSE stream with an event of more than 1 MiB
        assert session.client.transport == "sse"
        assert session.client.environment is PYTHON_2_3
        assert "1048576 byte limit" in session.findings["too_big"]
    assert session.findings["crowd"] == [str(2 * number) for number in range(50)]


def test_structured_output_is_shown_where_there_is_such_a_thing(session: Session) -> None:
    """2025-06-18, server/tools, "Structured Content": older clients get the same as text."""
    measured = session.findings["structured"]
    assert json.loads(measured["text"]) == {"celsius": 21.5, "place": "Berlin"}
    if session.client.has_structured:
        assert measured["structured"] == {"celsius": 21.5, "place": "Berlin"}


def test_what_goes_wrong_reaches_the_model_and_a_bug_only_the_log(
    subtests: pytest.Subtests, session: Session
) -> None:
    """2025-11-25, server/tools, "Error Handling": `ToolError` was written to be read, and input validation is an error
    of the tool's execution; any other exception is not to be read. An unknown tool is refused.
    """
    with subtests.test("an error of the tool"):
        divided = session.findings["divide"]
        assert (divided["error"], divided["text"]) == (True, "b must not be 0")
    with subtests.test("a bug"):
        failed = session.findings["fail"]
        assert failed["error"]
        assert "secret" not in failed["text"]
        assert all(b"secret" not in line for recording in session.recordings for _, line in recording.lines)
    with subtests.test("arguments that do not fit"):
        assert session.findings["wrong"]["error"]
        assert "a: expected an integer" in session.findings["wrong"]["text"]
    with subtests.test("an unknown tool"):
        if "unknown" in session.findings:
            assert session.findings["unknown"] == -32602
        else:
            assert session.client.environment is PYTHON_1_0  # its errors do not say their codes


def test_what_a_tool_prints_does_not_reach_the_wire(session: Session) -> None:
    """2026-07-28, basic/transports/stdio: nothing on stdout but messages. All of it was read as such."""
    assert session.findings["noisy"]["text"] == "quiet on the wire"
    for recording in session.recordings:
        assert recording.messages("server")


def test_progress_and_log_messages_are_shown_in_order(subtests: pytest.Subtests, session: Session) -> None:
    """2026-07-28, basic/patterns/progress; 2025-11-25 and 2026-07-28, server/utilities/logging."""
    if session.client.shows_progress:
        with subtests.test("progress"):
            has_messages = session.client.agreed >= Revision.V2025_03_26  # the revision before has none
            expected = [[step, 3, f"step {step}" if has_messages else None] for step in (1, 2, 3)]
            assert session.findings["progress"] == expected
    with subtests.test("log messages"):
        assert session.findings["logged"] == ["one", "two"]


def test_a_call_that_is_given_up_ends_its_handler_and_nothing_else(session: Session) -> None:
    """Promise 4: the handler is cancelled before a later message is looked at, and gets no answer."""
    if session.client.shows_progress:
        assert session.findings["cancelled"]
        assert session.findings["after"]["text"] == "42"
        recording = session.recordings[-1]
        answered = {message["id"] for message in recording.messages("server") if "method" not in message}
        goodbyes = recording.messages("client", "notifications/cancelled")
        if session.client.transport == "streamable-http" and session.client.agreed.is_modern:
            assert goodbyes == []
            (given_up,) = [
                carrier
                for carrier in recording.exchanges
                if '"name": "block"' in json.dumps(carrier.messages) and not carrier.is_complete
            ]
            assert given_up.messages[0]["id"] not in answered
        else:
            (goodbye,) = goodbyes
            assert goodbye["params"]["requestId"] not in answered


def test_the_server_exits_by_itself_when_the_client_goes(session: Session) -> None:
    """2026-07-28, basic/transports/stdio, "Shutdown": no client has to resort to more than it always does."""
    assert session.findings["closed"]
    *probes, last = session.recordings
    assert all(probe.ended_as_a_probe for probe in probes)
    assert last.exit_status == 0
    if session.client.transport != "stdio":
        assert last.signals == ["SIGTERM"]
    elif session.client.asks_politely:
        assert last.signals == []
        assert last.input_ended_at is not None
        assert last.exited_at is not None
        assert last.exited_at - last.input_ended_at < EXITING
    else:
        assert last.signals == ["SIGTERM"]


def test_http_is_spoken_as_the_transport_has_it(session: Session) -> None:
    """2026-07-28, basic/transports/streamable-http; 2025-11-25, basic/transports; 2024-11-05, basic/transports."""
    exchanges = session.recordings[-1].exchanges
    served = [exchange for exchange in exchanges if exchange.status in {200, 202}]
    methods = {exchange.method for exchange in served}
    if session.client.transport == "stdio":
        assert not exchanges
    elif session.client.transport == "sse":
        assert methods == {"GET", "POST"}
        assert {exchange.path.partition("?")[0] for exchange in served} == {"/sse", "/messages"}
    elif session.client.agreed.is_modern:
        assert methods == {"POST"}
        # Only the call of an unknown tool is refused; one that is given up may not have been answered yet.
        refused = [exchange for exchange in exchanges if exchange.status not in {200, 202, None}]
        assert [(exchange.status, exchange.asked["mcp-name"]) for exchange in refused] == [(400, "nonsense")]
        assert {exchange.asked["mcp-protocol-version"] for exchange in served} == {MODERN}
        assert not any("mcp-session-id" in exchange.answered for exchange in served)
    else:
        assert {"GET", "POST"} <= methods <= {"GET", "POST", "DELETE"}
        handshake, *later = served
        given = handshake.answered["mcp-session-id"]
        assert {exchange.asked["mcp-session-id"] for exchange in later} == {given}


def test_all_the_server_writes_is_what_the_official_schema_says(session: Session) -> None:
    """Each message by the revision it belongs to; nothing else was on standard output."""
    for recording in session.recordings:
        assert recording.check("server").checked_messages > 0


@pytest.mark.parametrize(
    "client",
    LEAVING,
    ids=[client.id for client in LEAVING],
)
async def test_a_client_that_goes_in_the_middle_of_a_call_finds_a_server_that_can_end(
    client: TheirClient, tmp_path: Path
) -> None:
    """`Server.run`: handlers may finish after the input has ended; a signal says that nobody waits for that."""
    marker = tmp_path / "ended"
    recording = (await run(client, SERVER, marker)).recordings[-1]
    assert recording.signals == ["SIGTERM"]
    assert recording.exit_status == 0
    assert marker.exists()
