"""What was said between clients and servers, and how the servers ended, as `recorder.py` reports it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio
from official_wire import OfficialWire, Side

RECORDER: Final = Path(__file__).with_name("recorder.py")


@final
@attrs.define
class HttpExchange:
    """A request and its response.

    Attributes:
        method: The method.
        path: What was asked for.
        asked: The header fields of the request, by their names in small letters.
        messages: The messages in its body.
        status: The status of the response; `None` if there was none.
        answered: The header fields of the response.
        event_ids: The ids of the events in the response, if it is a stream of such.
        is_complete: Whether the response came to its end.
    """

    method: str
    path: str
    asked: Mapping[str, str]
    messages: list[dict[str, Any]] = attrs.field(factory=list[dict[str, Any]])
    status: int | None = None
    answered: Mapping[str, str] = attrs.field(factory=dict[str, str])
    event_ids: list[str] = attrs.field(factory=list[str])
    is_complete: bool = False


@final
@attrs.define
class Recording:
    """The life of one server process, or what was said to one that listens.

    Attributes:
        lines: Who wrote which line, in order; over HTTP, a line for each message.
        exchanges: What carried the messages over HTTP.
        signals: The signals it was sent.
        input_ended_at: When its input was closed, in seconds.
        exited_at: When it was gone.
        exit_status: How it ended; `None` if it was killed with its recorder.
    """

    lines: list[tuple[Side, bytes]] = attrs.field(factory=list[tuple[Side, bytes]])
    exchanges: list[HttpExchange] = attrs.field(factory=list[HttpExchange])
    signals: list[str] = attrs.field(factory=list[str])
    input_ended_at: float | None = None
    exited_at: float | None = None
    exit_status: int | None = None

    @property
    def ended_as_a_probe(self) -> bool:
        """Whether the server exited by itself, or died of the signal that some clients send while they close its input.

        That signal may come when the program has nothing left to do but to exit, and has given up its handler.
        """
        return self.exit_status == 0 or (self.signals, self.exit_status) == (["SIGTERM"], -signal.SIGTERM)

    def messages(self, writer: Side, method: str | None = None) -> list[dict[str, Any]]:
        """Return what one side wrote, decoded, or only its messages of one method."""
        written = [json.loads(line) for side, line in self.lines if side == writer]
        return [message for message in written if method is None or message.get("method") == method]

    def check(self, side: Side) -> OfficialWire:
        """Check that all that one side wrote is messages of the protocol, and return what was learned."""
        wire = OfficialWire(side)
        for writer, line in self.lines:
            wire.take(writer, line)
        return wire

    def take(self, event: dict[str, Any]) -> None:
        """Take the next thing that happened."""
        match event["event"]:
            case "to_server":
                self.lines.append(("client", event["line"].encode("latin-1")))
            case "to_client":
                self.lines.append(("server", event["line"].encode("latin-1")))
            case "signal":
                self.signals.append(event["name"])
            case "input_ended":
                self.input_ended_at = event["at"]
            case "exited":
                self.exited_at, self.exit_status = event["at"], event["status"]
            case _:
                pass


@final
class Recorder:
    """Records the servers that are started through it. Made by `open_recorder`."""

    def __init__(self, port: int) -> None:
        self.recordings: list[Recording] = []
        self._port = port

    def command(self, *server: str | Path) -> Sequence[str]:
        """Return the command that starts a server and records it."""
        return sys.executable, str(RECORDER), str(self._port), *map(str, server)

    @property
    def only(self) -> Recording:
        """The recording, where there must be exactly one."""
        (recording,) = self.recordings
        return recording

    async def take(self, stream: trio.SocketStream) -> None:
        """Read what the recorder of one process reports, until that is gone."""
        recording = Recording()
        self.recordings.append(recording)
        rest = b""
        async with stream:
            async for piece in stream:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    recording.take(json.loads(line))


@asynccontextmanager
async def open_recorder() -> AsyncGenerator[Recorder]:
    """Record servers. Leaving waits until all that were started are gone."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    recorder = Recorder(listener.socket.getsockname()[1])
    async with trio.open_nursery() as reports, trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, recorder.take, [listener], handler_nursery=reports))
        yield recorder
        nursery.cancel_scope.cancel(reason="no more servers are started")
