"""Mistakes with tasks, skills, apps and other extensions: the error says what was found, and what to write."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_mcp import (
    AppView,
    Client,
    ClientExtension,
    Context,
    LocalProtocolError,
    MemoryTaskStore,
    RemoteProtocolError,
    RequestError,
    Server,
    ServerExtension,
    SkillApproval,
    ToolError,
    open_client,
    open_sqlite_task_store,
    serve_view,
)
from trio_mcp.types import CallToolResult, TextContent

NAME = "com.example/a"
METHOD = "com.example/x"
PAGE = "<!doctype html><title>a page</title>"
SKILL = "---\nname: refunds\ndescription: Give money back.\n---\nThe body.\n"


async def serve(params: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Serve a method."""
    return {"served": True}


def says(kind: type[Exception], text: str) -> Any:
    """Expect an error with exactly this text."""
    return pytest.raises(kind, match=f"^{re.escape(text)}$")


# Extensions.


HANDLER: Any = serve


def test_what_a_server_extension_is_made_of(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ({"request_handlers": HANDLER}, "request_handlers takes a function by name in a mapping, not function"),
        (
            {"request_handlers": {METHOD: 5}},
            "request_handlers takes a function by name in a mapping, not dict of int",
        ),
        ({"open_to_all": METHOD}, "open_to_all takes str in a list, not str: write open_to_all=[...]"),
        ({"names": "id"}, "names takes str by name in a mapping, not str"),
        (
            {"revisions": "2026-07-28"},
            "revisions takes revisions in a list, such as ['2026-07-28'], not '2026-07-28'",
        ),
        ({"wrap_call": 5}, "wrap_call takes a function, not int"),
        (
            {"wrap_call": len},
            "wrap_call takes three arguments: write async def wrap(params, context, call_tool)",
        ),
        ({"tools": HANDLER}, "tools takes a function in a list, not function: write tools=[...]"),
        ({"result_types": "ab"}, "result_types takes str in a list, not str: write result_types=[...]"),
        ({"settings": 5}, "settings takes a mapping, not int"),
        (
            {"resources": ["a"]},
            "resources takes a function or str or bytes by name in a mapping, not list of str",
        ),
    ]
    for options, text in cases:
        with subtests.test(options=options), says(TypeError, text):
            ServerExtension(NAME, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"methods": ["a/b"]}, "methods takes str by name in a mapping, not list of str"),
        ({"result_types": ["a"]}, "result_types takes a function by name in a mapping, not list of str"),
        ({"request_handlers": HANDLER}, "request_handlers takes a function by name in a mapping, not function"),
    ],
)
def test_what_a_client_extension_is_made_of(options: Any, text: str) -> None:
    with says(TypeError, text):
        ClientExtension(NAME, **options)


def test_an_extension_is_called_something() -> None:
    wrong: Any = 5
    for extension in (ServerExtension, ClientExtension):
        with says(TypeError, "identifier takes str, not int"):
            extension(wrong)


def test_methods_open_to_all_may_be_given_as_the_handlers() -> None:
    extension = ServerExtension(NAME, request_handlers={METHOD: serve}, open_to_all={METHOD: serve})
    assert extension.open_to_all == (METHOD,)


def test_a_handler_that_cannot_be_called() -> None:
    wrong: Any = {METHOD: trio.sleep}
    with says(
        TypeError,
        f"sleep() serves {METHOD}, and is called with its parameters as plain JSON and the Context: "
        "write async def sleep(params, ctx: Context)",
    ):
        Server("it", extensions=[ServerExtension(NAME, request_handlers=wrong)])


async def test_a_handler_that_is_not_async(caplog: pytest.LogCaptureFixture) -> None:
    def uptime(params: object, context: object) -> Any:
        return {"seconds": 42}

    server = Server(
        "it", extensions=[ServerExtension(NAME, request_handlers={METHOD: uptime}, open_to_all=[METHOD])]
    )
    server.request_handler("com.example/y")(uptime)
    server.request_handler("com.example/z")(lambda params, context: serve(params, context))
    async with open_client(server) as client:
        for method in (METHOD, "com.example/y"):
            with pytest.raises(RequestError):
                await client.request(method)
            assert (
                f"uptime() serves {method}, and is not async: write async def uptime(params, ctx: Context)"
                in caplog.text
            )
        assert (await client.request("com.example/z"))["served"]


def wrapped(wrap: Any) -> Server:
    """Return a server with a tool, and something around its calls."""
    server = Server("it", extensions=[ServerExtension(NAME, wrap_call=wrap)])

    @server.tool
    async def add(a: int = 1) -> str:
        return str(a)

    return server


async def test_a_tool_error_around_a_call_is_read_by_the_model() -> None:
    async def closed(params: Any, context: Any, call_tool: Any) -> object:
        raise ToolError("come back on Tuesday")

    async with open_client(wrapped(closed)) as client:
        result = await client.call_tool("add")
    assert (result.is_error, result.text) == (True, "come back on Tuesday")


async def _forgets(params: Any, context: Any, call_tool: Any) -> object:
    await call_tool(params, context)
    return None


async def _returns_text(params: Any, context: Any, call_tool: Any) -> object:
    return "done"


@pytest.mark.parametrize(("wrap", "found"), [(_forgets, "nothing"), (_returns_text, "a str")])
async def test_what_wraps_a_call_returns_its_result(
    wrap: Any, found: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_client(wrapped(wrap)) as client:
        with pytest.raises(RequestError, match="internal error"):
            await client.call_tool("add")
    assert (
        f"TypeError: wrap_call returned {found}: write 'return await call_tool(params, context)', "
        "or return CallToolResult(content=...)"
    ) in caplog.text


async def test_what_wraps_a_call_need_not_be_async() -> None:
    def hands_on(params: Any, context: Any, call_tool: Any) -> object:
        return call_tool(params, context)

    async with open_client(wrapped(hands_on)) as client:
        assert (await client.call_tool("add")).text == "1"


# Skills.


def skill(base: Path, text: str | None = SKILL, name: str = "refunds") -> Path:
    """Write a skill."""
    (base / name / "references").mkdir(parents=True)
    (base / name / "references" / "GUIDE.md").write_text("a guide")
    if text is not None:
        (base / name / "SKILL.md").write_text(text)
    return base / name


def add(directory: Path, *, several: bool = False) -> Any:
    server = Server("it")
    return (server.add_skills if several else server.add_skill)(directory)


def test_directories_that_are_no_skill(tmp_path: Path) -> None:
    one = skill(tmp_path)
    none = skill(tmp_path, None, "none")
    (lower := skill(tmp_path, None, "lower")).joinpath("skill.md").write_text(SKILL)
    nowhere = tmp_path / "nowhere"
    lacks = "is no skill: there is no SKILL.md in it"
    with says(ValueError, f"{none} {lacks}"):
        add(none)
    with says(ValueError, f"{lower} {lacks}, but skill.md: rename it"):
        add(lower)
    with says(ValueError, f"{nowhere} {lacks}; nothing is there"):
        add(nowhere)
    with says(ValueError, f"{one / 'SKILL.md'} {lacks}; it is a file: write the directory of it"):
        add(one / "SKILL.md")
    with says(ValueError, f"{tmp_path} {lacks}; add_skills serves those below it"):
        add(tmp_path)
    below = "a directory with a SKILL.md"
    with says(ValueError, f"there is no skill below {one}: {below}; it is a skill itself: write add_skill"):
        add(one, several=True)
    with says(ValueError, f"there is no skill below {nowhere}: {below}; nothing is there"):
        add(nowhere, several=True)
    with says(ValueError, f"there is no skill below {none}: {below}"):
        add(none, several=True)


@pytest.mark.parametrize(
    ("frontmatter", "problem"),
    [
        ("description: x", "its frontmatter has no name, and its directory is called 'refunds'"),
        ("name: refunds", "its description must be a text of 1 to 1024 characters, not nothing"),
        ("name: refunds\ndescription: 5", "its description must be a text of 1 to 1024 characters, not an int"),
        (
            f"name: refunds\ndescription: {'x' * 1_025}",
            "its description must be a text of 1 to 1024 characters, not of 1025",
        ),
        (
            "name: refunds\ndescription: Use it: at once",
            (
                "its frontmatter is no YAML: line 3: mapping values are not allowed in this context; "
                "a text with ': ' in it needs quotes"
            ),
        ),
    ],
)
def test_frontmatter_that_breaks_a_rule(tmp_path: Path, frontmatter: str, problem: str) -> None:
    directory = skill(tmp_path, f"---\n{frontmatter}\n---\n")
    with says(ValueError, f"the skill in {directory} cannot be served: {problem}"):
        add(directory)


def test_a_resource_is_not_where_a_skill_is(tmp_path: Path) -> None:
    uri = "skill://refunds/references/GUIDE.md"
    server = Server("it")
    server.add_skill(skill(tmp_path))
    with says(ValueError, f"there is a file of a skill at '{uri}' already"):
        server.resource(uri, name="mine")(lambda: "mine")
    server.resource("skill://refunds/other", name="mine")(lambda: "mine")
    server = Server("it")
    server.resource(uri, name="mine")(lambda: "mine")
    problem = f"there is a resource at '{uri}' already: give the skill a prefix"
    with says(ValueError, problem):
        server.add_skill(tmp_path / "refunds")
    server.add_skill(tmp_path / "refunds", prefix="acme")


async def test_skills_are_asked_for_by_their_uris(tmp_path: Path) -> None:
    wrong: Any
    server = Server("it")
    server.add_skill(skill(tmp_path))
    async with open_client(server) as client:
        (found,) = await client.list_skills()
        loaded = wrong = await client.load_skill(found)
        problem = "uri takes the URI of a skill, such as skill://refunds/SKILL.md, not 'refunds'"
        for ask in (client.get_skill, client.load_skill):
            with says(ValueError, problem):
                await ask("refunds")
        with says(TypeError, "skill takes Skill(...) or str, not LoadedSkill"):
            await client.load_skill(wrong)
        with says(TypeError, "skill takes Skill(...), not LoadedSkill"):
            await client.read_skill_file(wrong, "references/GUIDE.md")
        with says(TypeError, "skill takes Skill(...), not LoadedSkill"):
            SkillApproval.of("it", wrong)
        with says(TypeError, "skill takes Skill(...), not LoadedSkill"):
            SkillApproval.of("it", found).covers("it", wrong)
        wrong = Path("references/GUIDE.md")
        with says(TypeError, f"path takes str, not {type(wrong).__name__}"):
            await client.read_skill_file(loaded.skill, wrong)
        needed = "a path from the skill's directory is needed, not the URI"
        with says(ValueError, f"{needed} 'skill://refunds/references/GUIDE.md': write 'references/GUIDE.md'"):
            await client.read_skill_file(found, "skill://refunds/references/GUIDE.md")
        with says(ValueError, f"{needed} 'skill://other/a.md'"):
            await client.read_skill_file(found, "skill://other/a.md")


# Apps.


@pytest.mark.parametrize(("given", "kind"), [("clock.html", ValueError), (PAGE, ValueError), (True, TypeError)])
def test_the_page_of_a_tool_is_a_uri(given: Any, kind: type[Exception]) -> None:
    with says(
        kind,
        f"ui takes the URI of a page, which begins with ui://, not {given!r}: "
        "register the page by add_app('ui://...', page), and write ui='ui://...'",
    ):
        Server("it").tool(ui=given)(lambda: "x")


async def test_who_may_call_a_tool_may_be_a_mapping() -> None:
    """It is a collection of its keys; nothing is looked up in it."""
    server = Server("it")
    given: Any = {"app": True}
    server.tool(visibility=given, name="more")(lambda: "x")
    async with open_client(server) as client:
        (tool,) = await client.list_tools()
    assert tool.meta == {"ui": {"visibility": ["app"]}}


async def test_what_a_view_is_made_of() -> None:
    wrong: Any
    server = Server("it")
    server.add_app("ui://a", PAGE)

    @server.tool(ui="ui://a")
    async def show() -> str:
        return "shown"

    async with open_client(server) as client:
        tools = await client.list_tools()
        page = await client.read_app(tools[0])
        given: dict[str, Any] = {"page": page}
        for wrong, text in (
            ({"page": PAGE}, "page takes AppPage(...), not str"),
            ({"tool": "show"}, "tool takes types.Tool(...), not str"),
            ({"tools": ["show"]}, "tools takes types.Tool(...) in a list, not list of str"),
            (
                {"tools": client.list_tools()},
                "tools/list asks the server: write 'async for', or await the whole list",
            ),
            ({"offers": "ui/open-link"}, "offers takes str in a list, not str: write offers=[...]"),
            ({"host": "mine"}, "host takes (str, str), not str"),
            ({"context": "dark"}, "context takes a mapping, not str"),
        ):
            with says(TypeError, text):
                AppView(**{**given, **wrong})
        with says(ValueError, "max_open_requests must be at least 1, not 0"):
            AppView(page=page, max_open_requests=0)

        view = AppView(page=page, tools=tools, offers=["ui/open-link"])
        wrong = "x"
        with says(TypeError, "arguments takes a mapping, not str"):
            view.tool_input(wrong)
        with says(TypeError, "result takes types.CallToolResult(...) or a mapping, not str"):
            view.tool_result(wrong)
        wrong = 5
        assert view.received(wrong).problem == "no message: an int is no object of JSON, and no text"
        wrong = view
        with says(TypeError, "client takes Client(...), not AppView"):
            await serve_view(wrong, wrong, {})
        hello = {"appInfo": {"name": "a", "version": "1"}, "appCapabilities": {}, "protocolVersion": "2026-01-26"}
        await serve_view(client, view, {"jsonrpc": "2.0", "id": 1, "method": "ui/initialize", "params": hello})
        wish = {"jsonrpc": "2.0", "id": 2, "method": "ui/open-link", "params": {"url": "https://example.com"}}

        def opened(ask: object) -> Any:
            return True

        with says(TypeError, "on_ask returned a bool: return a mapping, or None for an empty result"):
            await serve_view(client, view, wish, on_ask=opened)


async def test_a_view_takes_results_as_they_come() -> None:
    server = Server("it")
    server.add_app("ui://a", PAGE)
    async with open_client(server) as client:
        view = AppView(page=await client.read_app("ui://a"))
    view.tool_input({})
    view.tool_result(CallToolResult(content=[TextContent(text="noon")]))
    hello: dict[str, Any] = {"appInfo": {"name": "a", "version": "1"}, "appCapabilities": {}}
    view.received({"jsonrpc": "2.0", "id": 1, "method": "ui/initialize", "params": hello})
    sent = view.received({"jsonrpc": "2.0", "method": "ui/notifications/initialized"}).send
    assert sent[1]["params"] == {"content": [{"type": "text", "text": "noon"}]}


# Tasks.


def jobs() -> Server:
    """Return a server with a tool whose calls are tasks, and ask something."""
    server = Server("jobs")

    @server.tool(task="required", poll=0.1)
    async def build(ctx: Context) -> str:
        return "kept" if await ctx.elicit("Keep it?", bool) else "dropped"

    return server


@pytest.mark.parametrize("begin", [Client.start_task, Client.resume_task])
async def test_older_revisions_have_no_such_tasks(begin: Callable[[Client, str], Any]) -> None:
    async with open_client(jobs(), revision="2025-06-18") as client:
        with says(LocalProtocolError, "2025-06-18, which the server speaks, has no such tasks"):
            async with begin(client, "build"):
                pass
        text = "build is served as a task only: 2025-06-18 has no io.modelcontextprotocol/tasks [-32601]"
        with says(RequestError, text):
            await client.call_tool("build")
    async with open_client(Server("none"), revision="2025-11-25") as client:
        with says(LocalProtocolError, "the server has declared no tasks, which it has to in 2025-11-25"):
            async with begin(client, "build"):
                pass
    async with open_client(jobs(), revision="2025-11-25", tasks="never") as client:
        with says(RequestError, "build is served as a task only, and the request has no task [-32601]"):
            await client.call_tool("build")


def test_tasks_are_not_served_by_two() -> None:
    server = Server("it", extensions=[ServerExtension("io.modelcontextprotocol/tasks")])
    with says(ValueError, "two extensions claim the identifier io.modelcontextprotocol/tasks"):
        server.tool(task="optional")(serve)


async def test_a_task_that_is_left_and_resumed_by_a_client_that_answers_nothing() -> None:
    async with jobs().open() as running:
        async with open_client(running, on_elicit=lambda question: {"value": True}) as client:
            async with client.start_task("build") as task:
                with says(TypeError, "updates() waits for a task: write 'async for state in task.updates()'"):
                    list(task.updates())
                with says(
                    TypeError, "what updates() returns is not awaited: write 'async for state in task.updates()'"
                ):
                    await task.updates()
                id = task.detach()
            assert id is not None
            if not task.is_over:
                left = f"the block of this task was left; resume_task({id!r}) goes on with it"
                with says(trio.ClosedResourceError, left):
                    await task.result()
        async with open_client(running) as client:
            with says(
                RemoteProtocolError,
                "tasks/get: inputRequests.1: this client has no method elicitation/create; "
                "open_client(on_elicit=...) lets it answer",
            ):
                async with client.resume_task(id) as task:
                    await task.result()


async def test_a_task_that_is_listened_to_and_is_none() -> None:
    text = "this server does not notify changes of: the task abc, which it does not have [-32601]"
    async with open_client(jobs()) as client:
        with says(RequestError, text):
            async with client.listen(tasks=["abc"]):
                raise AssertionError("there is nothing to wait for")


async def test_a_file_of_tasks_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").write_text("no database" * 100)
    for path, text in (
        (tmp_path / "tasks.db", "file is not a database"),
        (tmp_path, "unable to open database file"),
    ):
        with says(sqlite3.DatabaseError, f"{path}: {text}"):
            async with open_sqlite_task_store(path):
                pass


@pytest.mark.parametrize(
    ("store", "found"),
    [
        (
            open_sqlite_task_store("tasks.db"),
            "_AsyncGeneratorContextManager: write 'async with ... as it' around it, and task_store=it",
        ),
        (MemoryTaskStore, "the class MemoryTaskStore"),
        ("tasks.db", "str"),
    ],
)
def test_what_keeps_tasks_is_open(store: Any, found: str) -> None:
    with says(TypeError, f"task_store takes TaskStore(...) or a function, not {found}"):
        Server("it", task_store=store)
