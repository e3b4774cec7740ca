"""Our client and servers that misbehave: what is theirs to break costs them, and never more than promised."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from children import has_children
from recordings import Recording, open_recorder
from typing_extensions import Unpack

import trio_mcp
from trio_mcp import (
    Client,
    ClientOptions,
    ConnectionLost,
    Limits,
    RemoteProtocolError,
    RequestError,
    Revision,
    StdioServerParameters,
)
from trio_mcp.types import TextContent

PROGRAM: Final = Path(__file__).parent / "servers" / "rude.py"
HANGS: Final = 30
"""Seconds after which something hangs, on a machine that is busy with other things."""

LIMITS: Final = Limits(discover_timeout=0.5, terminate_timeout=0.5, goodbye_timeout=0.5, connect_timeout=20)
LEAVING: Final = LIMITS.goodbye_timeout + 2 * LIMITS.terminate_timeout + 2
PATIENT: Final = Limits(discover_timeout=20, terminate_timeout=0.5, goodbye_timeout=0.5)
"""For servers whose answer to the probe, or whose death over it, is what matters."""


@asynccontextmanager
async def connected(
    misbehaviour: str, **options: Unpack[ClientOptions]
) -> AsyncGenerator[tuple[Client, list[Recording]]]:
    """Connect to a server that misbehaves; on leaving, check that it is gone, in time."""
    options.setdefault("limits", PATIENT)
    with trio.fail_after(HANGS):
        async with open_recorder() as recorder:
            command, *args = recorder.command(sys.executable, PROGRAM, misbehaviour)
            target = StdioServerParameters(command, args, stderr=lambda _: None)
            async with trio_mcp.open_client(target, **options) as client:
                yield client, recorder.recordings
                leaving = trio.current_time()
            assert trio.current_time() - leaving < LEAVING
            assert not has_children()


def direct(misbehaviour: str) -> StdioServerParameters:
    """Return what starts such a server, with nobody in between who might hide how it ends."""
    return StdioServerParameters(sys.executable, [str(PROGRAM), misbehaviour], stderr=lambda _: None)


async def echo(client: Client, text: str) -> str:
    result = await client.call_tool("echo", {"text": text})
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


# The beginning.


async def test_a_server_that_the_probe_kills_is_started_again_without_it() -> None:
    """2026-07-28, basic/transports/stdio, "Backward Compatibility": some exit unless asked to initialize first."""
    async with connected("exits_unless_initialized") as (client, recordings):
        assert client.revision == Revision.V2025_11_25
        assert await echo(client, "hello") == "hello"
    assert [recording.exit_status for recording in recordings] == [3, 0]
    assert [recording.messages("client")[0]["method"] for recording in recordings] == [
        "server/discover",
        "initialize",
    ]


async def test_silence_about_the_probe_means_a_server_of_the_legacy_era() -> None:
    """`Limits.discover_timeout`: the handshake comes next, on the same connection; the question stays open."""
    async with connected("ignores_discovery", limits=LIMITS) as (client, recordings):
        assert client.revision == Revision.V2025_11_25
        assert await echo(client, "hello") == "hello"
    methods = [message["method"] for message in recordings[-1].messages("client")]
    assert methods.count("notifications/cancelled") <= methods.count("server/discover")
    assert [method for method in methods if method not in {"notifications/cancelled", "server/discover"}] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert methods[:2] == ["server/discover", "initialize"]


@pytest.mark.parametrize(
    ("misbehaviour", "revision"),
    [("discovers_late", Revision.V2026_07_28), ("refuses_discovery_late", Revision.V2025_11_25)],
)
async def test_an_answer_to_the_probe_that_comes_late_counts_all_the_same(
    misbehaviour: str, revision: Revision
) -> None:
    """Only an answer decides the era; and it must not be taken for that of `initialize`."""
    async with connected(misbehaviour, limits=LIMITS) as (client, _):
        assert client.revision == revision
        assert await echo(client, "hello") == "hello"


async def test_a_probe_that_is_answered_with_something_else_proves_nothing() -> None:
    """2026-07-28, basic/versioning: only the answer of a modern server settles the era."""
    async with connected("answers_discovery_with_nonsense") as (client, _):
        assert client.revision == Revision.V2025_11_25
        assert await echo(client, "hello") == "hello"


@pytest.mark.parametrize(
    ("misbehaviour", "named"),
    [
        ("knows_only_the_future", "2031-01-01"),
        ("wants_another_revision", "1999-12-31"),
        ("shakes_half_a_hand", "initialize"),
    ],
)
async def test_a_server_without_common_ground_is_refused_by_name(misbehaviour: str, named: str) -> None:
    """2025-11-25, basic/lifecycle, "Version Negotiation": the client should disconnect."""
    with trio.fail_after(HANGS), pytest.raises(RemoteProtocolError, match=named):
        async with trio_mcp.open_client(direct(misbehaviour), limits=PATIENT):
            pytest.fail("there is nothing to agree on")
    assert not has_children()


async def test_a_server_that_says_nothing_costs_the_connect_timeout() -> None:
    """Promise 7: connecting to a silent peer fails by itself."""
    limits = Limits(discover_timeout=0.2, connect_timeout=0.7, terminate_timeout=0.5)
    began = trio.current_time()
    with trio.fail_after(HANGS), pytest.raises(ConnectionLost, match="connect_timeout"):
        async with trio_mcp.open_client(direct("says_nothing"), limits=limits):
            pytest.fail("nobody has said anything")
    assert 0.7 <= trio.current_time() - began < 0.7 + LEAVING
    assert not has_children()


# Later.


@pytest.mark.parametrize("misbehaviour", ["talks_rubbish", "talks_rubbish_in_a_batch"])
async def test_rubbish_on_standard_output_costs_nothing_but_itself(misbehaviour: str) -> None:
    """A stray print or a bad byte must not end a session; and a client answers nothing of the kind."""
    async with connected(misbehaviour) as (client, recordings):
        assert [await echo(client, str(turn)) for turn in range(3)] == ["0", "1", "2"]
    methods = [message["method"] for message in recordings[-1].messages("client")]
    assert methods == ["server/discover", "initialize", "notifications/initialized", *["tools/call"] * 3]


async def test_late_and_repeated_answers_reach_nobody_else() -> None:
    """2025-11-25, basic/utilities/cancellation: a late answer is ignored; answers go by their ids."""
    async with connected("answers_late") as (client, recordings):
        with trio.move_on_after(0.3) as scope:
            await echo(client, "given up")
        assert scope.cancelled_caught
        assert await echo(client, "waited for") == "waited for"
    assert len(recordings[-1].messages("client", "notifications/cancelled")) == 1


async def test_what_cannot_be_answered_is_refused() -> None:
    """JSON-RPC 2.0, section 5: also under an id that one of our own requests has."""
    async with connected("asks_impossible_things") as (client, recordings):
        assert await echo(client, "hello") == "hello"
    answers = {m["id"]: m for m in recordings[-1].messages("client") if "method" not in m}
    assert answers["a"]["result"] == {}
    assert {id: m["error"]["code"] for id, m in answers.items() if id != "a"} == dict.fromkeys(
        answers.keys() - {"a"}, -32601
    )
    assert len(answers) == 3


# The end.


async def test_a_server_that_dies_says_how() -> None:
    """Promise 7: every call fails with the exit status and the last lines of standard error."""
    with trio.fail_after(HANGS):
        async with trio_mcp.open_client(direct("dies"), limits=PATIENT) as client:
            with pytest.raises(ConnectionLost) as caught:
                await echo(client, "hello")
            with pytest.raises(ConnectionLost) as caught_again:
                await echo(client, "hello")
    assert caught.value.exit_status == caught_again.value.exit_status == 7
    assert caught.value.stderr == tuple(f"last words {line}" for line in range(30, 50))
    assert "status 7" in str(caught.value)
    assert not has_children()


async def test_a_server_that_is_killed_says_by_which_signal() -> None:
    """`ConnectionLost.exit_status` is negative for a signal."""
    with trio.fail_after(HANGS):
        async with trio_mcp.open_client(direct("is_killed"), limits=PATIENT) as client:
            with pytest.raises(ConnectionLost, match="SIGKILL") as caught:
                await echo(client, "hello")
    assert caught.value.exit_status == -9
    assert not has_children()


async def test_half_an_answer_is_none() -> None:
    """Promise 7: what the server did not finish saying is lost, and the call says so."""
    with trio.fail_after(HANGS):
        async with trio_mcp.open_client(direct("dies_in_the_middle_of_an_answer"), limits=PATIENT) as client:
            with pytest.raises(ConnectionLost) as caught:
                await echo(client, "hello")
    assert caught.value.exit_status == 0
    assert not has_children()


async def test_a_server_that_closes_its_output_is_lost_although_it_lives() -> None:
    """Promises 7 and 8: the call fails, and leaving ends the process."""
    with trio.fail_after(HANGS):
        async with trio_mcp.open_client(direct("closes_its_output"), limits=PATIENT) as client:
            with pytest.raises(ConnectionLost, match="has not exited") as caught:
                await echo(client, "hello")
            leaving = trio.current_time()
    assert caught.value.exit_status is None
    assert trio.current_time() - leaving < LEAVING
    assert not has_children()


async def test_a_deadline_covers_a_write_that_the_server_does_not_take() -> None:
    """Promise 3: nobody waits for a stuck peer longer than they said, nor does leaving."""
    with trio.fail_after(HANGS):
        async with trio_mcp.open_client(direct("stops_reading"), limits=PATIENT) as client:
            assert await echo(client, "the last thing it reads") == "the last thing it reads"
            with trio.move_on_after(0.3) as scope:
                await echo(client, "x" * 8_000_000)
            assert scope.cancelled_caught
            assert trio.current_time() - scope.deadline < 1
            leaving = trio.current_time()
    assert trio.current_time() - leaving < LEAVING
    assert not has_children()


async def test_a_call_without_answer_ends_with_its_deadline() -> None:
    """Promise 3, with a server that answers nobody."""
    async with connected("answers_late") as (client, _):
        with pytest.raises(trio.TooSlowError), trio.fail_after(0.2):
            await echo(client, "hello")
        with pytest.raises(RequestError):
            await client.request("tools/list")
