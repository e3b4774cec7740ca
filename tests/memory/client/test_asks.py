"""What a server may ask under an `AskPolicy`: refused, bounded, and decided by a person, in both eras."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from scripted_server import LEGACY, MODERN, ScriptedServer, never_asked

from trio_mcp import (
    Ask,
    AskAnswer,
    AskPolicy,
    AskRefused,
    Client,
    ClientOptions,
    Context,
    RequestError,
    Revision,
    Server,
    open_client,
    open_clients,
)
from trio_mcp.types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    SamplingCapability,
    TextContent,
    evolve,
)

BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
SAMPLING: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}],
    "maxTokens": 10,
}


def asking_server(name: str = "asking") -> Server:
    """Return a server whose tools ask, and say what became of it."""
    server = Server(name)

    @server.tool
    async def sample(ctx: Context, tokens: int = 10) -> str:
        try:
            return (await ctx.sample("2 + 2?", max_tokens=tokens)).text
        except RequestError as error:
            return f"{error.code}: {error.message}"

    @server.tool
    async def elicit(ctx: Context) -> str:
        answered = await ctx.elicit("Your name?", str)
        return answered.action if answered.action != "accept" else answered.value

    @server.tool
    async def roots(ctx: Context) -> str:
        try:
            return " ".join(root.uri for root in await ctx.list_roots())
        except RequestError as error:
            return f"{error.code}: {error.message}"

    return server


async def said(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool, and return what it or the client's own refusal says."""
    try:
        return (await client.call_tool(tool, arguments)).text
    except AskRefused as error:
        assert client.revision.is_modern
        return f"{error.code}: {error.message}"


def outcomes(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Return of each audit record of an ask the outcome, the server and what has decided."""
    records = [record.__dict__ for record in caplog.records if record.name == "trio_mcp.audit"]
    return [
        (one["server"], one["method"], one["outcome"], one["limit"]) for one in records if one["event"] == "ask"
    ]


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Have audit records written."""
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    return caplog


# Which kinds.


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
async def test_what_is_never_allowed_is_not_declared(revision: Revision) -> None:
    """Not what follows from handlers, and not what was declared by hand."""

    async def declared(policy: AskPolicy, **options: Any) -> dict[str, Any]:
        server = ScriptedServer(revision, {"ping": {}})
        options = {"on_sample": never_asked, "on_elicit": never_asked, "roots": [], **options}
        async with open_client(server, policy=policy, revision=revision, **options) as client:
            await client.ping()
        return server.declared

    both: Any = {"elicit_modes": ("form", "url")}
    assert await declared(AskPolicy(allow=())) == {}
    assert await declared(AskPolicy(max_asks=0)) == {}
    assert await declared(AskPolicy(allow=["url"])) == {}
    assert await declared(AskPolicy(allow=["url", "sampling"], max_tokens=0), **both) == {
        "elicitation": {"url": {}}
    }
    assert await declared(AskPolicy(allow={"form"}), **both) == {"elicitation": {"form": {}}}
    assert (await declared(AskPolicy())).keys() == {"sampling", "elicitation", "roots"}
    by_hand = ClientCapabilities(
        sampling=SamplingCapability(), elicitation=ElicitationCapability(form={}, url={}), experimental={"x": {}}
    )
    assert await declared(AskPolicy(allow=["form"]), capabilities=by_hand) == {
        "elicitation": {"form": {}},
        "experimental": {"x": {}},
    }


async def test_what_is_asked_all_the_same_is_refused_and_recorded(audited: pytest.LogCaptureFixture) -> None:
    """A server that asks for what was not declared gets the error of an unknown method."""
    server = ScriptedServer(LEGACY[-1])
    policy = AskPolicy(allow=["roots"])
    async with open_client(server, revision=LEGACY[-1], on_sample=never_asked, roots=[], policy=policy):
        assert (await server.ask("sampling/createMessage", SAMPLING))["error"]["code"] == -32601
    assert outcomes(audited) == [("ScriptedServer", "sampling/createMessage", "refused", None)]


@BOTH
async def test_a_handler_of_plain_json_is_under_the_policy_too(revision: Revision) -> None:
    """It takes precedence over the others, but not over the policy."""
    seen: list[Any] = []

    async def answer(params: Any) -> dict[str, Any]:
        seen.append(params["maxTokens"])
        return {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"}

    options: ClientOptions = {
        "capabilities": ClientCapabilities(sampling=SamplingCapability()),
        "request_handlers": {"sampling/createMessage": answer},
        "policy": AskPolicy(max_tokens_per_ask=7, max_asks=1),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        assert await said(client, "sample") == "4"
        assert (await said(client, "sample")).startswith("-1: ")
    assert seen == [7]


# A person decides.


@BOTH
async def test_a_person_refuses(revision: Revision, audited: pytest.LogCaptureFixture) -> None:
    """client/sampling, "Error Handling": -1. client/elicitation, "Response Actions": decline."""

    async def refuse(ask: Ask) -> bool:
        shown.append((ask.server, ask.kind, ask.number))
        return False

    shown: list[tuple[str, str, int]] = []
    options: ClientOptions = {
        "on_sample": never_asked,
        "on_elicit": never_asked,
        "roots": ["/srv"],
        "policy": AskPolicy(review_ask=refuse),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        assert await said(client, "sample") == "-1: the user rejected sampling/createMessage"
        assert await said(client, "elicit") == "decline"
        assert await said(client, "roots") == "-1: the user rejected roots/list"
    assert shown == [("asking", "sampling", 1), ("asking", "form", 2), ("asking", "roots", 3)]
    assert outcomes(audited) == [
        ("asking", "sampling/createMessage", "refused", "review_ask"),
        ("asking", "elicitation/create", "refused", "review_ask"),
        ("asking", "roots/list", "refused", "review_ask"),
    ]


@BOTH
async def test_a_person_keeps_an_answer_back(revision: Revision, audited: pytest.LogCaptureFixture) -> None:
    """The model was asked, and the server does not learn what it said."""

    async def keep(ask: Ask, answer: AskAnswer) -> None:
        kept.append((ask.kind, answer))

    kept: list[Any] = []
    options: ClientOptions = {
        "on_sample": lambda _: "4",
        "on_elicit": lambda _: {"value": "Ada"},
        "policy": AskPolicy(review_answer=keep),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        assert await said(client, "sample") == "-1: the user rejected sampling/createMessage"
        assert await said(client, "elicit") == "decline"
    assert [kind for kind, _ in kept] == ["sampling", "form"]
    assert kept[1][1] == ElicitResult(action="accept", content={"value": "Ada"})
    assert [outcome[2:] for outcome in outcomes(audited)] == 2 * [("allowed", None), ("refused", "review_answer")]


@BOTH
async def test_a_person_changes_ask_and_answer(revision: Revision, audited: pytest.LogCaptureFixture) -> None:
    """client/sampling: view and edit prompts, and review what was generated."""

    async def change(ask: Ask) -> Any:
        if isinstance(ask.params, CreateMessageRequestParams):
            return evolve(ask.params, system_prompt="Be short.", max_tokens=5)
        assert isinstance(ask.params, ElicitRequestFormParams)
        return evolve(ask.params, message="asking wants to know: " + ask.params.message)

    async def correct(ask: Ask, answer: AskAnswer) -> Any:
        del ask
        if isinstance(answer, CreateMessageResult):
            return evolve(answer, content=TextContent(text="four"))
        return evolve(answer, content={"value": "nobody"})

    async def model(params: CreateMessageRequestParams) -> str:
        assert (params.system_prompt, params.max_tokens) == ("Be short.", 5)
        return "4"

    def user(params: ElicitRequestParams) -> dict[str, Any]:
        assert params.message == "asking wants to know: Your name?"
        return {"value": "Ada"}

    options: ClientOptions = {
        "on_sample": model,
        "on_elicit": user,
        "policy": AskPolicy(review_ask=change, review_answer=correct),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        assert await said(client, "sample") == "four"
        assert await said(client, "elicit") == "nobody"
    records = [record.__dict__ for record in audited.records]
    assert [(one["outcome"], one["changed"]) for one in records] == 2 * [
        ("allowed", "ask"),
        ("answered", "ask, answer"),
    ]
    assert [one["tokens"] for one in records] == [5, 5, None, None]


async def test_a_changed_answer_must_fit_the_form() -> None:
    """It is checked like one of the user, and the request fails if it does not."""

    async def spoil(ask: Ask, answer: AskAnswer) -> AskAnswer:
        del ask, answer
        return ElicitResult(action="accept", content={"nonsense": 1})

    options: ClientOptions = {"on_elicit": lambda _: {"value": "Ada"}, "policy": AskPolicy(review_answer=spoil)}
    async with open_client(asking_server(), **options) as client:
        with pytest.raises(Exception, match="nonsense: the form has no such field"):
            await client.call_tool("elicit")


@pytest.mark.parametrize("decision", ["yes", 1, ListRootsResult(roots=())])
async def test_a_decision_that_is_none_lets_nothing_pass(decision: object) -> None:
    """A text is true in Python, and could have been ``"no"``."""

    async def decide(_: Ask) -> Any:
        return decision

    options: ClientOptions = {"on_sample": never_asked, "policy": AskPolicy(review_ask=decide)}
    async with open_client(asking_server(), **options) as client:
        with pytest.raises(TypeError, match="review_ask must return True, False or None, or a CreateMessageReq"):
            await client.call_tool("sample")


@BOTH
async def test_declined_is_not_reviewed_again(revision: Revision) -> None:
    """The user has decided, and nothing of theirs goes to the server."""

    async def never(ask: Ask, answer: AskAnswer) -> bool:
        raise AssertionError((ask, answer))

    policy = AskPolicy(review_answer=never)
    options: ClientOptions = {"on_elicit": lambda _: "cancel", "policy": policy, "revision": revision}
    async with open_client(asking_server(), **options) as client:
        assert await said(client, "elicit") == "cancel"


# How often, and how much.


@BOTH
async def test_a_server_may_ask_so_often_in_a_time(
    revision: Revision, autojump_clock: trio.testing.MockClock, audited: pytest.LogCaptureFixture
) -> None:
    """And is told when it may ask again."""
    del autojump_clock
    options: ClientOptions = {
        "on_sample": lambda _: "4",
        "policy": AskPolicy(rate="2/minute"),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        assert [await said(client, "sample") for _ in range(2)] == ["4", "4"]
        refused = "-1: sampling/createMessage was refused: there may be 2/minute; try again in 30 s (rate)"
        assert await said(client, "sample") == refused
        await trio.sleep(30)
        assert await said(client, "sample") == "4"
        assert await said(client, "sample") == refused
    assert [outcome[2:] for outcome in outcomes(audited)].count(("refused", "rate")) == 2


@BOTH
async def test_a_server_may_ask_so_often_in_all(revision: Revision) -> None:
    """Of whatever kind, and an elicitation is declined."""
    options: ClientOptions = {
        "on_sample": lambda _: "4",
        "on_elicit": lambda _: {"value": "Ada"},
        "policy": AskPolicy(max_asks=2),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        assert await said(client, "sample") == "4"
        assert await said(client, "elicit") == "Ada"
        assert (
            await said(client, "sample") == "-1: sampling/createMessage was refused: there were 2 asks (max_asks)"
        )
        assert await said(client, "elicit") == "decline"


@BOTH
async def test_tokens_are_lowered_and_counted(revision: Revision) -> None:
    """What was refused costs nothing; what was granted counts whether it was used or not."""
    granted: list[int] = []
    decisions = iter([True, False, True, True])

    async def decide(ask: Ask) -> bool:
        assert ask.tokens == sum(granted) + 40 if len(granted) == 1 else True
        return next(decisions)

    def model(params: CreateMessageRequestParams) -> str:
        granted.append(params.max_tokens)
        return "4"

    policy = AskPolicy(max_tokens_per_ask=40, max_tokens=100, review_ask=decide)
    options: ClientOptions = {"on_sample": model, "policy": policy, "revision": revision}
    async with open_client(asking_server(), **options) as client:
        answers = [await said(client, "sample", tokens=1_000) for _ in range(5)]
    assert granted == [40, 40, 20]
    assert answers[1] == "-1: the user rejected sampling/createMessage"
    assert answers[4] == "-1: sampling/createMessage was refused: all 100 tokens were granted (max_tokens)"


@pytest.mark.parametrize("tokens", [-1_000_000, -1, 0])
async def test_a_sampling_without_tokens_is_refused(tokens: int) -> None:
    """Some models take -1 or 0 for no limit. The budget does not grow by it either."""
    server = ScriptedServer(LEGACY[-1])
    asked: list[int] = []

    def on_sample(params: CreateMessageRequestParams) -> str:
        asked.append(params.max_tokens)
        return "4"

    options: ClientOptions = {
        "on_sample": on_sample,
        "policy": AskPolicy(max_tokens=10),
        "revision": LEGACY[-1],
    }
    async with open_client(server, **options):
        refused = await server.ask("sampling/createMessage", {**SAMPLING, "maxTokens": tokens})
        assert refused["error"]["code"] == -1
        assert "maxTokens must be at least 1 (max_tokens_per_ask)" in refused["error"]["message"]
        assert "result" in await server.ask("sampling/createMessage", SAMPLING, id=2)
        assert (await server.ask("sampling/createMessage", SAMPLING, id=3))["error"]["code"] == -1
    assert asked == [10]


@BOTH
async def test_so_many_asks_wait_at_once(revision: Revision) -> None:
    """A person is not shown a hundred questions."""
    waiting, go_on = trio.Event(), trio.Event()

    async def decide(_: Ask) -> bool:
        waiting.set()
        await go_on.wait()
        return True

    policy = AskPolicy(max_pending=1, review_ask=decide)
    answers: list[str] = []
    options: ClientOptions = {"on_sample": lambda _: "4", "policy": policy, "revision": revision}
    async with open_client(asking_server(), **options) as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            answers.append(await said(client, "sample"))

        nursery.start_soon(ask)
        await waiting.wait()
        await ask()
        go_on.set()
    assert answers == ["-1: sampling/createMessage was refused: 1 asks are open (max_pending)", "4"]


# Time, and cancellation.


@BOTH
async def test_a_decision_that_never_comes_is_a_refusal(
    revision: Revision, autojump_clock: trio.testing.MockClock, audited: pytest.LogCaptureFixture
) -> None:
    """client/elicitation: cancel is for who has made no choice."""
    del autojump_clock
    ended: list[float] = []

    async def never(_: Ask) -> bool:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time() - began)

    options: ClientOptions = {
        "on_sample": never_asked,
        "on_elicit": never_asked,
        "policy": AskPolicy(review_ask=never, ask_timeout=20),
        "revision": revision,
    }
    async with open_client(asking_server(), **options) as client:
        began = trio.current_time()
        refused = "-1: sampling/createMessage was refused: nobody decided within 20 s (ask_timeout)"
        assert await said(client, "sample") == refused
        assert await said(client, "elicit") == "cancel"
    assert ended == [20, 40]
    assert [outcome[2:] for outcome in outcomes(audited)] == 2 * [("refused", "ask_timeout")]


@BOTH
async def test_a_cancelled_ask_ends_its_callbacks(
    subtests: pytest.Subtests,
    revision: Revision,
    autojump_clock: trio.testing.MockClock,
    audited: pytest.LogCaptureFixture,
) -> None:
    """The caller gives its request up, and nobody is asked any more; a nursery raises that in a group."""
    del autojump_clock

    async def check(in_nursery: bool, when: str) -> None:
        ended: list[str] = []

        async def wait(now: str) -> bool:
            if now == when:
                try:
                    if in_nursery:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(trio.sleep_forever)
                    await trio.sleep_forever()
                finally:
                    ended.append(now)
            return True

        async def model(_: CreateMessageRequestParams) -> str:
            await wait("meanwhile")
            return "4"

        async def after(ask: Ask, answer: AskAnswer) -> bool:
            del ask, answer
            return await wait("after")

        policy = AskPolicy(review_ask=lambda _: wait("before"), review_answer=after)
        async with open_client(asking_server(), on_sample=model, policy=policy, revision=revision) as client:
            with trio.move_on_after(5) as scope:
                await client.call_tool("sample")
            assert scope.cancelled_caught
            await trio.testing.wait_all_tasks_blocked()
            assert ended == [when]
            assert await said(client, "roots") != ""
        assert [outcome[2:] for outcome in outcomes(audited)][-1] == ("cancelled", None)

    for in_nursery in (False, True):
        for when in ("before", "meanwhile", "after"):
            with subtests.test(in_nursery=in_nursery, when=when):
                await check(in_nursery, when)


async def test_a_server_takes_its_question_back(
    autojump_clock: trio.testing.MockClock, audited: pytest.LogCaptureFixture
) -> None:
    """The person is asked no more, and the tokens are free again. Only in the legacy era can a server do that."""
    del autojump_clock
    server = Server("hasty")

    @server.tool
    async def hurry(ctx: Context) -> str:
        with trio.move_on_after(3):
            return (await ctx.sample("2 + 2?", max_tokens=10)).text
        return "gone"

    ended: list[float] = []
    decisions = iter([trio.sleep_forever, trio.lowlevel.checkpoint])

    async def decide(_: Ask) -> bool:
        began = trio.current_time()
        try:
            await next(decisions)()
        finally:
            ended.append(trio.current_time() - began)
        return True

    options: ClientOptions = {
        "on_sample": lambda params: str(params.max_tokens),
        "policy": AskPolicy(review_ask=decide, max_tokens=10),
        "revision": LEGACY[-1],
    }
    async with open_client(server, **options) as client:
        assert await said(client, "hurry") == "gone"
        assert await said(client, "hurry") == "10"
    assert ended == [3, 0]
    assert [outcome[2:] for outcome in outcomes(audited)] == [
        ("cancelled", None),
        ("allowed", None),
        ("answered", None),
    ]


async def test_a_failure_is_recorded_without_its_text(audited: pytest.LogCaptureFixture) -> None:
    """What a handler says can be the user's."""

    def fail(_: object) -> str:
        raise ValueError("the user's secret")

    async with open_client(asking_server(), on_sample=fail, policy=AskPolicy()) as client:
        with pytest.raises(ValueError, match="secret"):
            await client.call_tool("sample")
    assert [outcome[2:] for outcome in outcomes(audited)] == [("allowed", None), ("failed", None)]
    assert "secret" not in audited.text.split("trio_mcp.audit")[-1]


# A model that calls tools itself, and groups.


@BOTH
async def test_an_agent_that_answers_by_asking_more_is_bounded(revision: Revision) -> None:
    """The handler of sampling calls the tool that samples, and so on: a limit of the policy ends it."""
    calls = 0

    async def agent(_: CreateMessageRequestParams) -> str:
        nonlocal calls
        calls += 1
        return f"({await said(client, 'sample')})"

    options: ClientOptions = {"on_sample": agent, "policy": AskPolicy(max_pending=3), "revision": revision}
    async with open_client(asking_server(), **options) as client:
        answer = await said(client, "sample")
    assert answer == "(((-1: sampling/createMessage was refused: 3 asks are open (max_pending))))"
    assert calls == 3


@BOTH
async def test_servers_of_a_group_have_policies_by_name(
    revision: Revision, audited: pytest.LogCaptureFixture
) -> None:
    """Who is not named may ask nothing; the records name the server as the group does."""
    servers = {name: asking_server("evil twin") for name in ("orders", "news", "other")}
    async with open_clients(
        servers,
        policy={"orders": AskPolicy(), "news": AskPolicy(allow=["form"])},
        on_sample=lambda server, _: f"{server}: 4",
        on_elicit=lambda server, _: {"value": server},
        revision=revision,
    ) as group:
        await group.wait_ready()
        assert await said(group["orders"], "sample") == "orders: 4"
        assert await said(group["news"], "elicit") == "news"
        assert "has not declared sampling" in await said(group["news"], "sample")
        assert "has not declared sampling" in await said(group["other"], "sample")
    assert {outcome[0] for outcome in outcomes(audited)} == {"orders", "news"}


async def test_a_server_that_is_opened_again_does_not_begin_again(autojump_clock: trio.testing.MockClock) -> None:
    """By crashing, a server would get a new budget."""
    del autojump_clock

    class Again:
        """Serves with a server that ends after its first session."""

        times = 0

        async def serve_channel(self, channel: Any, **named: Any) -> None:
            Again.times += 1
            if Again.times == 1:
                with trio.move_on_after(10):
                    await inner.serve_channel(channel, **named)
                return
            await inner.serve_channel(channel, **named)

    inner = asking_server()

    def model(server: str, params: CreateMessageRequestParams) -> str:
        del server, params
        return "4"

    options: Any = {"on_sample": model, "policy": AskPolicy(max_asks=1), "retry": True}
    async with open_clients({"a": Again()}, revision=LEGACY[-1], **options) as group:
        await group.wait_ready()
        assert await said(group["a"], "sample") == "4"
        async for state in group.changes():
            if state.status == "ready" and Again.times == 2:
                break
        assert (await said(group["a"], "sample")).startswith("-1: ")


async def test_a_policy_for_no_server_of_the_group_is_refused() -> None:
    """A misspelt name would be a server without its policy."""
    with pytest.raises(ValueError, match="policy: no such server: odrers"):
        async with open_clients({"orders": asking_server()}, policy={"odrers": AskPolicy()}):
            raise AssertionError


# What a policy is made of.


def test_a_policy_says_what_is_wrong_with_it(subtests: pytest.Subtests) -> None:
    """Before anything is opened."""
    rows: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"allow": "sampling"}, TypeError, "allow must be several of sampling, form, url, roots"),
        ({"allow": ["forms"]}, ValueError, "allow: 'forms' is none of sampling, form, url, roots"),
        ({"rate": "often"}, ValueError, "rate must be a rate such as '10/minute'.* not 'often'"),
        ({"rate": 3}, TypeError, "rate must be a rate such as '10/minute'.* not 3"),
        ({"max_asks": -1}, ValueError, "max_asks must be at least 0, not -1"),
        ({"max_pending": 0}, ValueError, "max_pending must be at least 1, not 0"),
        ({"max_tokens_per_ask": 0}, ValueError, "max_tokens_per_ask must be at least 1, not 0"),
        ({"max_tokens": 1.5}, TypeError, "max_tokens must be a whole number, not 1.5"),
        ({"ask_timeout": 0}, ValueError, "ask_timeout must be more than 0, not 0"),
        ({"review_ask": True}, TypeError, "review_ask must be an async function, not True"),
    ]
    for given, error, text in rows:
        with subtests.test(given=given, error=error, text=text), pytest.raises(error, match=text):
            AskPolicy(**given)


async def test_only_a_policy_is_one() -> None:
    """A dict might be taken for that of a group."""
    wrong: Any = {"asking": AskPolicy()}
    with pytest.raises(TypeError, match=r"policy must be an AskPolicy, not \{'asking'"):
        async with open_client(asking_server(), policy=wrong):
            raise AssertionError
