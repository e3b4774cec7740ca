"""Requests that a modern server answers by asking back. Spec: 2026-07-28, basic/patterns/mrtr."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
import trio.testing
from eras import LEGACY_ENDS
from inside_client import Answered
from scripted_server import MODERN, ScriptedServer, never_asked
from tape import Tape
from wires import answer

from trio_mcp import Client, Limits, Progress, RemoteProtocolError, RequestError, Revision, open_client
from trio_mcp.types import (
    CallToolResult,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitResult,
    GetPromptResult,
    InputRequiredResult,
    PromptReference,
    ReadResourceResult,
)

STATE = 'opaque "\\u00e9\u2028 {}=='
SAMPLING: dict[str, Any] = {"messages": [], "maxTokens": 1}
FORM: dict[str, Any] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE: dict[str, Any] = {"method": "sampling/createMessage", "params": SAMPLING}
ELICIT: dict[str, Any] = {"method": "elicitation/create", "params": FORM}
ROOTS: dict[str, Any] = {"method": "roots/list"}


async def call_tool(client: Client, **options: Any) -> object:
    return cast("object", await client.call_tool("x", {"a": 1}, **options))


async def get_prompt(client: Client, **options: Any) -> object:
    return await client.get_prompt("x", {"a": "1"}, **options)


async def read_resource(client: Client, **options: Any) -> object:
    return await client.read_resource("x:y", **options)


CALLS: dict[str, Callable[..., Awaitable[object]]] = {
    "tools/call": call_tool,
    "prompts/get": get_prompt,
    "resources/read": read_resource,
}
FINAL: dict[str, Any] = {
    "resultType": "complete",
    "content": [],
    "messages": [],
    "contents": [],
    "ttlMs": 60_000,
    "cacheScope": "public",
}
METHODS = pytest.mark.parametrize("method", list(CALLS))


def asking(**members: Any) -> dict[str, Any]:
    return {"resultType": "input_required", **members}


def server_that_says(*results: dict[str, Any] | None) -> ScriptedServer:
    """Return a modern server that answers its first request with the first result, and so on; `None` is silence."""
    said = list(results)
    server = ScriptedServer(MODERN)

    def say(_: dict[str, Any]) -> dict[str, Any] | None:
        return said.pop(0)

    server.script = dict.fromkeys(CALLS, say)
    return server


@pytest.mark.spec("basic/patterns/mrtr", "Client Requirements (Basic Workflow)", revisions="2026-07-28")
@METHODS
async def test_the_server_is_asked_again_with_what_it_wants(method: str) -> None:
    """mrtr, "Client Requirements": a new id, the same parameters, all the answers, the state to the byte."""
    server = server_that_says(
        asking(inputRequests={"r": ROOTS, "s": SAMPLE, "e": ELICIT}, requestState=STATE),
        asking(requestState="second"),
        asking(inputRequests={"r2": ROOTS}),
        FINAL,
    )
    async with open_client(
        server, on_sample=lambda _: "hi", on_elicit=lambda _: "decline", roots=["file:///a"]
    ) as client:
        await CALLS[method](client, meta={"x/y": 1})
    requests = server.requests(method)
    assert len({request["id"] for request in requests}) == 4
    brought = [
        {
            name: request["params"].pop(name)
            for name in ("inputResponses", "requestState")
            if name in request["params"]
        }
        for request in requests
    ]
    roots = {"roots": [{"uri": "file:///a"}]}
    said = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "unspecified"}
    assert brought == [
        {},
        {"inputResponses": {"r": roots, "s": said, "e": {"action": "decline"}}, "requestState": STATE},
        {"requestState": "second"},
        {"inputResponses": {"r2": roots}},
    ]
    assert all(request["params"] == requests[0]["params"] for request in requests)
    assert requests[0]["params"]["_meta"]["x/y"] == 1


@pytest.mark.spec("basic/patterns/mrtr", "InputResponses", revisions="2026-07-28")
async def test_what_is_asked_at_once_is_answered_concurrently() -> None:
    """mrtr, "Basic Workflow": the questions of one round do not wait for each other."""
    both = trio.Event()
    running = 0

    async def together(_: CreateMessageRequestParams) -> str:
        nonlocal running
        running += 1
        if running == 2:
            both.set()
        await both.wait()
        return "done"

    server = server_that_says(asking(inputRequests={"b": SAMPLE, "a": SAMPLE}), FINAL)
    async with open_client(server, on_sample=together) as client:
        await client.call_tool("x")
    assert list(server.requests("tools/call")[1]["params"]["inputResponses"]) == ["b", "a"]


async def test_more_questions_than_may_be_served_at_once_wait_for_one_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """As in the legacy era, where each is a request (`Limits.max_inbound_requests`). All are answered."""
    running = most = 0

    async def answer_slowly(_: CreateMessageRequestParams) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        return "done"

    server = server_that_says(asking(inputRequests={str(n): SAMPLE for n in range(8)}), FINAL)
    async with open_client(server, on_sample=answer_slowly, limits=Limits(max_inbound_requests=3)) as client:
        await client.call_tool("x")
    assert most == 3
    assert trio.current_time() == 3
    assert list(server.requests("tools/call")[1]["params"]["inputResponses"]) == list("01234567")


@pytest.mark.parametrize("empty", [{}, None])
async def test_an_empty_list_of_questions_is_answered_with_none(empty: Any) -> None:
    server = server_that_says(asking(inputRequests=empty, requestState="s"), FINAL)
    async with open_client(server) as client:
        await client.call_tool("x")
    params = server.requests("tools/call")[1]["params"]
    assert params.get("inputResponses") == empty
    assert params["requestState"] == "s"


# When it goes wrong.


@pytest.mark.spec("basic/patterns/mrtr", "Basic Workflow", revisions="2026-07-28")
@METHODS
@pytest.mark.parametrize("max_rounds", [1, 10])
async def test_a_server_that_asks_for_ever_is_given_up(
    method: str, max_rounds: int, autojump_clock: trio.testing.MockClock
) -> None:
    server = server_that_says(*[asking(requestState="again")] * (max_rounds + 2))
    async with open_client(server, limits=Limits(max_input_rounds=max_rounds)) as client:
        with pytest.raises(
            RemoteProtocolError, match=rf"still asks back after {max_rounds} rounds \(max_input_rounds"
        ):
            await CALLS[method](client)
    assert len(server.requests(method)) == max_rounds + 1


async def test_ten_rounds_are_allowed_unless_told_otherwise(autojump_clock: trio.testing.MockClock) -> None:
    server = server_that_says(*[asking(requestState="again")] * 10, FINAL)
    async with open_client(server) as client:
        await client.call_tool("x")


@pytest.mark.spec("basic/patterns/mrtr", "InputRequiredResult", revisions="2026-07-28")
async def test_what_a_server_must_not_say_is_refused(subtests: pytest.Subtests) -> None:
    """mrtr, "Server Requirements"; basic, "ResultType". Nobody is asked anything, and nothing is sent again."""
    rows: list[tuple[dict[str, Any], str]] = [
        (asking(), "neither inputRequests nor requestState"),
        (asking(requestState=5), "requestState: expected a string"),
        (asking(inputRequests=[]), "inputRequests: expected an object"),
        (asking(inputRequests={"q": 5}), r"inputRequests\.q: expected an object with a method"),
        (asking(inputRequests={"q": {"method": 5}}), r"inputRequests\.q: expected an object with a method"),
        (asking(inputRequests={"q": {**ROOTS, "params": 5}}), r"inputRequests\.q: params: expected an object"),
        (asking(inputRequests={"q": {**SAMPLE, "params": {}}}), r"inputRequests\.q: invalid params: "),
        (
            asking(inputRequests={"q": ELICIT, "p": ROOTS}),
            r"inputRequests\.p: this client has no method roots/list",
        ),
        ({**FINAL, "resultType": "task"}, "of an unknown type: 'task'"),
        ({**FINAL, "resultType": 5}, "of an unknown type: 5"),
    ]
    for result, problem in rows:
        with subtests.test(result=result, problem=problem):
            server = server_that_says(result)
            async with open_client(server, on_sample=never_asked, on_elicit=never_asked) as client:
                with pytest.raises(RemoteProtocolError, match=f"^tools/call: .*{problem}"):
                    await client.call_tool("x")
            assert len(server.requests("tools/call")) == 1


@pytest.mark.spec("basic/patterns/mrtr", "Supported Requests", revisions="2026-07-28")
@pytest.mark.parametrize("method", ["tools/list", "completion/complete", "server/discover"])
async def test_other_requests_must_not_be_answered_by_asking_back(method: str) -> None:
    """mrtr, "Supported Requests": servers must not on any other request."""
    server = ScriptedServer(MODERN)
    async with open_client(server, roots=[]) as client:
        server.script[method] = asking(inputRequests={"q": ROOTS})
        calls: dict[str, Callable[[], Any]] = {
            "tools/list": lambda: anext(client.list_tools()),
            "completion/complete": lambda: client.complete(PromptReference(name="x"), "a", ""),
            "server/discover": client.discover,
        }
        with pytest.raises(
            RemoteProtocolError, match=f"{method}: the server must not answer this method with input_required"
        ):
            await calls[method]()


async def test_a_result_without_a_type_is_complete() -> None:
    """basic, "ResultType": absent means complete."""
    server = server_that_says({"content": []})
    async with open_client(server) as client:
        assert await client.call_tool("x") == CallToolResult(content=[])


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_a_legacy_server_knows_no_types_of_results(revision: Revision) -> None:
    server = ScriptedServer(revision, {"tools/call": {"content": [], "resultType": "task"}})
    async with open_client(server, revision=revision) as client:
        assert (await client.call_tool("x")).content == ()


async def test_what_a_handler_raises_comes_out_of_the_call_and_ends_the_other_handlers() -> None:
    """There is no error to answer with. As itself, not in a group."""
    cancelled = False

    async def forever(_: CreateMessageRequestParams) -> str:
        nonlocal cancelled
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled = True
            raise

    def fail(_: object) -> Any:
        raise ArithmeticError("the handler's own")

    server = server_that_says(asking(inputRequests={"s": SAMPLE, "e": ELICIT}))
    async with open_client(server, on_sample=forever, on_elicit=fail) as client:
        with pytest.raises(ArithmeticError, match="the handler's own"):
            await client.call_tool("x")
    assert cancelled
    assert len(server.requests("tools/call")) == 1


async def test_what_two_handlers_raise_comes_out_as_a_group() -> None:
    started = trio.Event()

    async def fail(_: object) -> Any:
        await started.wait()
        raise ArithmeticError

    async def fail_too(_: object) -> Any:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            raise RequestError(-1, "no")

    server = server_that_says(asking(inputRequests={"s": SAMPLE, "e": ELICIT}))
    async with open_client(server, on_sample=fail_too, on_elicit=fail) as client:
        with pytest.RaisesGroup(ArithmeticError, RequestError):
            await client.call_tool("x")


async def test_a_round_that_is_refused_is_an_error() -> None:
    server = server_that_says(asking(requestState="s"))

    def refuse(message: dict[str, Any]) -> dict[str, Any]:
        if "requestState" in message["params"]:
            return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "expired"}}
        return asking(requestState="s")

    server.script["tools/call"] = refuse
    async with open_client(server) as client:
        with pytest.raises(RequestError, match="expired"):
            await client.call_tool("x")


# Time, progress and cancellation, round by round.


async def test_cancelled_in_any_round_the_request_of_that_round_is_given_up(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """basic/patterns/cancellation: one cancellation, of the request in flight; those before are answered."""
    for method in CALLS:
        for silent_round in (0, 1, 2):
            with subtests.test(method=method, silent_round=silent_round):
                tape = Tape()
                server = server_that_says(*[asking(requestState="s")] * silent_round, None)
                async with open_client(server, on_frame=tape) as client:
                    with trio.move_on_after(5) as scope:
                        await CALLS[method](client)
                    assert scope.cancelled_caught
                    await trio.testing.wait_all_tasks_blocked()
                ids = [request["id"] for request in server.requests(method)]
                assert len(ids) == silent_round + 1
                assert tape.goodbyes() == {ids[-1]: 1}
                tape.check_endings()


async def test_cancelled_while_a_handler_works_the_handler_is_cancelled_and_nothing_is_sent(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Nothing is in flight then, so there is nothing to give up."""

    async def check(method: str, asking_round: int) -> None:
        tape = Tape()
        cancelled = 0

        async def forever(_: CreateMessageRequestParams) -> str:
            nonlocal cancelled
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                cancelled += 1
                raise

        rounds = [asking(requestState="s")] * (asking_round - 1)
        server = server_that_says(*rounds, asking(inputRequests={"a": SAMPLE, "b": SAMPLE}))
        async with open_client(server, on_sample=forever, on_frame=tape) as client:
            with trio.move_on_after(5) as scope:
                await CALLS[method](client)
            assert scope.cancelled_caught
            await trio.testing.wait_all_tasks_blocked()
        assert cancelled == 2
        assert len(server.requests(method)) == asking_round
        assert tape.goodbyes() == {}

    for method in CALLS:
        for asking_round in (1, 2, 3):
            with subtests.test(method=method, asking_round=asking_round):
                await check(method, asking_round)


async def test_one_deadline_covers_all_rounds(autojump_clock: trio.testing.MockClock) -> None:
    """The caller's own means what it says; the server learns in each round how much is left."""

    async def slow(_: CreateMessageRequestParams) -> str:
        await trio.sleep(4)
        return "x"

    server = server_that_says(*[asking(inputRequests={"q": SAMPLE})] * 5)
    async with open_client(server, on_sample=slow) as client:
        with pytest.raises(trio.TooSlowError), trio.fail_after(10):
            await client.call_tool("x")
    assert trio.current_time() == 10
    assert times_left(server) == [10_000, 6_000, 2_000]


async def test_the_request_timeout_covers_all_rounds_but_not_the_users_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Each round goes on where the one before stood. The server is told nothing: its own clock would go on."""

    async def slow(_: CreateMessageRequestParams) -> str:
        await trio.sleep(50)
        return "x"

    async def ask_back(message: dict[str, Any]) -> None:
        await trio.sleep(4)
        server.say(answer(message, asking(inputRequests={"q": SAMPLE})))

    server = ScriptedServer(MODERN, {"tools/call": lambda message: nursery.start_soon(ask_back, message)})
    async with trio.open_nursery() as nursery:
        async with open_client(server, on_sample=slow, request_timeout=10) as client:
            with pytest.raises(trio.TooSlowError, match="request_timeout"):
                await client.call_tool("x")
        nursery.cancel_scope.cancel()
    assert trio.current_time() == 10 + 2 * 50
    assert times_left(server) == [None] * 3


def times_left(server: ScriptedServer) -> list[int | None]:
    return [request["params"]["_meta"].get("trio-mcp/timeoutMs") for request in server.requests("tools/call")]


async def test_progress_goes_on_over_the_rounds() -> None:
    """basic/patterns/progress: each round has a token of its own."""
    server = ScriptedServer(MODERN)
    tokens: list[object] = []

    def call(message: dict[str, Any]) -> dict[str, Any]:
        token = message["params"]["_meta"]["progressToken"]
        tokens.append(token)
        server.tell("notifications/progress", progressToken=token, progress=len(tokens))
        return asking(requestState="s") if len(tokens) < 3 else FINAL

    server.script["tools/call"] = call
    seen: list[Progress] = []
    async with open_client(server) as client:
        await client.call_tool("x", on_progress=seen.append)
    assert [progress.progress for progress in seen] == [1, 2, 3]
    assert len(set(tokens)) == 3


# By hand.


@METHODS
async def test_a_caller_may_go_on_by_hand(method: str) -> None:
    """The handlers are not asked; what came back is typed, and so is what is brought."""
    server = server_that_says(
        asking(inputRequests={"q": ELICIT}, requestState=STATE), asking(requestState="t"), FINAL
    )
    async with open_client(server, on_elicit=never_asked) as client:
        first = await CALLS[method](client, input_required="return")
        assert isinstance(first, InputRequiredResult)
        assert first.request_state == STATE
        assert first.input_requests is not None
        assert isinstance(first.input_requests["q"], ElicitRequest)
        second = await CALLS[method](
            client,
            input_required="return",
            input_responses={"q": ElicitResult(action="accept", content={})},
            request_state=first.request_state,
        )
        assert isinstance(second, InputRequiredResult)
        assert second.input_requests is None
        last = await CALLS[method](client, input_required="return", request_state=second.request_state)
        assert isinstance(last, (CallToolResult, GetPromptResult, ReadResourceResult))
    brought = [request["params"] for request in server.requests(method)]
    assert "requestState" not in brought[0]
    assert brought[1]["inputResponses"] == {"q": {"action": "accept", "content": {}}}
    assert brought[1]["requestState"] == STATE
    assert "inputResponses" not in brought[2]
    assert brought[2]["requestState"] == "t"


@METHODS
async def test_what_was_begun_by_hand_can_be_finished_by_the_handlers(method: str) -> None:
    server = server_that_says(asking(inputRequests={"q": ROOTS}), FINAL)
    async with open_client(server, roots=[]) as client:
        await CALLS[method](client, request_state="begun", input_responses={"x": ElicitResult(action="cancel")})
    first, second = (request["params"] for request in server.requests(method))
    assert (first["requestState"], first["inputResponses"]) == ("begun", {"x": {"action": "cancel"}})
    assert "requestState" not in second
    assert second["inputResponses"] == {"q": {"roots": []}}


@pytest.mark.parametrize("result", [asking(), asking(inputRequests={"q": {"method": "x/y"}})])
async def test_by_hand_too_a_server_must_keep_to_the_protocol(result: dict[str, Any]) -> None:
    async with open_client(server_that_says(result)) as client:
        with pytest.raises(RemoteProtocolError, match="tools/call"):
            await client.call_tool("x", input_required="return")


async def test_by_hand_the_handlers_can_be_asked_in_plain_json() -> None:
    async with open_client(ScriptedServer(MODERN), roots=["file:///a"]) as client:
        with trio.testing.assert_checkpoints():
            answers = await client.answer_input({"q": ROOTS})
        assert answers == {"q": {"roots": [{"uri": "file:///a"}]}}
        with trio.testing.assert_checkpoints():
            assert await client.answer_input({}) == {}
        with pytest.raises(RemoteProtocolError, match="sampling"):
            await client.answer_input({"q": SAMPLE})


# What may be kept.


@pytest.mark.parametrize(
    ("rounds", "kind", "may"), [(0, "complete", True), (1, "complete", False), (0, "x", False)]
)
def test_only_a_complete_first_answer_may_be_kept(rounds: int, kind: str, may: bool) -> None:
    """server/utilities/caching: what was answered to a retry depends on more than the request."""
    assert Answered({}, {}, kind, rounds).may_be_kept is may
