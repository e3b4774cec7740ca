"""Finding out who sends a request: who is let in, and what a hook of the author's can do to others. No sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import call_tool, open_raw
from http_server_fixtures import EVERY_HOST
from raw import initialize

from trio_mcp import Context, HttpCall, HttpRefused, HttpServerSettings, Server

pytestmark = pytest.mark.usefixtures("under")


def make_server(served: list[str | None] | None = None) -> Server[Any]:
    server: Server[Any] = Server("known")

    @server.tool
    async def whoami(ctx: Context) -> str:
        if served is not None:
            served.append(ctx.principal)
        return str(ctx.principal)

    return server


@pytest.mark.parametrize("nobody", [None, ""])
async def test_a_client_without_a_principal_is_refused(nobody: str | None) -> None:
    """A hook that falls off its end returns `None`; that must not open the door. Nothing of the request is read."""

    async def authenticate(call: HttpCall) -> str | None:
        return nobody

    served: list[str | None] = []
    async with open_raw(make_server(served), authenticate=authenticate) as raw:
        for message, method in (
            (call_tool("whoami"), "POST"),
            (initialize("2025-11-25"), "POST"),
            (None, "DELETE"),
        ):
            answer = await raw.send(message, method=method)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert served == []


async def test_a_client_without_a_principal_is_admitted_where_that_is_allowed() -> None:
    """One setting; an empty name is not what it means."""
    names: list[str | None] = [None, "", "ann"]

    async def authenticate(call: HttpCall) -> str | None:
        return names.pop(0)

    served: list[str | None] = []
    settings = HttpServerSettings(allow_anonymous=True)
    async with open_raw(make_server(served), settings, authenticate=authenticate) as raw:
        assert [(await raw.send(call_tool("whoami"))).status for _ in range(3)] == [200, 401, 200]
    assert served == [None, "ann"]


def test_anonymous_clients_are_not_let_in_by_a_word() -> None:
    """Any text is true."""
    word: Any = "no"
    with pytest.raises(TypeError, match="allow_anonymous"):
        HttpServerSettings(allow_anonymous=word)


async def test_a_principal_that_is_no_name_is_refused(
    caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """`return token == secret` is a mistake, which the log explains."""
    rows: list[Any] = [True, False, 0, 7, b"ann", ["ann"], object()]
    for said in rows:
        with subtests.test(said=said):
            caplog.clear()
            await take_for_a_principal(said, caplog)


async def take_for_a_principal(said: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Let the hook return this."""

    async def authenticate(call: HttpCall) -> str | None:
        return said  # type: ignore[no-any-return]

    served: list[str | None] = []
    settings = HttpServerSettings(allow_anonymous=True)
    async with open_raw(make_server(served), settings, authenticate=authenticate) as raw:
        assert (await raw.send(call_tool("whoami"))).status == 500
    assert served == []
    assert f"not {type(said).__name__}" in caplog.text


class Own(BaseException):
    """Something of somebody's own."""


@EVERY_HOST
async def test_what_the_hook_raises_costs_its_request_alone(subtests: pytest.Subtests) -> None:
    """As for handlers: only `KeyboardInterrupt` ends the program, and nothing inside is told to a client."""
    rows: list[BaseException] = [
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
        Own("secret"),
        RuntimeError("secret"),
        ExceptionGroup("secret", [ValueError("secret"), HttpRefused(401, "one of two")]),
    ]
    for error in rows:
        with subtests.test(error=error):
            await raise_in_the_hook(error)


async def raise_in_the_hook(error: BaseException) -> None:
    """Let the hook raise this for whoever does not say a name."""

    async def authenticate(call: HttpCall) -> str | None:
        if call.headers.get("x-user") is None:
            raise error
        return call.headers.get("x-user")

    served: list[str | None] = []
    async with open_raw(make_server(served), authenticate=authenticate) as raw:
        for _ in range(2):
            refused = await raw.send(call_tool("whoami"))
            assert (refused.status, b"secret" in refused.body) == (500, False)
        assert (await raw.send(call_tool("whoami"), {"X-User": "ann"})).status == 200
    assert served == ["ann"]


@EVERY_HOST
async def test_a_stray_cancellation_of_the_hook_is_its_own_failure() -> None:
    """Of a scope that was left before: nobody has cancelled the request."""

    async def authenticate(call: HttpCall) -> str | None:
        stray: BaseException | None = None
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                stray = error
                raise
        assert stray is not None
        raise stray

    async with open_raw(make_server(), authenticate=authenticate) as raw:
        assert (await raw.send(call_tool("whoami"))).status == 500


async def test_a_refusal_out_of_a_nursery_is_one() -> None:
    """A caller that asks two sources at once for a key has one."""

    async def authenticate(call: HttpCall) -> str | None:
        async with trio.open_nursery():
            raise HttpRefused(401, "no", [("www-authenticate", "Basic")])

    async with open_raw(make_server(), authenticate=authenticate) as raw:
        answer = await raw.send(call_tool("whoami"))
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Basic")


@pytest.mark.parametrize("what", ["scope", "cancelled scope", "nursery"])
@EVERY_HOST
async def test_what_the_hook_leaves_open_costs_its_request_alone(what: str) -> None:
    """A scope that it has left on the stack would cancel whatever this task does next, here: answering."""
    task_ended = trio.Event()

    async def linger() -> None:
        try:
            await trio.sleep_forever()
        finally:
            task_ended.set()

    async def authenticate(call: HttpCall) -> str | None:
        if call.headers.get("x-user") is None:
            stack = AsyncExitStack()
            if what == "nursery":
                nursery = await stack.enter_async_context(trio.open_nursery())
                nursery.start_soon(linger)
                await trio.testing.wait_all_tasks_blocked()
            else:
                scope = stack.enter_context(trio.CancelScope())
                if what == "cancelled scope":
                    scope.cancel()
        return "ann"

    served: list[str | None] = []
    async with open_raw(make_server(served), authenticate=authenticate) as raw:
        assert (await raw.send(call_tool("whoami"))).status == 500
        if what == "nursery":
            await task_ended.wait()
        assert (await raw.send(call_tool("whoami"), {"X-User": "ann"})).status == 200
    assert served == ["ann"]


async def test_a_hook_that_never_returns_is_given_up(autojump_clock: object) -> None:
    """Its clients are told when to come back."""
    ended: list[float] = []

    async def authenticate(call: HttpCall) -> str | None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with open_raw(make_server(), authenticate=authenticate) as raw:
        began = trio.current_time()
        answer = await raw.send(call_tool("whoami"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert ended == [pytest.approx(began + 30)]


@EVERY_HOST
async def test_no_principal_is_looked_up_for_a_client_that_has_gone(autojump_clock: object) -> None:
    """Its place is free again at once."""
    begun, ended = trio.Event(), trio.Event()

    async def authenticate(call: HttpCall) -> str | None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with open_raw(make_server(), authenticate=authenticate) as raw, trio.open_nursery() as nursery:
        nursery.start_soon(raw.send, call_tool("whoami"))
        await begun.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await ended.wait()


@EVERY_HOST
async def test_fields_that_the_hook_adds_to_the_answer_do_not_tear_it() -> None:
    """`HttpCall.answer_headers` is what it may write to: text is taken, and what cannot be sent is its failure."""
    fields: list[Any] = [[("x-who", "ann")], [(b"x-who", b"ann\r\nx: y")], [("x-who", "\N{SNOWMAN}")], ["x"]]

    nothing: Any = None

    async def authenticate(call: HttpCall) -> str | None:
        try:
            call.answer_headers += fields.pop(0)
        except IndexError:
            call.answer_headers = nothing
        return "ann"

    served: list[str | None] = []
    async with open_raw(make_server(served), authenticate=authenticate) as raw:
        answer = await raw.send(call_tool("whoami"))
        assert (answer.status, answer.headers["x-who"]) == (200, "ann")
        for _ in range(4):
            answer = await raw.send(call_tool("whoami"))
            assert (answer.status, answer.headers.get("x-who")) == (500, None)
    assert served == ["ann"]


# What it costs whom.


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_finding_out_who_asks_takes_a_place(method: str) -> None:
    """A hundred at once were looked up although twenty may be: each may be a request to somebody else's server."""
    running, most = 0, 0

    async def authenticate(call: HttpCall) -> str | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await trio.sleep_forever()
        finally:
            running -= 1

    statuses: list[int] = []
    settings = HttpServerSettings(max_requests=20, max_requests_per_principal=20)
    async with (
        open_raw(make_server(), settings, authenticate=authenticate) as raw,
        trio.open_nursery() as nursery,
    ):

        async def ask() -> None:
            statuses.append((await raw.send(call_tool("whoami"), method=method)).status)

        for _ in range(100):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert (most, statuses) == (20, [429] * 80)
        nursery.cancel_scope.cancel()


async def test_one_address_cannot_keep_others_from_being_looked_up() -> None:
    """It has its own share, and the sum is bounded as well."""

    async def authenticate(call: HttpCall) -> str | None:
        if call.headers.get("x-wait"):
            await trio.sleep_forever()
        return "ann"

    settings = HttpServerSettings(max_requests=5, max_requests_per_principal=2, trusted_proxies={"127.0.0.1"})
    async with (
        open_raw(make_server(), settings, authenticate=authenticate) as raw,
        trio.open_nursery() as nursery,
    ):

        async def ask(address: str, waits: str | None = None) -> int:
            fields = {"X-Forwarded-For": address, "X-Wait": waits}
            return (await raw.send(call_tool("whoami"), fields)).status

        for number in range(4):
            nursery.start_soon(ask, f"192.0.2.{number % 2}", "yes")
        await trio.testing.wait_all_tasks_blocked()
        assert await ask("192.0.2.1") == 429
        assert await ask("192.0.2.2") == 200
        nursery.start_soon(ask, "192.0.2.2", "yes")
        await trio.testing.wait_all_tasks_blocked()
        assert await ask("192.0.2.3") == 503
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_what_is_refused_counts_for_the_rate(method: str, autojump_clock: object) -> None:
    """Guessing has a price, in the name of the address that guesses; a known client has a rate of its own."""
    looked_up: list[str | None] = []

    async def authenticate(call: HttpCall) -> str | None:
        user = call.headers.get("x-user")
        looked_up.append(user)
        if user is None:
            raise HttpRefused(401, "no")
        return user

    settings = HttpServerSettings(rate="3/30 seconds", trusted_proxies={"127.0.0.1"})
    async with open_raw(make_server(), settings, authenticate=authenticate) as raw:

        async def ask(user: str | None, address: str = "192.0.2.1", method: str = "POST") -> int:
            headers = {
                "X-User": user,
                "X-Forwarded-For": address,
                "Accept": "application/json, text/event-stream",
            }
            return (await raw.send(call_tool("whoami"), headers, method=method)).status

        assert [await ask("ann") for _ in range(4)] == [200, 200, 200, 429]
        assert [await ask(f"user {n}") for n in range(9)] == [200] * 9, "of one address"
        assert [await ask(None, method=method) for _ in range(5)] == [401] * 3 + [429] * 2
        looked_up.clear()
        assert await ask("bob") == 429
        assert looked_up == [], "nobody is looked up for an address that only guesses"
        assert await ask("bob", "192.0.2.2") == 200
        await trio.sleep(10)
        assert await ask("bob") == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_requests_without_a_body_count_for_the_rate(method: str, autojump_clock: object) -> None:
    """They look for sessions, which somebody may guess."""
    settings = HttpServerSettings(rate="3/30 seconds")
    async with open_raw(make_server(), settings) as raw:
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": "guessed"}
        statuses = [(await raw.send(None, headers, method=method)).status for _ in range(5)]
        assert statuses == [404] * 3 + [429] * 2


async def test_a_stream_of_a_session_takes_no_place_of_requests() -> None:
    """It stands open for as long as its session lasts; there may be as many as there are connections."""
    settings = HttpServerSettings(max_requests=2, max_requests_per_principal=2, sse=True)
    async with open_raw(make_server(), settings) as raw, AsyncExitStack() as stack:
        headers = {"Accept": "text/event-stream"}
        for _ in range(4):
            began = await raw.send(initialize("2025-11-25"))
            own = {**headers, "Mcp-Session-Id": began.headers["mcp-session-id"]}
            response = await stack.enter_async_context(raw.open(None, own, method="GET"))
            assert response.status == 200
        response = await stack.enter_async_context(raw.open(None, headers, method="GET", path="/sse"))
        assert response.status == 200
        assert (await raw.send(call_tool("whoami"))).status == 200
