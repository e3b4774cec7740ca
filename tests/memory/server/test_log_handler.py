"""What is logged while a request is served goes to the client that made it, and nowhere else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS
from talking import Talk, connect, listen, note, request

from trio_mcp import Context, Limits, LogHandler, Revision, Server
from trio_mcp.types import LoggingLevel

V07 = Revision.V2026_07_28
NEWEST_LEGACY = Revision.V2025_11_25
LEVEL_KEY = "io.modelcontextprotocol/logLevel"


@pytest.fixture
def handler() -> Generator[LogHandler]:
    """A handler at a logger of the user's own."""
    logger = logging.getLogger("orders")
    handler = LogHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


log = logging.getLogger("orders.checkout")


def call(revision: Revision, tool: str, level: str | None = "debug", id: int | str = "c") -> dict[str, Any]:
    message = request(id, "tools/call", revision, name=tool, arguments={})
    if revision.is_modern and level is not None:
        message["params"]["_meta"] = {**message["params"]["_meta"], LEVEL_KEY: level}
    return message


async def begin(nursery: trio.Nursery, server: Server[Any], revision: Revision, level: str = "debug") -> Talk:
    talk = await connect(nursery, server)
    if not revision.is_modern:
        await talk.shake_hands(revision)
        await talk.ask("logging/setLevel", revision, level=level)
        await talk.new()
    return talk


def said(data: object, level: LoggingLevel = "info", logger: str = "orders.checkout") -> dict[str, Any]:
    return note("notifications/message", level=level, logger=logger, data=data)


def logged(messages: list[dict[str, Any]]) -> list[Any]:
    return [m["params"]["data"] for m in messages if m.get("method") == "notifications/message"]


@pytest.mark.parametrize("revision", ENDS)
async def test_a_record_goes_to_the_client_before_the_answer(
    revision: Revision, handler: LogHandler, nursery: trio.Nursery
) -> None:
    """Every revision: server/utilities/logging, "Log Message Notifications"."""
    server = Server("shop")

    @server.tool
    async def order(ctx: Context[Any]) -> str:
        log.info("%d books", 2)
        await ctx.info("by hand", logger="orders.checkout")
        log.info("packed", extra={"weight": 1.5, "box": ["a", None], "clerk": object})
        return "ordered"

    talk = await begin(nursery, server, revision)
    messages = await talk.say(call(revision, "order"))
    packed = {"message": "packed", "weight": 1.5, "box": ["a", None], "clerk": "<class 'object'>"}
    assert messages[:-1] == [said("2 books"), said("by hand"), said(packed)]
    assert messages[-1]["result"]["content"][0]["text"] == "ordered"
    assert handler.dropped == 0
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ENDS)
async def test_the_client_says_how_severe(revision: Revision, handler: LogHandler, nursery: trio.Nursery) -> None:
    """Legacy: per session; 2026-07-28: per request, "Per-request log level", and without it MUST NOT."""
    server = Server("shop")

    @server.tool
    async def order(ctx: Context[Any]) -> None:
        for level in (10, 20, 25, 30, 40, 50, 60, 70):
            log.log(level, "%d", level)
        for say in (ctx.notice, ctx.critical, ctx.alert, ctx.emergency):
            await say("by hand")

    talk = await begin(nursery, server, revision, "error")
    messages = await talk.say(call(revision, "order", "error"))
    levels = [m["params"]["level"] for m in messages if "method" in m]
    assert levels == ["error", "critical", "alert", "emergency", "critical", "alert", "emergency"]
    if revision.is_modern:
        assert logged(await talk.say(call(revision, "order", None))) == []
    nursery.cancel_scope.cancel()


async def test_pythons_levels_become_the_protocols(handler: LogHandler, nursery: trio.Nursery) -> None:
    levels = [
        (1, "debug"), (10, "debug"), (19, "debug"), (20, "info"), (25, "notice"), (30, "warning"), (39, "warning"),
        (40, "error"), (50, "critical"), (60, "alert"), (69, "alert"), (70, "emergency"), (1000, "emergency"),
    ]  # fmt: skip
    server = Server("shop")

    @server.tool
    async def order() -> None:
        for number, _ in levels:
            log.log(number, number)

    logging.getLogger("orders").setLevel(1)
    talk = await begin(nursery, server, V07)
    *messages, _ = await talk.say(call(V07, "order"))
    assert [(int(each["params"]["data"]), each["params"]["level"]) for each in messages] == levels
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ENDS)
async def test_a_plain_function_in_its_thread_logs_to_its_client(
    revision: Revision, handler: LogHandler, nursery: trio.Nursery
) -> None:
    """In order, and before the answer."""
    server = Server("shop")

    @server.tool
    def order() -> str:
        for number in range(10):
            log.info("%d", number)
        return "ordered"

    talk = await begin(nursery, server, revision)
    with trio.fail_after(5):
        talk.channel.say(call(revision, "order"))
        while not any("id" in m for m in talk.channel.sent):
            await trio.sleep(0.001)
    messages = await talk.heard()
    assert logged(messages) == [str(number) for number in range(10)]
    assert messages[-1]["id"] == "c", "the answer comes last"
    nursery.cancel_scope.cancel()


async def test_each_request_logs_to_its_own_client(
    handler: LogHandler, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Also when one has waited for another to finish, and was started by it."""
    server = Server("shop", limits=Limits(max_inbound_requests=1))

    @server.tool
    async def order(ctx: Context[Any]) -> None:
        async with trio.open_nursery() as own:
            own.start_soon(deeper, ctx)

    async def deeper(ctx: Context[Any]) -> None:
        await trio.sleep(1)
        log.info("%s", ctx.request_id)

    talks = [await begin(nursery, server, V07), await begin(nursery, server, NEWEST_LEGACY)]
    for talk, revision in zip(talks, (V07, NEWEST_LEGACY), strict=True):
        await talk.say(
            *(call(revision, "order", "info" if n != 1 else None, f"{revision} {n}") for n in range(3))
        )
    await trio.sleep(10)
    assert logged(await talks[0].heard()) == ["2026-07-28 0", "2026-07-28 2"]
    assert logged(await talks[1].heard()) == [f"2025-11-25 {n}" for n in range(3)]
    nursery.cancel_scope.cancel()


async def test_outside_a_request_nothing_happens(
    handler: LogHandler, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Not on a subscription either: 2026-07-28, server/utilities/logging, "Per-request log level"."""
    server = Server("shop")

    @server.notification_handler("x/y")
    async def heard(_: object, __: object) -> None:
        log.warning("heard")

    @server.tool
    async def leave_behind() -> None:
        nursery.start_soon(later)

    async def later() -> None:
        await trio.sleep(1)
        log.error("too late")

    talk = await begin(nursery, server, V07)
    log.error("outside")
    await talk.say(listen("l"), note("x/y"), call(V07, "leave_behind"))
    await trio.sleep(2)
    assert logged(await talk.heard()) == []
    assert handler.dropped == 0
    nursery.cancel_scope.cancel()


async def test_changes_notified_because_of_a_request_are_not_part_of_it(
    handler: LogHandler, nursery: trio.Nursery
) -> None:
    """What a task inherits from the request that made the change is not the other client's business."""
    server = Server("shop", limits=Limits(max_message_bytes=6_078))
    uri = "\x01" * 1_000  # which are six thousand bytes of JSON
    seen: list[object] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from inside_server import _serving

            seen.append(_serving.get())

    async def nothing(_: object, __: object) -> dict[str, Any]:
        return {}

    server.request_handler("resources/list")(nothing)

    @server.tool
    async def change() -> None:
        server._application.changes.resource_updated(uri)

    talk = await begin(nursery, server, NEWEST_LEGACY)
    assert "result" in await talk.ask("resources/subscribe", NEWEST_LEGACY, uri=uri, id=1)
    ours = logging.getLogger("trio_mcp.server")
    watch = Watch()
    ours.addHandler(watch)
    try:
        await talk.say(call(NEWEST_LEGACY, "change"))
    finally:
        ours.removeHandler(watch)
    assert seen == [None], "one warning, from outside the request"
    nursery.cancel_scope.cancel()


@pytest.mark.spec("server/utilities/logging", "Security", revisions="2026-07-28")
async def test_what_the_library_logs_is_not_for_clients(
    caplog: pytest.LogCaptureFixture, nursery: trio.Nursery
) -> None:
    server = Server("shop")
    handler = LogHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    try:

        @server.tool
        async def fail() -> None:
            logging.getLogger("trio_mcp").error("as if it were ours")
            raise LookupError("not for clients")

        talk = await begin(nursery, server, V07)
        messages = await talk.say(call(V07, "fail"))
    finally:
        root.removeHandler(handler)
    assert [m.get("id") for m in messages] == ["c"]
    assert "not for clients" in caplog.text
    nursery.cancel_scope.cancel()


async def test_a_traceback_is_sent_only_by_a_formatter_that_wants_it(
    handler: LogHandler, nursery: trio.Nursery
) -> None:
    """server/utilities/logging, "Security": no internal details, unless the user says so."""
    server = Server("shop")

    @server.tool
    async def order() -> None:
        try:
            raise LookupError("internal detail")
        except LookupError:
            log.exception("failed")

    talk = await begin(nursery, server, V07)
    assert logged(await talk.say(call(V07, "order"))) == ["failed"]
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    (text,) = logged(await talk.say(call(V07, "order")))
    assert text.startswith("ERROR failed\nTraceback")
    assert "internal detail" in text
    nursery.cancel_scope.cancel()


async def test_a_formatter_that_logs_does_not_go_round_in_circles(
    handler: LogHandler, nursery: trio.Nursery
) -> None:
    server = Server("shop")

    class Chatty(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            log.info("formatting")
            return "formatted"

    handler.setFormatter(Chatty())

    @server.tool
    async def order() -> None:
        log.info("x")
        log.info("y")

    talk = await begin(nursery, server, V07)
    assert logged(await talk.say(call(V07, "order"))) == ["formatted", "formatted"]
    nursery.cancel_scope.cancel()


async def test_a_record_that_cannot_be_formatted_costs_only_itself(
    handler: LogHandler, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("shop")
    failed: list[logging.LogRecord] = []
    monkeypatch.setattr(handler, "handleError", failed.append)

    class Broken(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            if record.getMessage() == "broken":
                raise LookupError
            return "fine"

    handler.setFormatter(Broken())

    @server.tool
    async def order() -> None:
        log.info("broken")
        log.info("whole")

    talk = await begin(nursery, server, V07)
    assert logged(await talk.say(call(V07, "order"))) == ["fine"]
    assert len(failed) == 1
    nursery.cancel_scope.cancel()


async def test_what_there_is_no_room_for_is_dropped_and_counted(
    handler: LogHandler, nursery: trio.Nursery
) -> None:
    """Logging never waits, and `Limits.max_outbox_bytes` holds."""
    server = Server("shop", limits=Limits(max_outbox_bytes=500))
    done: list[str] = []

    @server.tool
    async def order() -> None:
        for number in range(100):
            log.info("%d", number)
        done.append("logged")

    talk = await begin(nursery, server, V07)
    talk.channel.stop_reading()
    await talk.say(call(V07, "order"))
    assert done == ["logged"], "although nobody reads"
    assert 90 < handler.dropped < 100
    talk.channel.reading.set()
    messages = await talk.heard()
    assert len(logged(messages)) + handler.dropped == 100
    assert messages[-1]["id"] == "c"
    nursery.cancel_scope.cancel()


async def test_what_is_too_large_is_dropped_and_counted(handler: LogHandler, nursery: trio.Nursery) -> None:
    server = Server("shop", limits=Limits(max_message_bytes=1_000))

    @server.tool
    async def order() -> None:
        log.info("x" * 2_000)
        log.info("y")

    talk = await begin(nursery, server, V07)
    assert logged(await talk.say(call(V07, "order"))) == ["y"]
    assert handler.dropped == 1
    nursery.cancel_scope.cancel()


async def test_threads_that_log_faster_than_trio_listens_are_bounded(nursery: trio.Nursery) -> None:
    """`max_waiting`: while Trio's thread is busy, what other threads log waits there."""
    with pytest.raises(ValueError, match="max_waiting"):
        LogHandler(max_waiting=0)
    handler = LogHandler(logging.INFO, max_waiting=10)
    logger = logging.getLogger("bounded")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    server = Server("shop")

    def shout() -> None:
        for number in range(50):
            logger.info("%d", number)
            logger.debug("below the handler's level")

    @server.tool
    async def order() -> None:
        import contextvars

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(shout,))
        thread.start()
        thread.join()  # Trio does nothing meanwhile
        await trio.testing.wait_all_tasks_blocked()

    try:
        talk = await begin(nursery, server, V07)
        assert logged(await talk.say(call(V07, "order"))) == [str(number) for number in range(10)]
        assert handler.dropped == 40
        assert logged(await talk.say(call(V07, "order"))) == [str(number) for number in range(10)], (
            "there is room again"
        )
    finally:
        logger.removeHandler(handler)
    nursery.cancel_scope.cancel()


def test_a_thread_that_outlives_the_run_is_counted(handler: LogHandler) -> None:
    server = Server("shop")
    began, over, logged_late = threading.Event(), threading.Event(), threading.Event()

    @server.tool
    def order() -> None:
        began.set()
        over.wait(10)
        log.info("nobody hears this")
        logged_late.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            talk = await connect(nursery, server)
            talk.channel.say(call(V07, "order"))
            await trio.to_thread.run_sync(began.wait, 10)
            nursery.cancel_scope.cancel()

    trio.run(main)
    over.set()
    assert logged_late.wait(10)
    assert handler.dropped == 1


async def test_a_context_says_what_the_client_wants(nursery: trio.Nursery) -> None:
    """`Context.wants_log` and `Context.log_nowait`, for those who drive it by hand."""
    server = Server("shop", limits=Limits(max_outbox_bytes=1))
    wanted: list[bool] = []

    @server.tool
    async def order(ctx: Context[Any]) -> None:
        wanted.extend([ctx.wants_log("info"), ctx.wants_log("warning")])
        ctx.log_nowait("info", "not wanted")
        ctx.log_nowait("warning", "first")
        with pytest.raises(trio.WouldBlock):
            ctx.log_nowait("warning", "second")
        with pytest.raises(ValueError, match="level must be one of"):
            ctx.log_nowait("loud", "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    talk = await begin(nursery, server, V07)
    assert logged(await talk.say(call(V07, "order", "warning"))) == ["first"]
    assert wanted == [False, True]
    nursery.cancel_scope.cancel()


@pytest.mark.spec("basic/utilities/ping", "Overview")
@pytest.mark.parametrize("revision", ENDS)
async def test_a_server_may_ping_where_the_revision_has_it(revision: Revision, nursery: trio.Nursery) -> None:
    """2024-11-05 to 2025-11-25: basic/utilities/ping, either side; 2026-07-28, changelog, 5: nobody."""
    server = Server("shop")

    @server.tool
    async def alive(ctx: Context[Any]) -> str:
        try:
            return repr(await ctx.request("ping"))
        except Exception as error:
            return type(error).__name__

    talk = await begin(nursery, server, revision)
    messages = await talk.say(call(revision, "alive"))
    if revision.is_modern:
        assert messages[-1]["result"]["content"][0]["text"] == "LocalProtocolError"
        assert (await talk.ask("ping", revision))["error"]["code"] == -32601
    else:
        (ping,) = messages
        assert ping["method"] == "ping"
        messages = await talk.say({"jsonrpc": "2.0", "id": ping["id"], "result": {}})
        assert messages[-1]["result"]["content"][0]["text"] == "{}"
        assert (await talk.ask("ping", revision))["result"] == {}
    nursery.cancel_scope.cancel()
