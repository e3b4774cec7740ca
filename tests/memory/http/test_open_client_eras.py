"""A client opened on a URL: which era it finds, which transport, and what it is told beforehand."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from http_mcp import HttpCall, McpScript, error, result
from http_sessions import KINDS, LEGACY, SSE, URL, HttpServer

from trio_mcp import (
    ConnectionLost,
    HttpServerParameters,
    HttpStatusError,
    Limits,
    McpError,
    RemoteProtocolError,
    RequestError,
    Server,
    open_asgi_client,
    open_client,
    types,
)

ALL = pytest.mark.parametrize("speaks", KINDS)


@pytest.mark.spec("basic/transports/streamable-http", "Backward Compatibility", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "Earlier Streamable HTTP Revisions", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "HTTP+SSE Transport (2024-11-05)", revisions="2026-07-28")
@pytest.mark.spec(
    "basic/transports", "Backwards Compatibility", revisions=("2025-03-26", "2025-06-18", "2025-11-25")
)
@ALL
async def test_any_server_is_found_out_about(speaks: str, autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, basic/transports/streamable-http, "Backward Compatibility", down to HTTP+SSE."""
    server = HttpServer(speaks, capabilities={"tools": {}})
    async with open_client(server.parameters()) as client:
        assert client.revision == server.revision
        assert client.server_capabilities == types.ServerCapabilities(tools=types.ToolsCapability())
        answer = await client.request("x/echo", {"n": 1})
        assert answer["echo"] == {"n": 1}
    before = [said for said in server.script.said if said != "POST notifications/initialized"]
    expected = {
        "2026-07-28": ["POST server/discover", "POST x/echo"],
        SSE: ["POST server/discover", "POST initialize", "GET", "POST initialize", "POST x/echo"],
    }
    assert before == expected.get(
        speaks, ["POST server/discover", "POST initialize", "GET", "POST x/echo", "DELETE"]
    )
    assert trio.current_time() == 0, "nothing was waited for"


@ALL
async def test_what_is_known_spares_the_questions(
    speaks: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """And what is wrong is not made right behind the user's back."""
    for era in ("modern", "legacy", "sse"):
        with subtests.test(era=era):
            await insist_on_an_era(speaks, era)


async def insist_on_an_era(speaks: str, era: Any) -> None:
    """Say which era the server is of."""
    server = HttpServer(speaks)
    right = era == {"2026-07-28": "modern", SSE: "sse"}.get(speaks, "legacy") or (speaks, era) == (SSE, "legacy")
    outcome: McpError | None = None
    try:
        async with open_client(server.parameters(), era=era) as client:
            await client.request("x/echo")
    except McpError as error:
        outcome = error
    assert (outcome is None) is right
    assert ("POST server/discover" in server.script.said) is (era == "modern")
    if era == "sse":
        assert server.script.said[0] == "GET"
    if era == "modern":
        assert "POST initialize" not in server.script.said


@ALL
async def test_a_discovery_is_kept_and_handed_in(speaks: str, autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, basic/versioning: the verdict should be cached, and may be persisted."""
    server = HttpServer(speaks, capabilities={"prompts": {}})
    async with open_client(server.parameters()) as client:
        known = await client.discover()
    server.script.calls.clear()
    async with open_client(server.parameters(), era=known) as client:
        assert client.revision == server.revision
        assert client.server_capabilities == types.ServerCapabilities(prompts=types.PromptsCapability())
        await client.request("x/echo")
    assert "POST server/discover" not in server.script.said
    if server.is_modern:
        assert server.script.said == ["POST x/echo"]


@pytest.mark.parametrize("now", KINDS)
async def test_a_discovery_that_has_become_wrong_is_made_again(
    now: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """basic/versioning: re-probing if the cached assumption later fails. The call does not notice."""
    for was in ("2025-11-25", "2026-07-28"):
        with subtests.test(was=was):
            await know_what_is_wrong(was, now)


async def know_what_is_wrong(was: str, now: str) -> None:
    """Say what the server once was."""
    server = HttpServer(now)
    known = types.DiscoverResult(supported_versions=(was,), capabilities=types.ServerCapabilities())
    async with open_client(server.parameters(), era=known) as client:
        async with trio.open_nursery() as nursery:
            for n in range(3):

                async def ask(n: int = n) -> None:
                    assert (await client.request("x/echo", {"n": n}))["echo"] == {"n": n}

                nursery.start_soon(ask)
        assert client.revision == server.revision
    probes = len(server.asked("server/discover"))
    assert probes == (was == "2026-07-28" != now) + (was != "2026-07-28" == now)


async def test_a_meant_refusal_is_not_asked_for_twice(autojump_clock: trio.testing.MockClock) -> None:
    """A modern server that refuses the first request has seen it, and it might not be safe to make it again."""
    server = HttpServer("2026-07-28")
    known = types.DiscoverResult(supported_versions=("2026-07-28",), capabilities=types.ServerCapabilities())
    async with open_client(server.parameters(), era=known) as client:
        with pytest.raises(RequestError) as caught:
            await client.request("x/unknown")
        assert caught.value.code == -32601
        await client.request("x/echo")
        with pytest.raises(RequestError):
            await client.request("x/unknown")
    said = ["POST x/unknown", "POST server/discover", "POST x/echo", "POST x/unknown"]
    assert server.script.said == said


async def test_whatever_is_no_modern_answer_means_a_legacy_server(
    autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """basic/versioning: anything else identifies a legacy server; never keyed to one error code."""
    rows: list[tuple[int, bytes]] = [
        (400, b""),
        (
            400,
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}',
        ),
        (400, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}'),
        (404, b"Not Found"),
        (404, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'),
        (406, b"{}"),
        (500, b"<h1>Internal Server Error</h1>"),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        (200, b"<html>"),
        (202, b""),
    ]
    for status, body in rows:
        with subtests.test(status=status, body=body):
            server = HttpServer("2025-06-18")
            async with open_client(HttpServerParameters(URL, app=_intercept(server, status, body))) as client:
                assert client.revision == "2025-06-18"
                await client.request("x/echo")


def _intercept(server: HttpServer, status: int, body: bytes) -> Any:
    """Return the server with an answer of its own to discovery."""
    inner = server.script

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") == b"server/discover":
            fields = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": status, "headers": fields})
            await send({"type": "http.response.body", "body": body})
        else:
            await inner(scope, receive, send)

    return app


async def test_a_modern_error_means_a_modern_server(autojump_clock: trio.testing.MockClock) -> None:
    """Same section: on 400 the body counts. The versions it names are spoken."""
    server = HttpServer("2026-07-28")

    async def refuse(call: HttpCall) -> None:
        await call.answer(error(call.id, -32022, "no", supported=["2026-07-28"], requested="2026-07-28"), 400)

    server.handlers["server/discover"] = refuse
    async with open_client(server.parameters()) as client:
        assert client.revision == "2026-07-28"
        await client.request("x/echo")
    assert "POST initialize" not in server.script.said


async def test_a_modern_server_that_names_only_old_revisions_is_spoken_to_in_those(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = HttpServer("2025-06-18")
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["2025-06-18"]}}}'
    async with open_client(HttpServerParameters(URL, app=_intercept(server, 400, body))) as client:
        assert client.revision == "2025-06-18"
    assert server.asked("initialize")[0].message["params"]["protocolVersion"] == "2025-06-18"


async def test_a_slow_modern_server_is_not_taken_for_an_old_one(autojump_clock: trio.testing.MockClock) -> None:
    """Silence over HTTP says nothing about the era (only stdio has that rule); a cold start takes its time."""
    server = HttpServer("2026-07-28")

    async def start_slowly(call: HttpCall) -> None:
        if len(server.asked("server/discover")) == 1:
            await trio.sleep(20)
        await call.answer(result(call.id, supportedVersions=["2026-07-28"], capabilities={"tools": {}}))

    server.handlers["server/discover"] = start_slowly
    async with open_client(server.parameters()) as client:
        assert trio.current_time() == Limits().discover_timeout
        assert client.revision == "2026-07-28"
        assert client.server_capabilities == types.ServerCapabilities(tools=types.ToolsCapability())
    assert server.script.said == ["POST server/discover", "POST initialize", "POST server/discover"]


async def test_a_server_that_refuses_everything_says_why(
    autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    for status in (401, 403, 404, 429, 500, 503):
        with subtests.test(status=status):
            server = HttpServer("2025-11-25")
            server.down = (status, b"come back later")
            with pytest.raises(HttpStatusError, match="come back later") as caught:
                async with open_client(server.parameters()):
                    raise AssertionError
            assert caught.value.status == status
            assert ("GET" in server.script.said) is (status == 404), "HTTP+SSE is tried only where it might be"


async def test_a_server_that_never_answers_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async def never(call: HttpCall) -> None:
        await trio.sleep_forever()

    with pytest.raises(ConnectionLost, match="connect_timeout"):
        async with open_client(HttpServerParameters(URL, app=McpScript(never)), limits=Limits(connect_timeout=8)):
            raise AssertionError
    assert trio.current_time() == 8


async def test_an_application_that_does_not_start_is_no_server(autojump_clock: trio.testing.MockClock) -> None:
    async def never(*_: Any) -> None:
        await trio.sleep_forever()

    with pytest.raises(RuntimeError, match="did not start within 5 s"):
        async with open_client(HttpServerParameters(URL, app=never)):
            raise AssertionError


async def test_what_is_no_url_is_refused_before_anything_happens(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "gopher://localhost/",
        "localhost:8000",
        "http://",
        "https://user:secret@example.com/",
        "file:///x",
    ]
    for target in rows:
        with subtests.test(target=target):
            with pytest.raises(ValueError, match="URL") as caught:
                async with open_client(target):
                    raise AssertionError
            assert "secret" not in str(caught.value)


async def test_options_that_contradict_each_other_are_refused() -> None:
    odd: list[tuple[Any, dict[str, Any], str]] = [
        (URL, {"era": "ancient"}, "era must be one of"),
        (URL, {"era": "modern", "revision": "2025-11-25"}, "2025-11-25 is not of the era"),
        (URL, {"era": "legacy", "revision": "2026-07-28"}, "2026-07-28 is not of the era"),
        (Server("s"), {"era": "sse"}, "servers at a URL"),
    ]
    for target, options, match in odd:
        with pytest.raises(ValueError, match=match):
            async with open_client(target, **options):
                raise AssertionError


@pytest.mark.parametrize("revision", LEGACY[1:])
async def test_a_revision_that_is_insisted_on_is_spoken(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = HttpServer(revision)
    async with open_client(server.parameters(), revision=revision) as client:
        assert client.revision == revision
    assert server.script.said[0] == "POST initialize"
    other = HttpServer("2026-07-28")
    with pytest.raises((RemoteProtocolError, RequestError)):
        async with open_client(other.parameters(), revision=revision):
            raise AssertionError


async def test_one_application_can_be_shared(autojump_clock: trio.testing.MockClock) -> None:
    """Started once, asked by many, stopped when its block is left."""
    life: list[str] = []
    server = HttpServer("2026-07-28")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            life.append("started")
            await send({"type": "lifespan.startup.complete"})
            await receive()
            life.append("stopped")
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await server.script(scope, receive, send)

    async with open_asgi_client(app) as shared:
        parameters = HttpServerParameters(URL, app=shared)
        async with open_client(parameters) as one, open_client(parameters) as two:
            await one.request("x/echo")
            await two.request("x/echo")
        assert life == ["started"]
    assert life == ["started", "stopped"]
    with pytest.raises(TypeError, match="ASGI"):
        HttpServerParameters(URL, app="main:app")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("speaks", [*KINDS[:-2], SSE])
async def test_nothing_is_asked_before_the_end_of_the_handshake(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2024-11-05 to 2025-11-25, basic/lifecycle, "Initialization": servers refuse it; and POSTs overtake each other."""
    server = HttpServer(speaks)
    inner = server.script._handler

    async def slow(call: HttpCall) -> None:
        if call.rpc == "notifications/initialized":
            await trio.sleep(1)
        await inner(call)

    server.script._handler = slow
    async with open_client(server.parameters(), revision=server.revision) as client:
        await client.request("x/echo")
        assert trio.current_time() == 1


# Only an answer decides.


class BothEras:
    """A server of both eras, whose answers to the first questions get lost."""

    def __init__(self, *fates: int | str) -> None:
        self.modern = HttpServer("2026-07-28")
        self.legacy = HttpServer("2025-11-25")
        self._fates = list(fates)
        self.discoveries = 0

    def parameters(self) -> HttpServerParameters:
        return HttpServerParameters(URL, app=self)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") == b"server/discover":
            self.discoveries += 1
            fate = self._fates.pop(0) if self._fates else None
            if fate == "silence":
                await trio.sleep(20)
            elif fate == "reset":
                raise ConnectionResetError
            elif fate is not None:
                await send({"type": "http.response.start", "status": fate, "headers": []})
                await send({"type": "http.response.body", "body": b"not now"})
                return
        is_modern = headers.get(b"mcp-protocol-version") == b"2026-07-28"
        await (self.modern if is_modern else self.legacy).script(scope, receive, send)


async def test_one_failure_of_the_first_question_decides_nothing(
    autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """basic/versioning: an answer identifies the era. A server that is busy, or a reset, is none."""
    rows: list[int | str] = [408, 425, 429, 500, 502, 503, "reset"]
    for fate in rows:
        with subtests.test(fate=fate):
            server = BothEras(fate)
            async with open_client(server.parameters()) as client:
                assert client.revision == "2026-07-28"
                await client.request("x/echo")
            assert not server.legacy.asked("initialize")


@pytest.mark.parametrize("fate", [401, 429, 503, "reset", "silence"])
async def test_a_server_that_was_taken_for_an_old_one_is_asked_again(
    fate: int | str, autojump_clock: trio.testing.MockClock
) -> None:
    """What it can do in the legacy era is at hand at once; what it says later still counts, and no call fails."""
    server = BothEras(fate, fate)
    async with open_client(server.parameters()) as client:
        at_first = client.revision
        assert at_first == "2025-11-25"
        with trio.fail_after(60):
            while client.revision != "2026-07-28":
                await client.request("x/echo")
                await trio.sleep(0.5)
        await client.request("x/echo")
    assert len(server.legacy.asked("initialize")) == 1
    assert not server.legacy.sessions, "its session was ended"


@pytest.mark.parametrize("fate", [500, 401])
async def test_a_server_that_never_answers_the_first_question_is_left_in_peace(
    fate: int, autojump_clock: trio.testing.MockClock
) -> None:
    """Old servers that fall over it: a few attempts, and no more until there is another agreement."""
    server = BothEras(*[fate] * 1000)
    async with open_client(server.parameters()) as client:
        for _ in range(10):
            await trio.sleep(60)
            await client.request("x/echo")
        assert client.revision == "2025-11-25"
        assert server.discoveries <= 8
        before = server.discoveries
        server._fates.clear()
        server.legacy.forget_sessions()
        await client.request("x/echo")
        assert client.revision == "2026-07-28", "the next agreement asks anew"
        assert server.discoveries == before + 1


async def test_a_refusal_of_the_client_is_reported_as_it_is(
    autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """It tells nothing of the revisions that the server speaks."""
    ways: list[dict[str, Any]] = [{"era": "modern"}, {"revision": "2026-07-28"}]
    for status in (401, 403, 429, 503):
        for insists in ways:
            with subtests.test(status=status, insists=insists):
                server = HttpServer("2026-07-28")
                server.down = (status, b"not you")
                with pytest.raises(HttpStatusError, match="not you") as caught:
                    async with open_client(server.parameters(), **insists):
                        raise AssertionError
                assert caught.value.status == status
