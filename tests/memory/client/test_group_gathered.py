"""What is gathered of several servers, and what is brought back to the right one: lists, calls, changes, questions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import Any

import pytest
import trio
import trio.testing
from http_mcp import HttpCall, McpScript
from shared.client_group_gathered import ENOUGH, make_server, make_tool

from trio_mcp import (
    Client,
    ClientGroup,
    Context,
    GroupEvent,
    HttpServerParameters,
    LocalProtocolError,
    RequestError,
    ResourceUpdated,
    Resynced,
    Server,
    ToolsListChanged,
    open_clients,
    user_message,
)
from trio_mcp.types import (
    CreateMessageRequestParams,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    LoggingMessageNotificationParams,
)


def full_server(name: str) -> Server[None]:
    server = make_server(name, "look")

    @server.prompt
    async def greet(who: str) -> str:
        return f"{name} greets {who}"

    @server.resource("note://today")
    async def today() -> str:
        return f"today at {name}"

    @server.resource("note://{day}")
    async def note(day: str) -> str:
        return f"{day} at {name}"

    @server.completion("greet", "who")
    async def who(value: str, arguments: Mapping[str, str]) -> list[str]:
        del arguments
        return [f"{value}@{name}"]

    return server


# Lists.


async def test_lists_are_of_all_servers_in_their_order() -> None:
    """Each item says whose it is; tools and prompts have a name of the group."""
    servers = {"b": full_server("b"), "a": full_server("a"), "off": {"disabled": True}}
    async with open_clients(servers) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            tools = await group.list_tools()
            assert [(each.server, each.name, each.item.name) for each in tools] == [
                ("b", "b_look", "look"),
                ("a", "a_look", "look"),
            ]
            assert len(tools) == 2
            assert tools[1].name == "a_look"
            assert [each.name for each in tools[:1]] == ["b_look"]
            assert tools.failures == {}
            assert [each.name for each in await group.list_prompts()] == ["b_greet", "a_greet"]
            resources = await group.list_resources()
            assert [(each.server, each.name) for each in resources] == [
                ("b", "note://today"),
                ("a", "note://today"),
            ]
            templates = await group.list_resource_templates()
            assert [(each.server, each.name) for each in templates] == [
                ("b", "note://{day}"),
                ("a", "note://{day}"),
            ]


async def test_an_entry_has_what_its_item_has() -> None:
    """Whoever gives the tools of a group to a model needs their descriptions and schemas."""
    async with open_clients({"a": full_server("a")}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            (tool,), (prompt,) = await group.list_tools(), await group.list_prompts()
            (resource,), (template,) = await group.list_resources(), await group.list_resource_templates()
            assert tool.input_schema == tool.item.input_schema
            for entry in (tool, prompt, resource, template):
                assert entry.description == entry.item.description
                assert entry.title == entry.item.title
                assert pickle.loads(pickle.dumps(entry)) == copy.copy(entry) == entry
                with pytest.raises(AttributeError, match="colour"):
                    _ = entry.colour
            assert tool.name == "a_look"
            assert resource.uri == resource.name


async def test_a_tools_own_name_is_not_its_name_in_the_group() -> None:
    """The error shows how it would begin; without a server there is nothing to show."""
    hint = "; a name begins with its server's, such as 'b_look'"
    rows: list[tuple[dict[str, Server[None]], str]] = [({"b": full_server("b")}, hint), ({}, "")]
    for servers, hint in rows:
        async with open_clients(servers) as group:
            with trio.fail_after(ENOUGH):
                await group.wait_settled()
            with pytest.raises(LocalProtocolError) as caught:
                await group.call_tool("look")
            assert str(caught.value) == f"no server of this group has the tool 'look'{hint}"


async def test_a_server_without_the_method_has_nothing_and_is_not_missing() -> None:
    """A tool server has no prompts."""
    servers = {"tools": make_server("tools", "look"), "full": full_server("full")}
    async with open_clients(servers, revision="2025-11-25") as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            assert await group["tools"].list_prompts() == []
            prompts = await group.list_prompts()
            assert [each.name for each in prompts] == ["full_greet"]
            assert prompts.failures == {}


# Calls.


async def test_calls_are_brought_to_their_server() -> None:
    """By the name in the group, or by the server's name."""
    async with open_clients({"a": full_server("a"), "b": full_server("b")}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            assert (await group.call_tool("b_look")).text == "look of b"
            assert await group.call_tool("a_look", returns=str) == "look of a"
            prompt = await group.get_prompt("b_greet", {"who": "Ada"})
            assert prompt.messages[0] == user_message("b greets Ada")
            read = await group.read_resource("a", "note://today")
            assert getattr(read.contents[0], "text", None) == "today at a"
            (listed,) = [each for each in await group.list_prompts() if each.server == "b"]
            completed = await group.complete("b", listed.item, "who", "x")
            assert completed.completion.values == ("x@b",)


@pytest.mark.parametrize("method", ["call_tool", "get_prompt", "read_resource"])
def test_a_group_takes_every_option_of_its_clients_call(method: str) -> None:
    of_group, of_client = (
        {
            each.name
            for each in signature(getattr(kind, method)).parameters.values()
            if each.kind is each.KEYWORD_ONLY
        }
        for kind in (ClientGroup, Client)
    )
    assert of_client
    assert of_group == of_client


async def test_a_caller_may_answer_the_questions_of_a_call_by_hand() -> None:
    """`input_required="return"`, and what is brought with the next request: over a group as over a client."""
    server = full_server("a")

    async def confirmed(ctx: Context[Any]) -> str:
        return f"you said {(await ctx.elicit('sure?', bool)).value}"

    server.tool(name="ask")(confirmed)
    server.prompt(name="ask")(confirmed)
    server.resource("note://ask")(confirmed)

    def never_asked(server: str, params: ElicitRequestParams) -> ElicitResult:
        raise AssertionError(f"{server} has asked {params}")

    async with open_clients({"a": server}, on_elicit=never_asked) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            for call in (
                partial(group.call_tool, "a_ask", {}),
                partial(group.get_prompt, "a_ask", {}),
                partial(group.read_resource, "a", "note://ask"),
            ):
                first: Any = await call(input_required="return")
                assert isinstance(first, InputRequiredResult)
                (name,) = first.input_requests or {}
                answer = ElicitResult(action="accept", content={"value": True})
                last: Any = await call(
                    input_required="return",
                    input_responses={name: answer},
                    request_state=first.request_state,
                )
                assert "you said True" in repr(last)


async def test_marked_names_are_brought_to_their_server_before_and_after_listing() -> None:
    """Names that models' APIs refuse, and names that could be another server's."""
    odd = ("dir.list", "y" * 80, "b_look")
    servers = {"a": make_server("a", *odd), "a_b": make_server("a_b", "look")}
    async with open_clients(servers) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            names = [each.name for each in await group.list_tools()]
            assert len(set(names)) == 4
            for name, own in zip(names, (*odd, "look"), strict=True):
                owner = "a_b" if own == "look" else "a"
                assert (await group.call_tool(name)).text == f"{own} of {owner}"
    async with open_clients(servers) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            assert (await group.call_tool(names[0])).text == "dir.list of a"  # it lists by itself


async def test_the_prefix_can_be_chosen() -> None:
    """With none, the first server keeps the plain names."""
    servers = {"a": make_server("a", "look", "go"), "b": make_server("b", "look")}
    async with open_clients(servers, prefix=lambda _: "") as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            names = [each.name for each in await group.list_tools()]
            assert names[:2] == ["look", "go"]
            assert names[2].startswith("look_")
            assert [(await group.call_tool(name)).text for name in names] == ["look of a", "go of a", "look of b"]


# Changes.


async def test_changes_say_which_server_has_them() -> None:
    """Of lists and of resources; those of one server in their order."""
    a, b = full_server("a"), full_server("b")
    async with open_clients({"a": a, "b": b}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            async with group.listen(tools_list_changed=True, resources={"b": ["note://today"]}) as events:
                a.tool(name="more")(make_tool())
                assert await anext(events) == GroupEvent("a", ToolsListChanged())
                await b.resource_updated("note://today")
                assert await anext(events) == GroupEvent("b", ResourceUpdated("note://today"))
                assert events.refusals == {}
            with pytest.raises(trio.ClosedResourceError):
                await anext(events)


async def test_a_server_that_becomes_ready_later_is_listened_to_and_reported() -> None:
    """What it offers is new to every listener."""
    late, go = make_server("late", "x"), trio.Event()

    class Late:
        async def serve_channel(self, channel: Any, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            await go.wait()
            await late.serve_channel(channel)

    async with open_clients({"early": make_server("early", "y"), "late": Late()}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready("early")
            async with group.listen(tools_list_changed=True, resources_list_changed=True) as events:
                go.set()
                assert await anext(events) == GroupEvent("late", Resynced("the server has become ready"))
                late.tool(name="more")(make_tool())
                assert await anext(events) == GroupEvent("late", ToolsListChanged())


async def test_a_slow_listener_loses_no_server_and_no_more_than_order() -> None:
    """One `Resynced` stands for what found no room, and the other server's changes stay."""
    a, b = full_server("a"), full_server("b")
    uris = [f"note://{day}" for day in range(4)]
    async with open_clients({"a": a, "b": b}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            async with group.listen(tools_list_changed=True, resources={"a": uris}, max_events=3) as events:
                b.tool(name="more")(make_tool())
                for uri in uris:
                    await a.resource_updated(uri)
                await trio.testing.wait_all_tasks_blocked()
                got = [await anext(events), await anext(events)]
                assert sorted(event.server for event in got) == ["a", "b"]
                (of_a,) = [event.change for event in got if event.server == "a"]
                assert of_a == Resynced("too many changes waited for the listener")


async def test_a_group_in_which_nobody_notifies_is_an_error() -> None:
    """As of one client: nothing would ever come. A server that is not ready yet may still grant it."""

    async def refuse(call: HttpCall) -> None:
        await call.answer(b"", 410, None)

    gone = HttpServerParameters("http://localhost/mcp", app=McpScript(refuse))
    async with open_clients({"a": make_server("a", "x"), "b": Server("b"), "gone": gone}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_settled()
            assert group.states["gone"].status == "failed"
            with pytest.raises(
                RequestError, match="no server of the group notifies of these changes: a: this"
            ) as caught:
                async with group.listen(prompts_list_changed=True):
                    raise AssertionError("nothing is notified")
            assert caught.value.code == -32601
            with pytest.raises(RequestError):
                async with group.listen(resources={"a": ["note://x"]}):
                    raise AssertionError("nothing is notified")
            async with group.listen(tools_list_changed=True):
                pass
            group.restart("gone")
            async with group.listen(prompts_list_changed=True) as events:
                assert set(events.refusals) == {"a", "b"}


async def test_a_server_that_refuses_is_no_reason_not_to_listen() -> None:
    """It is named, with its reason."""

    async def refuse(message: Any, call_next: Any) -> Mapping[str, Any] | None:
        if message.method == "subscriptions/listen":
            raise RequestError(-32602, "not here")
        result: Mapping[str, Any] | None = await call_next(message)
        return result

    grumpy, good = Server("grumpy", middleware=[refuse]), make_server("good", "x")
    async with open_clients({"grumpy": grumpy, "good": good}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            async with group.listen(tools_list_changed=True) as events:
                assert {name: str(error) for name, error in events.refusals.items()} == {
                    "grumpy": "not here [-32602]"
                }
                good.tool(name="more")(make_tool())
                assert await anext(events) == GroupEvent("good", ToolsListChanged())


async def test_listening_ends_with_the_group() -> None:
    """In an orderly way, for a task that outlives the block."""
    got: list[GroupEvent] = []

    async def listen(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC114 - started below
        async with group.listen(tools_list_changed=True) as events:
            task_status.started()
            async for event in events:
                got.append(event)

    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery, open_clients({"a": make_server("a", "x")}) as group:
            await group.wait_ready()
            await nursery.start(listen)
    assert got == []


async def test_listening_to_no_change_or_no_server_is_an_error() -> None:
    """Before anything is sent."""
    async with open_clients({"a": make_server("a", "x")}) as group:
        with pytest.raises(ValueError, match="nothing to listen to"):
            group.listen()
        with pytest.raises(ValueError, match="max_events"):
            group.listen(tools_list_changed=True, max_events=0)
        with pytest.raises(KeyError, match="there is no server 'b'"):
            group.listen(resources={"b": ["x://y"]})
        with pytest.raises(TypeError, match="resources"):
            group.listen(resources={"a": "x://y"})


# Questions.


def asking_server(name: str) -> Server[None]:
    server: Server[None] = Server(name)

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.info(f"asking from {name}")
        answer = await ctx.elicit("Who?", str)
        said = await ctx.sample("Think", max_tokens=5)
        roots = await ctx.list_roots()
        return f"{answer.value}, {said.text}, {roots[0].uri}"

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_handlers_get_the_name_of_the_server_that_asks(revision: str) -> None:
    """One handler for all of them; in both eras, plain or async."""
    logged: list[tuple[str, object]] = []
    changed: list[str] = []
    framed: set[str] = set()

    async def on_elicit(server: str, params: ElicitRequestParams) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        (field,) = getattr(params, "requested_schema").properties  # noqa: B009 - it is a form
        return {field: f"for {server}"}

    def on_sample(server: str, params: CreateMessageRequestParams) -> str:
        assert params.max_tokens == 5
        return f"thought for {server}"

    def on_log(server: str, message: LoggingMessageNotificationParams) -> None:
        logged.append((server, message.data))

    servers = {"a": asking_server("a"), "b": asking_server("b")}
    async with open_clients(
        servers,
        revision=revision,
        on_elicit=on_elicit,
        on_sample=on_sample,
        on_log=on_log,
        on_frame=lambda server, _way, _data: framed.add(server),
        on_tools_list_changed=changed.append,
        roots=lambda server: [f"file:///home/{server}"],
        server_options={"b": {"on_sample": lambda _: "thought by b alone"}},
    ) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            for client in group.clients.values():
                await client.set_log_level("info")
            assert (await group.call_tool("a_ask")).text == "for a, thought for a, file:///home/a"
            assert (await group.call_tool("b_ask")).text == "for b, thought by b alone, file:///home/b"
            assert {server for server, _ in logged} == {"a", "b"}
            assert all(data == f"asking from {server}" for server, data in logged)
            assert framed == {"a", "b"}
            await trio.testing.wait_all_tasks_blocked()
            changed.clear()
            servers["b"].tool(name="more")(make_tool())
            while not changed:
                await trio.testing.wait_all_tasks_blocked()
            assert changed == ["b"]


async def test_roots_that_are_given_once_are_the_roots_of_all() -> None:
    """An iterator, too, is read for all of them."""
    servers = {"a": asking_server("a"), "b": asking_server("b")}
    async with open_clients(
        servers, roots=iter(["file:///x"]), on_elicit=lambda _, __: {"value": "v"}, on_sample=lambda _, __: "s"
    ) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            for name in servers:
                assert (await group.call_tool(f"{name}_ask")).text == "v, s, file:///x"
