"""Records of a wire: what is in them, what is not, and their replay as either side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import pytest
import trio
import trio.testing

from trio_mcp import Client, Context, HttpServerParameters, McpASGI, Revision, Server, open_client
from trio_mcp.testing import (
    RecordedFrame,
    Recorder,
    Recording,
    ScriptedPeer,
    ScriptMismatch,
    assert_nothing_left,
    replay_client,
    replay_server,
    scripted_client,
    scripted_server,
)

FrameDirection: TypeAlias = Literal["sent", "received"]


def hotel(price: int = 90) -> Server[Any]:
    server: Server[Any] = Server("hotel", version="1")

    @server.tool
    async def book(nights: int, *, ctx: Context[Any]) -> str:
        await ctx.report_progress(1, 2)
        if not await ctx.elicit(f"{nights} nights for {nights * price}?", bool):
            return "not booked"
        await trio.sleep(1)
        return f"{nights} nights"

    @server.tool
    async def rest(seconds: float) -> float:
        await trio.sleep(seconds)
        return seconds

    @server.tool
    def login(user: str, password: str, pin: int) -> dict[str, Any]:
        return {"accessToken": "t0ps3cret", "user": user, "cookies": ["c00kie"], "left": None}

    return server


def agree(_: object) -> dict[str, bool]:
    return {"value": True}


async def book_and_rest(client: Client) -> None:
    """Do what is recorded, and done again with the record of a server."""
    await client.ping() if not client.revision.is_modern else None
    result = await client.call_tool("book", {"nights": 2}, on_progress=lambda _: None)
    assert result.text == "2 nights"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "rest", {"seconds": 3})
        await trio.sleep(0.5)
        nursery.start_soon(client.call_tool, "rest", {"seconds": 1})


async def stay(recorder: Recorder, revision: str) -> None:
    """Be the client that is recorded."""
    options: Any = {"on_elicit": agree, "revision": revision, "on_frame": recorder}
    async with open_client(hotel(), **options) as client:
        await book_and_rest(client)


REVISIONS = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])


@REVISIONS
async def test_a_record_is_replayed_as_the_client(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """The same server answers as it did: questions, states, progress and all."""
    recorder = Recorder()
    await stay(recorder, revision)
    with assert_nothing_left():
        await replay_client(recorder.recording, hotel())


@REVISIONS
async def test_a_server_that_answers_otherwise_is_found(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """With the message, and what is different in it."""
    recorder = Recorder()
    await stay(recorder, revision)
    with pytest.raises(ScriptMismatch, match="differs") as caught:
        await replay_client(recorder.recording, hotel(price=100))
    (difference,) = caught.value.differences
    assert '"2 nights for 180?"' in difference
    assert '"2 nights for 200?"' in difference
    await replay_client(recorder.recording, hotel(price=100), ignoring=["params.message"])


@REVISIONS
async def test_a_record_is_replayed_as_the_server(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """The same client gets the same answers, without the server."""
    recorder, again = Recorder(), Recorder()
    await stay(recorder, revision)
    recording = recorder.recording
    with assert_nothing_left():
        async with replay_server(recording) as channel:
            options: Any = {"on_elicit": agree, "revision": revision, "on_frame": again}
            async with open_client(channel, **options) as client:
                await book_and_rest(client)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("replay_as", ["client", "server"])
async def test_a_task_is_looked_at_when_it_has_changed(
    revision: str, replay_as: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A client that was recorded has waited between its looks, and so must its replay."""

    def archive() -> Server[Any]:
        server: Server[Any] = Server("archive")

        @server.tool(task="optional", poll=0.7)
        async def pack(ctx: Context[Any]) -> str:
            async with ctx.progress(total=3) as progress:
                for _ in range(3):
                    await trio.sleep(10)
                    await progress.advance()
            await trio.sleep(5)
            answer = await ctx.elicit("Keep the parts?", bool)
            await trio.sleep(10)
            return answer.action

        return server

    recorder = Recorder()
    options: Any = {"on_elicit": agree, "revision": revision, "tasks": "always"}
    async with open_client(archive(), on_frame=recorder, **options) as client:
        await client.list_tools()
        await trio.sleep(40)  # what was waited for before a task is not waited for again
        async with client.start_task("pack") as task:
            assert (await task.result()).text == "accept"
    if replay_as == "client":
        await replay_client(recorder.recording, archive(), within=20)
        return
    async with replay_server(recorder.recording) as channel, open_client(channel, **options) as client:
        await client.list_tools()
        async with client.start_task("pack") as task:
            assert (await task.result()).text == "accept"


async def test_a_client_that_says_something_else_is_found() -> None:
    """By the server that is none."""
    recorder = Recorder()
    async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
        await client.call_tool("rest", {"seconds": 0})
    with pytest.raises(ScriptMismatch, match=r"arguments\.seconds: expected 0, got 5"):
        async with replay_server(recorder.recording) as channel, open_client(channel, era="legacy") as client:
            await client.call_tool("rest", {"seconds": 5})


async def test_calls_at_once_may_come_in_another_order(autojump_clock: trio.testing.MockClock) -> None:
    """Each gets its own answer."""
    recorder = Recorder()

    async def rest(client: Client, *times: float) -> dict[float, str]:
        answers: dict[float, str] = {}

        async def call(seconds: float) -> None:
            answers[seconds] = (await client.call_tool("rest", {"seconds": seconds})).text

        async with trio.open_nursery() as nursery:
            for seconds in times:
                nursery.start_soon(call, seconds)
                await trio.testing.wait_all_tasks_blocked()
        return answers

    async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
        expected = await rest(client, 3, 2, 1)
    async with replay_server(recorder.recording) as channel, open_client(channel, era="legacy") as client:
        assert await rest(client, 2, 1, 3) == expected


async def test_a_client_that_leaves_early_is_found() -> None:
    """It has not said everything."""
    recorder = Recorder()
    async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
        await client.call_tool("rest", {"seconds": 0})
    with pytest.raises(ScriptMismatch, match="the connection has ended"):
        async with replay_server(recorder.recording) as channel, open_client(channel, era="legacy"):
            pass


def in_content(**content: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": content}}


def in_params(**params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": "x", "params": params}


MEMBERS: Final[list[tuple[Any, Any, str | None]]] = [
    (in_params(arguments={"taskId": 1}), in_params(arguments={"taskId": 2}), "params.arguments.taskId"),
    (
        in_params(arguments={"a": [{"cursor": 1}]}),
        in_params(arguments={"a": [{"cursor": 2}]}),
        "params.arguments.a[0].cursor",
    ),
    (
        in_params(structuredContent={"createdAt": 1}),
        in_params(structuredContent={}),
        "params.structuredContent.createdAt",
    ),
    (in_params(data={"lastModified": 1}), in_params(data={"lastModified": 2}), "params.data.lastModified"),
    (in_content(elicitationId=1), in_content(elicitationId=2), "result.content.elicitationId"),
    (in_content(annotations={"lastModified": 1}), in_content(annotations={"lastModified": 2}), None),
    (in_params(createdAt=1, taskId=1), in_params(createdAt=2, taskId=2), None),
    (in_params(_meta={"trio-mcp/timeoutMs": 1}), in_params(_meta={"trio-mcp/timeoutMs": 2}), None),
]


@pytest.mark.parametrize(("then", "now", "path"), MEMBERS)
async def test_members_of_users_are_compared_whatever_their_names_are(
    then: Any, now: Any, path: str | None
) -> None:
    """Those of the protocol that have these names differ in each run."""

    async def script(peer: ScriptedPeer) -> None:
        await peer.say(now)

    found: list[str] = []
    async with scripted_server(script) as channel:
        try:
            await replay_client(Recording([RecordedFrame("received", then)]), channel)
        except ScriptMismatch as error:
            found += [difference.partition(":")[0] for difference in error.differences]
    assert found == ([] if path is None else [f"$.{path}"])


@pytest.mark.parametrize("replay_as", ["client", "server"])
async def test_what_was_given_up_over_http_is_given_up_again(
    replay_as: str, autojump_clock: trio.testing.MockClock
) -> None:
    """There it is the end of a response, and no message; a replay has messages alone."""

    async def give_up(client: Client) -> None:
        async with client.listen(tools_list_changed=True):
            with trio.move_on_after(1):
                await client.call_tool("rest", {"seconds": 3})
        await client.call_tool("rest", {"seconds": 5})
        with trio.move_on_after(1):
            await client.call_tool("rest", {"seconds": 7})

    recorder, target = Recorder(), HttpServerParameters("http://localhost/mcp", app=McpASGI(hotel()))
    async with open_client(target, on_frame=recorder, era="modern") as client:
        await give_up(client)
    if replay_as == "client":
        await replay_client(recorder.recording, hotel(), within=20)
        return
    async with replay_server(recorder.recording) as channel, open_client(channel, era="modern") as client:
        await give_up(client)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_giving_up_is_found_where_it_was_not_recorded(is_answered: bool) -> None:
    """Of a request that was answered; one that has no end in the record may have been given up without a message."""
    call: Any = {"jsonrpc": "2.0", "id": 1, "method": "call"}
    last: Any = {"jsonrpc": "2.0", "method": "last"}
    frames = [RecordedFrame("sent", call), RecordedFrame("sent", last)]
    frames += [RecordedFrame("received", {"jsonrpc": "2.0", "id": 1, "result": {}})] * is_answered
    replaying = replay_server(Recording(frames))
    with pytest.raises(ScriptMismatch, match="notifications/cancelled") if is_answered else nullcontext():
        async with replaying as channel, scripted_client(channel) as peer:
            await peer.say(call)
            await peer.notify("notifications/cancelled", {"requestId": 1})
            await peer.say(last)


LISTED: Final[list[Any]] = [{"method": "list", "id": 1}, {"id": 1, "result": {"nextCursor": "2nd"}}]
CALLED: Final[list[Any]] = [{"method": "call", "id": 1}, {"id": 1, "result": {"requestState": "sealed"}}]


@pytest.mark.parametrize(
    ("before", "last", "wrong", "difference"),
    [
        (LISTED, {"cursor": "2nd"}, {"cursor": "3rd"}, '$.params.cursor: expected "2nd", got "3rd"'),
        (CALLED, {"requestState": "sealed"}, {}, '$.params.requestState: expected "sealed", got nothing'),
        (LISTED[:1], {"requestId": 1}, {"requestId": 2}, "$.params.requestId: expected 1, got 2"),
    ],
    ids=["cursor", "state", "id"],
)
async def test_a_client_must_give_back_what_the_server_has_said(
    before: list[Any], last: dict[str, Any], wrong: dict[str, Any], difference: str
) -> None:
    """It differs from one run to the next, but is that of this one."""
    directions: list[FrameDirection] = ["sent", "received"]
    frames = [RecordedFrame(*pair) for pair in zip(directions, before, strict=False)]
    recording = Recording([*frames, RecordedFrame("sent", {"method": "next", "params": last})])

    async def say(params: dict[str, Any], *ignoring: str) -> None:
        async with replay_server(recording, ignoring=ignoring) as channel, scripted_client(channel) as peer:
            for direction, message in zip(directions, before, strict=False):
                await (peer.say if direction == "sent" else peer.expect)(message)
            await peer.say({"method": "next", "params": params})
            await trio.testing.wait_all_tasks_blocked()

    await say(last)
    await say(wrong, *last)
    with pytest.raises(ScriptMismatch) as caught:
        await say(wrong)
    assert caught.value.differences == (difference,)


async def test_a_server_must_give_back_what_the_client_has_said() -> None:
    """A report with the token of no call is none of this call."""
    call = {"method": "tools/call", "id": 1, "params": {"_meta": {"progressToken": "mine"}}}
    report = {"method": "progress", "params": {"progressToken": "mine"}}
    recording = Recording([RecordedFrame("sent", call), RecordedFrame("received", report)])
    for token in ("mine", "another"):

        async def script(peer: ScriptedPeer, token: str = token) -> None:
            await peer.expect(call)
            await peer.say({"method": "progress", "params": {"progressToken": token}})

        async with scripted_server(script) as channel:
            if token == "mine":
                await replay_client(recording, channel)
            else:
                with pytest.raises(ScriptMismatch, match=r'progressToken: expected "mine", got "another"'):
                    await replay_client(recording, channel)


async def test_what_was_never_said_is_found_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Not when the time is over for what should have come instead."""
    recorder = Recorder()
    async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
        await client.call_tool("rest", {"seconds": 0})
    begin = trio.current_time()
    with pytest.raises(ScriptMismatch, match=r"this came, which was not recorded:(.|\n)*resources/list"):
        async with replay_server(recorder.recording) as channel, open_client(channel, era="legacy") as client:
            await client.list_resources()
    assert trio.current_time() == begin


async def test_what_a_server_says_besides_is_found(autojump_clock: trio.testing.MockClock) -> None:
    """A message that was not recorded."""
    recorder = Recorder()
    async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
        await client.call_tool("rest", {"seconds": 1})
    loud = hotel()

    async def shout(message: Any, call_next: Callable[..., Any]) -> Any:
        if message.method == "tools/call":
            loud._application.changes.list_changed("tools")
        return await call_next(message)

    loud.middleware = (shout,)
    with pytest.raises(ScriptMismatch, match="list_changed"):
        await replay_client(recorder.recording, loud)


async def test_a_record_of_the_server_is_one_too() -> None:
    """Directions are those of whoever has recorded it."""
    recorder = Recorder()
    server = hotel()
    from trio_mcp import memory_channel_pair

    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: server.serve_channel(theirs, on_frame=recorder))
        async with open_client(ours, revision="2025-06-18") as client:
            await client.call_tool("rest", {"seconds": 0})
    assert recorder.recording.frames[0].direction == "received"
    await replay_client(recorder.recording, hotel(), recorded_by="server")


@pytest.mark.parametrize("revision", list(Revision))
async def test_secrets_are_not_recorded(revision: Revision, tmp_path: Path) -> None:
    """What its name shows as one; schemas and states are none. And a replay lets anything pass in their place."""
    path = tmp_path / "calls.jsonl"
    with Recorder(path) as recorder:
        async with open_client(hotel(), on_frame=recorder, revision=revision) as client:
            assert [tool.name async for tool in client.list_tools()] == ["book", "rest", "login"]
            await client.call_tool("login", {"user": "ann", "password": "hunter2", "pin": 1234})
    text = path.read_text()
    assert "hunter2" not in text
    assert '"ann"' in text
    assert '"password": "***"' in text
    assert '"accessToken": "***"' in text or revision < "2025-06-18"
    assert '"cookies": ["***"]' in text or revision < "2025-06-18"
    assert '"password": {"type": "string"' in text
    assert "t0ps3cret" not in text  # nor in the text of the result, which is the same JSON
    assert "c00kie" not in text
    (last,) = [frame for frame in recorder.recording.frames if "login" in json.dumps(frame.message)][-1:]
    assert last.direction in {"sent", "received"}


async def test_texts_that_show_secrets_are_masked(subtests: pytest.Subtests) -> None:
    """JSON in them, and URLs; whatever shows nothing stays as it is, and a replay compares the rest."""

    async def check(said: str, recorded: str) -> None:
        server: Server[Any] = Server("echo")
        answer = said

        @server.tool
        async def tell() -> str:
            return answer

        recorder = Recorder()
        async with open_client(server, on_frame=recorder, revision="2025-03-26") as client:
            await client.call_tool("tell")
        (last,) = [frame for frame in recorder.recording.frames if frame.direction == "received"][-1:]
        assert last.message["result"]["content"][0]["text"] == recorded
        answer = said.replace("t0p", "0ther")
        await replay_client(recorder.recording, server)
        if "ann" in said:
            answer = said.replace("ann", "bob")
            with pytest.raises(ScriptMismatch, match="bob"):
                await replay_client(recorder.recording, server)

    rows: list[tuple[str, str]] = [
        ('{"user":"ann","apiKey":"t0p"}', '{"user": "ann", "apiKey": "***"}'),
        ('[{"note": "{\\"secrets\\": [\\"t0p\\"]}"}]', '[{"note": "{\\"secrets\\": [\\"***\\"]}"}]'),
        ("postgres://ann:t0p@db/shop?ssl=1", "postgres://ann:***@db/shop?ssl=1"),
        (
            "see https://h/?access_token=t0p&page=2#id_token=t0p",
            "see https://h/?access_token=***&page=2#id_token=***",
        ),
        (
            "go to http://127.0.0.1:4/back?code=t0p&state=s&iss=https%3A%2F%2Fh",
            "go to http://127.0.0.1:4/back?code=***&state=s&iss=https%3A%2F%2Fh",
        ),
        ("https://h/?client_assertion=t0p&zipcode=9", "https://h/?client_assertion=***&zipcode=9"),
        (
            '{"dbPwd": "t0p", "sms_otp": "t0p", "userPIN": "t0p", "pin": 1, "spin": 2}',
            '{"dbPwd": "***", "sms_otp": "***", "userPIN": "***", "pin": "***", "spin": 2}',
        ),
        (
            '{"tokens": ["t0p", 7], "maxTokens": 10, "secrets": {"a": "t0p", "b": [{"c": 5}], "d": true}}',
            '{"tokens": ["***", 7], "maxTokens": 10, "secrets": {"a": "***", "b": [{"c": "***"}], "d": true}}',
        ),
        (
            '{"password2": "t0p", "code_verifier": "t0p", "clientAssertion": "t0p", "code": "ann"}',
            '{"password2": "***", "code_verifier": "***", "clientAssertion": "***", "code": "ann"}',
        ),
        (
            '{"properties": {"password": {"value": "t0p"}}, "definitions": {"db_password": {"default": "t0p"}}}',
            '{"properties": {"password": {"value": "***"}}, "definitions": {"db_password": {"default": "***"}}}',
        ),
        (
            '{"inputSchema": {"properties": {"pin": {"anyOf": [{"const": "t0p"}], "title": "PIN"}, "x": {"default": 1}}}}',
            '{"inputSchema": {"properties": {"pin": {"anyOf": [{"const": "***"}], "title": "PIN"}, "x": {"default": 1}}}}',
        ),
        (
            '{"requestedSchema": {"$defs": {"token": {"enum": ["t0p"], "type": ["string"]}}, "required": ["token"]}}',
            '{"requestedSchema": {"$defs": {"token": {"enum": ["***"], "type": ["string"]}}, "required": ["token"]}}',
        ),
        (
            '{"outputSchema": {"properties": {"a": {"examples": [{"secret": "t0p"}]}, "secret": true}}}',
            '{"outputSchema": {"properties": {"a": {"examples": [{"secret": "***"}]}, "secret": true}}}',
        ),
        (
            '{"tokenValue": "t0p", "private_key_pem": "t0p", "passwordHash": "t0p", "Bearer": "t0p", "tokenCount": 4}',
            '{"tokenValue": "***", "private_key_pem": "***", "passwordHash": "***", "Bearer": "***", "tokenCount": 4}',
        ),
        (
            '{"user[password]": "t0p", "Password ": "t0p", "API Key": "t0p", "signing_key": "t0p", "monkey": "ann"}',
            '{"user[password]": "***", "Password ": "***", "API Key": "***", "signing_key": "***", "monkey": "ann"}',
        ),
        (
            '[{"name": "API_TOKEN", "value": "t0p"}, {"name": "REGION", "value": "ann"}, {"name": 1, "value": 2}]',
            '[{"name": "API_TOKEN", "value": "***"}, {"name": "REGION", "value": "ann"}, {"name": 1, "value": 2}]',
        ),
        (
            '[{"Name": "Authorization", "VALUE": "t0p"}, {"key": "API_KEY", "value": "t0p"}, {"key": "a", "value": "b"}]',
            '[{"Name": "Authorization", "VALUE": "***"}, {"key": "API_KEY", "value": "***"}, {"key": "a", "value": "b"}]',
        ),
        ("/x?a=1;token=t0p", "/x?a=1;token=***"),
        ("&amp;token=t0p;x=t0p, or ;ann=1", "&amp;token=*** or ;ann=1"),
        ("?X-Amz-Signature=t0p&X-Goog-Signature=t0p&a=b", "?X-Amz-Signature=***&X-Goog-Signature=***&a=b"),
        ("?api%5Fkey=t0p&%74oken=t0p&auth%5Btoken%5D=t0p", "?api%5Fkey=***&%74oken=***&auth%5Btoken%5D=***"),
        ("?next=https%3A%2F%2Fh%2F%3Ftoken%3Dt0p&ann=1", "?next=https%3A%2F%2Fh%2F%3Ftoken%3D***&ann=1"),
        ("?next=%252F%253Fann%253D1%2526token%253Dt0p", "?next=%252F%253Fann%253D1%2526token%253D***"),
        ("what?a=?token=t0p", "what?a=?token=***"),
        ("x://ann:a@t0p@h x://ann:t0p/a@h x://ann:a#t0p?@h", "x://ann:***@h x://ann:***@h x://ann:***@h"),
        ("x://h:80/@ann x://h:8080?to=ann@h", "x://h:80/@ann x://h:8080?to=ann@h"),
        ("x://h:80x://ann:t0p@h", "x://h:80x://ann:***@h"),
        ('"{\\"apiKey\\": \\"t0p\\"}"', '"{\\"apiKey\\": \\"***\\"}"'),
        ('\ufeff{"apiKey": "t0p"}', '{"apiKey": "***"}'),
        ('{"user": "ann", "password": "t0p", "password": null}', '{"user": "ann", "password": ***'),
        ('{"user": "ann", "user": "ann"}', '{"user": "ann", "user": "ann"}'),
        ('"ann"', '"ann"'),
        ('{"user": "ann", "password": "t0p", "x": [', '{"user": "ann", "password": ***'),
        ('{"say": "{\\"api_key\\": {\\"a\\": \\"t0p', '{"say": "{\\"api_key\\": ***'),
        ('{"user":  "ann"}', '{"user":  "ann"}'),
        ("{ann: b}://", "{ann: b}://"),
        ("[" * 100_000, "***"),
    ]
    for said, recorded in rows:
        with subtests.test(said=said, recorded=recorded):
            await check(said, recorded)


@pytest.mark.parametrize(
    "name",
    [
        *[
            "pass",
            "DB_PASS",
            "smtpPass",
            "pw",
            "pwd",
            "creds",
            "aws_creds",
            "auth_key",
            "accountKey",
            "account_key",
            "masterKey",
            "deploy_key",
        ],
        *[
            "connectionString",
            "seed_phrase",
            "verification_code",
            "pin_code",
            "otpCode",
            "githubToken",
            "page_access_token",
        ],
        *["passwordNew", "password_old", "apiKeyProd", "passwordConfirm", "credentialsJson", "access_tokens"],
        "pass\u00a0word",
        "api\u00a0key",
    ],
)
async def test_names_of_secrets(name: str) -> None:
    """In any case, with what tells one from another behind it."""
    assert recorded_of({name: "t0p"}) == {name: "***"}


@pytest.mark.parametrize(
    "member",
    [
        *(
            {name: "ann"}
            for name in ["cursor", "pageToken", "next_page_token", "nextPageToken", "nextToken", "progressToken"]
        ),
        *(
            {name: "ann"}
            for name in [
                "compass",
                "sacred",
                "author",
                "monkey",
                "key",
                "keywords",
                "tokenizer",
                "passenger",
                "code",
            ]
        ),
        *({name: 7} for name in ["tokens", "maxTokens", "inputTokens", "tokenCount", "passed", "spin"]),
        {"password": None, "token": True},
    ],
    ids=lambda member: next(iter(member)),
)
async def test_names_that_only_look_like_those_of_secrets(member: dict[str, Any]) -> None:
    """Pages, counts, and words that have such a name in them: a replay needs them."""
    assert recorded_of(member) == member


async def test_names_of_members_may_be_urls() -> None:
    """Their passwords are masked, and in a replay they are the same members."""
    url = "https://ann:t0p@registry"
    assert recorded_of({url: {"cookies": {url: 1}}}) == {
        "https://ann:***@registry": {"cookies": {"https://ann:***@registry": "***"}}
    }
    server: Server[Any] = Server("registries")

    @server.tool(name="list")
    def list_all() -> dict[str, int]:
        return {url: 1}

    recorder = Recorder()
    async with open_client(server, on_frame=recorder, era="legacy") as client:
        await client.call_tool("list")
    assert "t0p" not in str(recorder.recording)
    await replay_client(recorder.recording, server)


def recorded_of(message: Any) -> Any:
    recorder = Recorder()
    recorder("sent", json.dumps(message).encode())
    return recorder.recording.frames[0].message


async def test_a_replay_says_that_secrets_were_not_recorded() -> None:
    """What a server answers to a mask is no fault of the server."""
    recorder = Recorder()
    async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
        await client.call_tool("login", {"user": "ann", "password": "hunter2", "pin": 1234})
    with pytest.raises(ScriptMismatch, match=r"\(in the record, \*\*\* stands for .*\) differs:"):
        await replay_client(recorder.recording, hotel())


@pytest.mark.parametrize(
    ("said", "recorded"),
    [
        (b'{"id":1,"params":{"tokens":["t0p"', '{"id":1,"params":{"tokens": ***'),
        (b"connecting with token=t0p to db", "connecting with token= ***"),
        (b"https://ann:t0p@h/ is up", "https://ann:***@h/ is up"),
        (b"ready: 3 tools", "ready: 3 tools"),
    ],
)
async def test_what_is_no_json_is_recorded_up_to_the_first_secret(said: bytes, recorded: str) -> None:
    """A message that is cut, or what a library has printed between them."""
    recorder = Recorder()
    recorder("received", said)
    assert recorder.recording.frames[0].message == recorded


async def test_what_is_nested_too_deeply_is_not_recorded_with_its_secrets() -> None:
    """What cannot be looked through is not written as it is."""
    recorder = Recorder()
    for depth in (400, 100_000):
        recorder("sent", b'{"a":' * depth + b'{"password":"t0p"}' + b"}" * depth)
    assert "t0p" not in str(recorder.recording)


async def test_a_line_says_when_in_which_direction_and_what(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """As the command line writes it."""
    path = tmp_path / "calls.jsonl"
    with Recorder(path) as recorder:
        async with open_client(hotel(), on_frame=recorder, era="legacy") as client:
            await client.call_tool("rest", {"seconds": 180})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [set(line) for line in lines] == [{"time", "at", "direction", "message"}] * len(lines)
    assert lines[0]["at"] == 0
    assert lines[-1]["at"] == pytest.approx(180, abs=1)
    assert lines[0]["time"].endswith("+00:00")
    assert Recording.read(path) == recorder.recording


def test_what_is_no_record_is_told(tmp_path: Path) -> None:
    """With its line."""
    path = tmp_path / "calls.jsonl"
    late = b'{"direction":"sent","message":1,"at":' + b"9" * 400 + b"}"
    soon = b'{"direction":"sent","message":1,"at":NaN}'
    for text in (
        soon,
        b"{",
        b'{"direction":["sent"],"message":1}',
        b'{"direction":"up","message":1}',
        b'{"direction":"sent"}',
        b"[]",
        b"1",
        b"\xff",
        late,
    ):
        path.write_bytes(RecordedFrame("sent", {}).line().encode() + b"\n" + text + b"\n")
        with pytest.raises(ValueError, match=r"calls\.jsonl, line 2: not a line of a record"):
            Recording.read(path)
    path.write_bytes(b"\n")
    with pytest.raises(ValueError, match=r"line 1: not a line of a record: Expecting value at column 1$"):
        Recording.read(path)
    path.write_bytes(RecordedFrame("sent", {}).line().encode() + b"\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"calls\.jsonl, line 2: not a line of a record"):
        Recording.read(path)


async def test_a_replay_that_could_not_fail_is_refused() -> None:
    """Of nothing, by nobody, or with every member ignored whose name is a letter of a word."""
    recorder = Recorder()
    async with open_client(hotel(), on_frame=recorder, era="legacy"):
        pass
    recording, nobody, word = recorder.recording, cast("Any", "nobody"), cast("Any", "id")
    with pytest.raises(ValueError, match="there is no message in the record"):
        await replay_client(Recording([]), hotel())
    with pytest.raises(ValueError, match="recorded_by must be 'client' or 'server', not 'nobody'"):
        await replay_client(recording, hotel(), recorded_by=nobody)
    with pytest.raises(TypeError, match="ignoring must be a list of names, not the text 'id'"):
        async with replay_server(recording, ignoring=word):
            pass


def test_a_line_ends_where_json_ends_it(tmp_path: Path) -> None:
    """Other writers of JSON leave separators of Unicode as they are."""
    path = tmp_path / "calls.jsonl"
    path.write_text('{"direction":"sent","message":"a\u2028b\x85"}\n', encoding="utf-8")
    assert Recording.read(path).frames == (RecordedFrame("sent", "a\u2028b\x85"),)


async def test_what_was_no_json_is_kept_as_text() -> None:
    """And said again as the bytes it was."""
    recorder = Recorder()
    recorder("sent", b"{nonsense")
    recorder("received", b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"***"}}')
    assert recorder.recording.frames[0].message == "{nonsense"
    await replay_client(recorder.recording, hotel(), within=math.inf)


async def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which names a way out."""
    recorder = Recorder()
    recorder("sent", b'"' + b"x" * 2**25 + b'"')
    with pytest.raises(RuntimeError, match="record them in a file"):
        recorder("sent", b'"' + b"x" * 2**25 + b'"')
