"""A client of ours that meets the server that offers everything, and what went over the wire between them.

A server process is costly to start, so one meeting serves all tests of a revision and a binding: it lives in a Trio
run of its own, in a thread, and each test is run there. A test that fails ends its meeting; the next gets a fresh one.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import queue
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast, final

import outcome
import pytest
import trio
from http_process import HttpProcess
from http_tap import HttpLog, Seen, open_http_tap, tap_application
from patient_clock import PatientClock
from places import PROGRAMS
from programs.everything import server
from tape import Tape
from typing_extensions import Unpack

from trio_mcp import (
    Client,
    ClientOptions,
    HttpServerParameters,
    HttpServerSettings,
    McpASGI,
    RequestError,
    Revision,
    StdioServerParameters,
    open_asgi_client,
    open_client,
)
from trio_mcp.types import CallToolResult, Root, TextContent

__all__ = [
    "ALL",
    "BINDINGS",
    "FORMS",
    "LEGACY",
    "MET",
    "MODERN",
    "MODES",
    "TOOLS",
    "URLS",
    "Host",
    "Hosts",
    "Meeting",
    "meet",
    "shows",
    "text_of",
]

ALL = tuple(Revision)
LEGACY = tuple(revision for revision in Revision if not revision.is_modern)
MODERN = Revision.V2026_07_28
FORMS = (Revision.V2025_06_18, Revision.V2025_11_25, MODERN)
"""The revisions that have elicitation."""
URLS = (Revision.V2025_11_25, MODERN)
"""The revisions that send users to URLs."""
TOOLS = URLS
"""The revisions that have tools in sampling."""

BINDINGS = ("memory", "asgi", pytest.param("http", marks=pytest.mark.nightly))
"""How client and server are connected: ``asgi`` is HTTP without sockets, ``http`` a server process and real sockets. In
2024-11-05 both are HTTP+SSE. Every feature over every transport is in the matrix; ``stdio`` is for what is about stdio."""
MET: Final[Mapping[str, Sequence[Revision]]] = {
    "memory": ALL,
    "asgi": (Revision.V2024_11_05, Revision.V2025_11_25, MODERN),
    "http": (Revision.V2025_11_25, MODERN),
}
"""The revisions in which a test meets over each binding that it has not chosen itself. What a revision says is shown in memory, in
each of them; how it is carried, in the oldest and the newest of an era, and by a process in the newest."""
MODES: Final[Mapping[str, Sequence[Revision]]] = {"json": ALL[1:], "stateless": LEGACY[1:]}
"""Ways of serving HTTP that do not give everything, and the revisions that have them. Neither has sockets."""

SCRIPT = PROGRAMS / "everything.py"
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "asgi": {},
    "json": {"json_only": True},
    "stateless": {"stateless": True},
}
"""What is served over HTTP in this process, by binding."""
ENOUGH = 280
"""Seconds in which any test is over, on a machine that is busy with other things."""

P = ParamSpec("P")
T = TypeVar("T", bound=Callable[..., object])


@final
class Host:
    """What the client's handlers do, and what they were asked; a test changes it as it needs.

    Attributes:
        answers: What the user answers to forms and URLs, one after the other; the last one stays.
        replies: What the model says, likewise. Each may be a function, also an async one.
        places: Where the server may work, likewise.
        asked: What the user was asked.
        sampled: What the model was asked.
        logged: What the server has logged.
        finished: The elicitations whose user is done at a URL.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.answers: list[Any] = [{"value": "octocat"}]
        self.replies: list[Any] = ["Paris"]
        self.places: list[Any] = [[Root(uri="file:///home/user/projects/myproject", name="My Project")]]
        self.asked: list[Any] = []
        self.sampled: list[Any] = []
        self.logged: list[Any] = []
        self.finished: list[str] = []

    async def _next(self, prepared: list[Any], asked: Any) -> Any:
        answer = prepared.pop(0) if len(prepared) > 1 else prepared[0]
        answer = answer(asked) if callable(answer) else answer
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def elicit(self, params: Any) -> Any:
        """Be the user."""
        self.asked.append(params)
        return await self._next(self.answers, params)

    async def sample(self, params: Any) -> Any:
        """Be the model."""
        self.sampled.append(params)
        return await self._next(self.replies, params)

    async def list_roots(self) -> Any:
        """Say where the server may work."""
        return await self._next(self.places, None)

    def options(self) -> ClientOptions:
        """Return the options of a client that can do everything."""
        return {
            "on_sample": self.sample,
            "sampling_tools": True,
            "sampling_context": True,
            "on_elicit": self.elicit,
            "elicit_modes": ("form", "url"),
            "on_elicitation_complete": self.finished_at,
            "roots": self.list_roots,
            "on_log": lambda message: self.logged.append(message),
            "on_frame": self.tape,
        }

    def finished_at(self, elicitation_id: str) -> None:
        """Be told that the user is done."""
        self.finished.append(elicitation_id)


@final
class Meeting:
    """A client connected to the server, for one test after the other.

    Attributes:
        revision: What they speak.
        binding: How they are connected.
        client: The client.
        host: What its handlers do.
        tape: What went over the wire, as the client saw it: all of it.
        log: What went over HTTP: all of it.
    """

    def __init__(self, revision: Revision, binding: str, hosts: Hosts) -> None:
        self.revision = revision
        self.binding = binding
        self._hosts = hosts
        self.tape = Tape()
        self.log = HttpLog()
        self.host = Host(self.tape)
        self.client: Client
        self._begin = self._log_begin = 0
        self._reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name=f"meeting of {revision} over {binding}")

    # Its life.

    def open(self) -> None:
        """Connect."""
        self._thread.start()
        report = self._reports.get()
        if isinstance(report, outcome.Error):
            self._thread.join()
            report.unwrap()
        self._token, self._end = report

    def close(self) -> None:
        """Disconnect, and leave nothing."""
        with suppress(trio.RunFinishedError):  # it has failed already, and says why
            self._token.run_sync_soon(self._end.set)
        self._thread.join()
        self._reports.get().unwrap()

    def _live(self) -> None:
        self._reports.put(outcome.capture(functools.partial(trio.run, clock=PatientClock()), self._connected))

    async def _connected(self) -> None:
        async with self._reachable() as self._target, self.another(**self.host.options()) as self.client:
            end = trio.Event()
            self._reports.put((trio.lowlevel.current_trio_token(), end))
            await end.wait()

    @asynccontextmanager
    async def another(self, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
        """Open another client of the same revision and binding, with options of its own."""
        options["revision"] = self.revision
        if self.is_http and self.revision == "2024-11-05":
            options["era"] = "sse"
        async with open_client(self._target, **options) as client:
            yield client

    @asynccontextmanager
    async def _reachable(self) -> AsyncGenerator[Any]:
        """Make the server reachable, and say how it is reached."""
        path = "/sse" if self.revision == "2024-11-05" else "/mcp"
        if self.binding == "memory":
            yield server
        elif self.binding == "stdio":
            coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
            yield StdioServerParameters(sys.executable, [str(SCRIPT)], env=coverage, stderr=lambda _: None)
        elif self.binding == "http":
            async with open_http_tap(self._hosts.http_server().port, self.log) as port:
                yield f"http://127.0.0.1:{port}{path}"
        else:
            settings = HttpServerSettings(sse=True, **SETTINGS[self.binding])
            async with open_asgi_client(tap_application(McpASGI(server, settings), self.log)) as app:
                yield HttpServerParameters(f"http://localhost{path}", app=app)

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        """Run a test where the client lives."""
        trio.from_thread.run(self._bounded, test, trio_token=self._token)

    async def _bounded(self, test: Callable[[], Awaitable[None]]) -> None:
        with trio.fail_after(ENOUGH):
            await self.client.call_tool("notes")  # what other tests have left there
            self.begin()
            await test()

    def begin(self) -> None:
        """Forget what the host does and was asked, and what went over the wire: a test begins, or the next row of its table."""
        self.host.reset()
        self._begin, self._log_begin = len(self.tape.frames), len(self.log.seen)

    # What went over the wire since the test has begun.

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What the client has sent."""
        return [message for way, message in self.tape.frames[self._begin :] if way == "sent"]

    @property
    def received(self) -> list[dict[str, Any]]:
        """What the client has received."""
        return [message for way, message in self.tape.frames[self._begin :] if way == "received"]

    @property
    def seen(self) -> list[Seen]:
        """What has gone over HTTP."""
        return self.log.seen[self._log_begin :]

    def requests(self, method: str) -> list[dict[str, Any]]:
        """Return the client's requests of a method."""
        return [message for message in self.sent if message.get("method") == method and "id" in message]

    def request(self, method: str) -> dict[str, Any]:
        """Return the client's last request of a method."""
        return self.requests(method)[-1]

    def params(self, method: str) -> dict[str, Any]:
        """Return the parameters of the client's last request of a method, without `_meta`."""
        params = self.request(method).get("params", {})
        return {name: value for name, value in params.items() if name != "_meta"}

    def answer(self, method: str) -> dict[str, Any]:
        """Return the server's answer to the client's last request of a method."""
        id = self.request(method)["id"]
        (answer,) = [m for m in self.received if m.get("id") == id and "method" not in m]
        assert answer["jsonrpc"] == "2.0"
        return answer

    def result(self, method: str) -> dict[str, Any]:
        """Return the result of the client's last request of a method, without what every result has."""
        result: dict[str, Any] = dict(self.answer(method)["result"])
        if self.is_modern:
            assert result.pop("resultType") == "complete"
            meta = result.pop("_meta")
            assert meta.pop("io.modelcontextprotocol/serverInfo")["name"] == "everything"
            if meta:
                result["_meta"] = meta
        return result

    def notes(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the server's notifications of a method."""
        return [m.get("params", {}) for m in self.received if m.get("method") == method and "id" not in m]

    def questions(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of what the server has asked, without `_meta`, however it asks in this revision."""
        if not self.is_modern:
            asked = [m.get("params", {}) for m in self.received if m.get("method") == method and "id" in m]
            return [{name: value for name, value in one.items() if name != "_meta"} for one in asked]
        found: list[dict[str, Any]] = []
        for message in self.received:
            assert "method" not in message or "id" not in message, "a modern server asks nothing by itself"
            for asked in message.get("result", {}).get("inputRequests", {}).values():
                if asked["method"] == method:
                    found.append(asked.get("params", {}))
        return found

    def replies(self, method: str) -> list[dict[str, Any]]:
        """Return what the client has answered to the server's questions of a method."""
        if not self.is_modern:
            ids = [m["id"] for m in self.received if m.get("method") == method and "id" in m]
            answers = [m for m in self.sent if "method" not in m and m["id"] in ids]
            return [m["result"] if "result" in m else m["error"] for m in answers]
        keys: list[str] = []
        for message in self.received:
            asked = message.get("result", {}).get("inputRequests", {})
            keys += [key for key, question in asked.items() if question["method"] == method]
        brought = [m["params"].get("inputResponses", {}) for m in self.sent if "params" in m]
        return [answers[key] for answers in brought for key in answers if key in keys]

    def goodbyes(self) -> list[Any]:
        """Return the ids of the client's requests that it has given up, by whatever its binding uses.

        Over HTTP those are what came over the wire, and not what the client thinks it has sent.
        """
        if self.is_http and self.is_modern:
            return [one.message["id"] for one in self.seen if one.end == "left"]
        said = [one.message for one in self.seen if one.message is not None] if self.is_http else self.sent
        return [m["params"]["requestId"] for m in said if m.get("method") == "notifications/cancelled"]

    @property
    def is_http(self) -> bool:
        """Whether HTTP is spoken."""
        return self.binding not in {"memory", "stdio"}

    @property
    def is_modern(self) -> bool:
        """Whether there is no handshake and the server cannot ask by itself."""
        return self.revision.is_modern

    def declared(self) -> dict[str, Any]:
        """Return what the client says it can do: once in the handshake, or with each request."""
        if self.is_modern:
            meta = [m for m in self.sent if "params" in m and "id" in m][-1]["params"]["_meta"]
            said: dict[str, Any] = meta["io.modelcontextprotocol/clientCapabilities"]
        else:
            (hello,) = [m for way, m in self.tape.frames if way == "sent" and m.get("method") == "initialize"]
            said = hello["params"]["capabilities"]
        return said

    # What tests do often.

    async def refused(self, call: Callable[[], Awaitable[object]], code: int) -> RequestError:
        """Return the error that a call is refused with."""
        try:
            await call()
        except RequestError as error:
            assert error.code == code, error
            return error
        raise AssertionError("the call went through")

    async def turned_down(self, tool: str, arguments: dict[str, Any], question: str, why: str = "") -> None:
        """Call a tool whose question this client answers with an error, which is not the answer to the call."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        assert f"The client refused {question}: {why}" in text_of(result)

    async def heard(self, messages: int) -> None:
        """Wait until so many log messages have come to the client's handler, which no request waits for."""
        while len(self.host.logged) < messages:
            await trio.sleep(0.001)

    async def noted(self, line: str) -> list[str]:
        """Wait until the server has noted a line, and return all it has noted."""
        found: list[str] = []
        while line not in found:
            found += json.loads(text_of(await self.client.call_tool("notes")))
            await trio.sleep(0.005)
        return found

    async def taken(self) -> None:
        """Wait until every request over HTTP has been answered: what comes over a stream may overtake that."""
        while any(one.status is None for one in self.seen):
            await trio.sleep(0.005)


def text_of(result: CallToolResult) -> str:
    """Return the text of a result that is only that."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@final
class Hosts:
    """The meetings that are open."""

    def __init__(self) -> None:
        self._open: dict[tuple[Revision, str], Meeting] = {}
        self._http: HttpProcess | None = None

    def http_server(self) -> HttpProcess:
        """Return the server process that serves all revisions over HTTP."""
        if self._http is None:
            self._http = HttpProcess(SCRIPT)
        return self._http

    def meeting(self, revision: Revision, binding: str) -> Meeting:
        """Return the meeting of a revision and a binding."""
        meeting = self._open.get((revision, binding))
        if meeting is None:
            meeting = Meeting(revision, binding, self)
            meeting.open()
            self._open[revision, binding] = meeting
        return meeting

    def end(self, meeting: Meeting) -> None:
        """End a meeting."""
        del self._open[meeting.revision, meeting.binding]
        meeting.close()

    def end_all(self) -> None:
        """End all meetings."""
        for meeting in list(self._open.values()):
            self.end(meeting)
        if self._http is not None:
            self._http.terminate()
            assert self._http.wait() == 0


def meet(
    test: Callable[Concatenate[Meeting, P], Awaitable[None]],
) -> Callable[Concatenate[Meeting, P], None]:
    """Make a test of a meeting run where the meeting is. Its ``subtests`` are reported when it has ended."""

    @functools.wraps(test)
    def run(meeting: Meeting, *args: P.args, **kwargs: P.kwargs) -> None:
        given: dict[str, Any] = dict(kwargs)
        rows = _Rows()
        subtests: pytest.Subtests | None = given.get("subtests")
        if subtests is not None:
            given["subtests"] = rows
        try:
            meeting.run(functools.partial(cast("Any", test), meeting, *args, **given))
        finally:
            rows.report(subtests)

    return cast("Callable[Concatenate[Meeting, P], None]", run)


@final
class _Rows:
    """The ``subtests`` of a test that runs in another thread than pytest, whose own can only fail in the main thread."""

    def __init__(self) -> None:
        self._ended: list[tuple[dict[str, Any], BaseException | None]] = []

    @contextmanager
    def test(self, **row: Any) -> Generator[None]:
        """Keep how a row of a table has ended."""
        failure: BaseException | None = None
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failure = error
        self._ended.append((row, failure))

    def report(self, subtests: pytest.Subtests | None) -> None:
        """Let each row end in the main thread as it has ended."""
        for row, failure in self._ended:
            assert subtests is not None
            with subtests.test(**row):
                if failure is not None:
                    raise failure


def shows(pages: Sequence[str], section: str) -> Callable[[T], T]:
    """Mark a test for a section that several pages have."""

    def mark(test: T) -> T:
        for page in pages:
            test = pytest.mark.spec(page, section)(test)
        return test

    return mark
