"""Records of what went over a wire, and their replay: as the client that was, or as the server."""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, Self, TextIO, final, get_args

import attrs
import trio

from .._absent import ABSENT
from .._channel import Channel
from .._client._open import ServesChannels
from .._codec._json import is_array, is_object
from .._limits import MIB
from .._peer._frame_record import MASKED, FrameDirection, frame_of, open_record, write_frame
from .._peer._frame_record import RecordedFrame as RecordedFrame
from ._matching import Matcher, ScriptMismatch, mismatch, shown_difference, shown_json
from ._scripts import WITHIN, ScriptedPeer, scripted_client, scripted_server

MAX_KEPT: Final = 64 * MIB
"""How much a recorder without a file keeps, in bytes of messages."""

LATER: Final = 0.05
"""How many seconds later than it did a look comes that has found a task changed."""

VOLATILE: Final = frozenset(
    {
        "requestState", "nextCursor", "cursor", "taskId", "elicitationId", "createdAt", "lastUpdatedAt",
        "lastModified", "progressToken", "serverInfo.version", "clientInfo.version", "trio-mcp/timeoutMs",
    }
)  # fmt: skip
"""Members of the protocol that differ from one run to the next, by the last names of their paths.

In arguments, structured content and other content of users a member of such a name is one like any other.
"""

_GIVEN_BACK: Final = frozenset({"requestState", "nextCursor", "taskId", "elicitationId", "progressToken"})
"""What one side says again that the other has said. In a replay that is today's value, and must come back."""


@final
class Recorder:
    """Records a connection: give it to `open_client`, or `serve_channel`, as ``on_frame``.

    ::

        with Recorder("calls.jsonl") as recorder:
            async with open_client(url, on_frame=recorder) as client:
                ...
        Recording.read("calls.jsonl")

    Each message is a line of JSON: ``time`` (a date of ISO 8601), ``at`` (seconds from the beginning, on Trio's
    clock), ``direction`` (``"sent"`` or ``"received"``) and ``message``. It is what ``trio-mcp --record`` writes.
    Texts and numbers are masked in members whose names say that they are secrets, such as ``password``,
    ``api_key`` or ``accessToken``, the ``value`` beside such a ``name`` or ``key``, also where a text is JSON;
    and in URLs passwords and such parameters. Other texts are recorded as they are, so look at a record before
    you share it. What else is not found is in docs/testing.md.

    Args:
        path: The file. What it held before is gone. Default: none; the record is kept in memory, up to 64 MiB.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._file: TextIO | None = None if path is None else open_record(path)
        self._path: Final = path
        self._frames: list[RecordedFrame] = []
        self._size = 0
        self._begin: float | None = None

    def __call__(self, direction: FrameDirection, data: bytes) -> None:
        """Record a message."""
        if self._begin is None:
            self._begin = trio.current_time()
        frame = frame_of(direction, data, self._begin)
        if self._file is not None:
            write_frame(self._file, frame)
            return
        self._size += len(data)
        if self._size > MAX_KEPT:
            raise RuntimeError(f"more than {MAX_KEPT} bytes of messages: record them in a file, Recorder(path)")
        self._frames.append(frame)

    @property
    def recording(self) -> Recording:
        """What was recorded so far."""
        if self._path is not None:
            return Recording.read(self._path)
        return Recording(self._frames)

    def close(self) -> None:
        """Close the file. Nothing more is recorded in it."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@final
@attrs.frozen
class Recording:
    """A record: the messages of one connection, in order.

    Attributes:
        frames: The messages.
    """

    frames: tuple[RecordedFrame, ...] = attrs.field(converter=tuple[RecordedFrame, ...])

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a file that a `Recorder` or ``trio-mcp --record`` has written.

        Raises:
            OSError: It cannot be read.
            ValueError: A line is none of a record; the text says which.
        """
        frames: list[RecordedFrame] = []
        for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):  # of bytes: by line feeds alone
            try:
                frames.append(_frame_in(json.loads(line.decode())))
            except (ValueError, OverflowError, RecursionError) as error:
                # "line 1" of the line would be taken for that of the file.
                why = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
                raise ValueError(f"{os.fspath(path)}, line {number}: not a line of a record: {why}") from error
        return cls(frames)

    def seen_by(self, side: Literal["client", "server"], recorded_by: Literal["client", "server"]) -> Recording:
        """Return the record as one side has seen it.

        Raises:
            ValueError: There is no such side.
        """
        for name, value in (("side", side), ("recorded_by", recorded_by)):
            if value not in {"client", "server"}:
                raise ValueError(f"{name} must be 'client' or 'server', not {value!r}")
        if side == recorded_by:
            return self
        turned: dict[FrameDirection, FrameDirection] = {"sent": "received", "received": "sent"}
        return Recording([attrs.evolve(frame, direction=turned[frame.direction]) for frame in self.frames])


def _frame_in(line: Any) -> RecordedFrame:
    if not is_object(line) or "message" not in line or "direction" not in line:
        raise ValueError("it is no object with direction and message")
    if line["direction"] not in get_args(FrameDirection):
        raise ValueError(f"direction must be 'sent' or 'received', not {line['direction']!r}")
    at = line.get("at", 0.0)
    if not isinstance(at, (int, float)) or not math.isfinite(at):
        raise ValueError(f"at must be a number of seconds, not {at!r}")
    return RecordedFrame(line["direction"], line["message"], float(at), str(line.get("time", "")))


async def replay_client(
    recording: Recording,
    server: ServesChannels | Channel,
    *,
    ignoring: Collection[str] = (),
    recorded_by: Literal["client", "server"] = "client",
    within: float = WITHIN,
) -> None:
    """Say to a server what a client has said, and compare what the server says with what it has said then.

    What was said is said in the same order, each message when all that was received before it has come. Only a
    ``tasks/get`` that has found its task changed comes no earlier after the task was made than it did, on Trio's
    clock. Answers are found by their ids, other messages by their methods, so concurrent calls may be answered in
    another order.
    Ids and other values that the server chooses and the client gives back, such as ``requestState``, are today's;
    what the server must give back, such as a progress token, is compared.
    Values that are masked in the record match any value.

    Args:
        recording: What was recorded.
        server: A `Server` or `Proxy` in this process, or the client's end of a channel to any server.
        ignoring: Further members that may have any value, by name or the last names of their path
            (``structuredContent.now``), beside those that always differ (`VOLATILE`).
        recorded_by: Which side has recorded it.
        within: How long to wait for each message, in seconds.

    Raises:
        ScriptMismatch: A message differs, has not come, or is one too many.
        ValueError: There is no message in the record, or no such side.
        RecursionError: A recorded message is nested hundreds of levels deep.
    """
    replay = _Replay(recording.seen_by("client", recorded_by).frames, ignoring)
    async with scripted_client(server, within=within) as peer:
        await replay.play(peer)


@asynccontextmanager
async def replay_server(
    recording: Recording,
    *,
    ignoring: Collection[str] = (),
    recorded_by: Literal["client", "server"] = "client",
    within: float = WITHIN,
) -> AsyncGenerator[Channel]:
    """Be a server that answers as another one has, for as long as the block runs: ``open_client(channel)``.

    Each message is sent when all that was received before it has come: what the client says is found by method,
    or by id if it is an answer, and must be what was said then, but for ids and what `ignoring` names. What the
    client gives back, such as a cursor or ``requestState``, must be what it was given.

    Args:
        recording: What was recorded.
        ignoring: As for `replay_client`; also, what the client may say otherwise: ``clientInfo``,
            ``arguments.now``.
        recorded_by: Which side has recorded it.
        within: How long to wait for each message, in seconds.

    Raises:
        ScriptMismatch: The client says something else, or leaves before it has said everything.
        ValueError: There is no message in the record, or no such side.
        RecursionError: A recorded message is nested hundreds of levels deep.
    """
    replay = _Replay(recording.seen_by("server", recorded_by).frames, ignoring)
    async with scripted_server(replay.play, within=within) as channel:
        yield channel


@final
class _Replay:
    """Finds today's messages for recorded ones, and today's values for what is said back."""

    def __init__(self, frames: Sequence[RecordedFrame], ignoring: Collection[str]) -> None:
        if isinstance(ignoring, str):
            raise TypeError(f"ignoring must be a list of names, not the text {ignoring!r}")
        if not frames:
            raise ValueError("there is no message in the record")
        self._frames: Final = frames
        self._matcher: Final = Matcher({*ignoring, "$.id", "$.params.requestId"}, VOLATILE)
        self._early: deque[Any] = deque()  # received, and not looked for yet
        self._ignoring: Final = tuple(f".{path}" for path in ignoring)
        self._today: dict[tuple[str, str], Any] = {}  # by the name of the member, and what was recorded
        self._chosen: Final = _chosen_in(frames)  # by this side, so it must come back as recorded
        self._endless: Final = {way: _without_end_in(frames, way) for way in get_args(FrameDirection)}
        self._later: Callable[[], Iterable[RecordedFrame]] = tuple  # what was recorded after what is expected now

    def today(self, message: Any) -> Any:
        """Return a message to say, with today's values of what the other side has chosen."""
        if isinstance(message, str):
            return message.encode()  # it was no JSON
        return self._with_todays(message, is_answer=_is_answer(message))

    def _with_todays(self, value: Any, *, is_answer: bool) -> Any:
        if is_array(value):
            return [self._with_todays(inner, is_answer=_is_answer(inner)) for inner in value]
        if not is_object(value):
            return value
        members: dict[str, Any] = {}
        for name, inner in value.items():
            kind = _kind(name)
            if name == "requestId" or (name == "id" and is_answer):
                members[name] = self._today.get(("id", _key(inner)), inner)
            elif kind in _GIVEN_BACK:
                members[name] = self._today.get((kind, _key(inner)), inner)
            else:
                members[name] = self._with_todays(inner, is_answer=False)
        return members

    async def play(self, peer: ScriptedPeer) -> None:
        """Say what was said, when all that was received before it has come, and compare what comes.

        Raises:
            ScriptMismatch: Something differs, has not come, or is one too many.
        """
        peer._passes = self._is_given_up
        frames = self._frames
        looks, came = _looks_at_changes(frames), list[float]()
        note = ""
        for number, frame in enumerate(frames):
            if MASKED in frame.line():
                note = f" (in the record, {MASKED} stands for what it does not show, and is said in its place)"
            if frame.direction == "sent":
                if number in looks:
                    made = looks[number]
                    await trio.sleep_until(came[made] + frame.at - frames[made].at + LATER)
                await peer.say(self.today(frame.message))
            else:
                self._later = partial(islice, frames, number + 1, None)
                await self._expect(peer, frame.message, f"message {number + 1} of {len(frames)}{note}")
            came.append(trio.current_time())
        if self._early:
            left = "".join(f"\n  {shown_json(message)}" for message in self._early)
            raise ScriptMismatch(f"this was not recorded:{left}")
        await trio.lowlevel.checkpoint()

    def _is_given_up(self, got: Any) -> bool:
        """Return whether it cancels, or answers, a request that was recorded without an end.

        Over HTTP, a client of the modern era gives a request up by leaving the response, which is no message.
        """
        if is_object(got) and got.get("method") == "notifications/cancelled":
            id = _params_of(got).get("requestId")
            return any(self._today.get(("id", key), ABSENT) == id for key in self._endless["received"])
        return _is_answer(got) and _key(got["id"]) in self._endless["sent"]

    async def _expect(self, peer: ScriptedPeer, recorded: Any, where: str) -> None:
        for got in self._early:
            if self._is_for(recorded, got):
                self._early.remove(got)
                break
        else:
            got = await self._next(peer, recorded, where)
        differences = self._differences(recorded, got)
        if differences:
            raise mismatch(f"{where} differs:", recorded, got, differences)
        self._note(recorded, got)

    async def _next(self, peer: ScriptedPeer, recorded: Any, where: str) -> Any:
        while True:
            try:
                got = await peer.expect(...)
            except ScriptMismatch as error:
                others = "".join(f"\n  meanwhile: {shown_json(other)}" for other in self._early)
                problem = str(error).partition("\n")[0]
                raise mismatch(f"{where}: {problem}{others}", recorded, ABSENT, ()) from error.__cause__
            if self._is_for(recorded, got):
                return got
            if not self._may_come_later(got):
                raise mismatch(f"{where} was expected, and this came, which was not recorded:", recorded, got, ())
            self._early.append(got)

    def _may_come_later(self, got: Any) -> bool:
        """Return whether something like it was recorded later. Of answers that is not known: ids are today's."""
        if is_object(got) and "method" not in got:
            return True
        return any(other.direction == "received" and self._may_be(other.message, got) for other in self._later())

    def _is_for(self, recorded: Any, got: Any) -> bool:
        """Return whether a message is that which was recorded, and not one that was recorded later."""
        if not self._may_be(recorded, got):
            return False
        if not self._differences(recorded, got):
            return True
        return not any(
            other.direction == "received"
            and self._may_be(other.message, got)
            and not self._differences(other.message, got)
            for other in self._later()
        )

    def _may_be(self, recorded: Any, got: Any) -> bool:
        if not (is_object(recorded) and is_object(got)):
            return type(recorded) is type(got)
        then, now = recorded, got
        if "method" in then or "method" in now:
            return then.get("method") == now.get("method") and ("id" in then) == ("id" in now)
        return bool(self._today.get(("id", _key(then.get("id"))), then.get("id")) == now.get("id"))

    def _differences(self, recorded: Any, got: Any) -> list[str]:
        """Return what is different, also in members that may be: in what gives back what was said before."""
        differences = self._matcher.differences(recorded, got)
        then, now = _params_of(recorded), _params_of(got)
        for name, value in then.items():
            expected, path = self._given_back(name, value), f"$.params.{name}"
            if expected is not ABSENT and now.get(name) != expected and not f".{path}".endswith(self._ignoring):
                shown = shown_json(now[name]) if name in now else "nothing"
                differences.append(shown_difference(path, shown_json(expected), shown))
        return differences

    def _given_back(self, name: str, value: Any) -> Any:
        """Return what a member must be today that gives back what was said before; `ABSENT` for any other."""
        if name == "requestId":
            return self._today.get(("id", _key(value)), ABSENT)
        return value if (_kind(name), _key(value)) in self._chosen else ABSENT

    def _note(self, recorded: Any, got: Any) -> None:
        """Note today's values of what this side may have to say back."""
        for then, now in _pairs(recorded, got):
            if "method" in then and "id" in then:
                self._today["id", _key(then["id"])] = now.get("id")
            for name in _GIVEN_BACK:
                if name in then and name in now:
                    self._today[name, _key(then[name])] = now[name]


def _pairs(recorded: Any, got: Any) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the objects in a recorded message, each with that which is in its place today."""
    if is_object(recorded) and is_object(got):
        yield recorded, got
        for name, value in recorded.items():
            yield from _pairs(value, got.get(name))
    elif is_array(recorded) and is_array(got):
        for one, other in zip(recorded, got, strict=False):
            yield from _pairs(one, other)


def _chosen_in(frames: Iterable[RecordedFrame]) -> frozenset[tuple[str, str]]:
    """Return what whoever has recorded this has sent that the other side gives back, by kind."""
    received: set[tuple[str, str]] = set()
    chosen: set[tuple[str, str]] = set()
    for frame in frames:
        said = {
            (name, _key(inner[name]))
            for inner, _ in _pairs(frame.message, frame.message)
            for name in _GIVEN_BACK.intersection(inner)
        }
        if frame.direction == "sent":
            chosen |= said - received
        received |= said
    return frozenset(chosen)


def _without_end_in(frames: Sequence[RecordedFrame], way: FrameDirection) -> set[str]:
    """Return the ids of the requests of one direction that were neither answered nor cancelled."""
    said = [frame.message for frame in frames if frame.direction == way and is_object(frame.message)]
    asked = {_key(message["id"]) for message in said if "method" in message and "id" in message}
    cancelled = {_key(_params_of(message).get("requestId")) for message in said}
    others = [frame.message for frame in frames if frame.direction != way]
    return asked - cancelled - {_key(message["id"]) for message in others if _is_answer(message)}


def _looks_at_changes(frames: Iterable[RecordedFrame]) -> dict[int, int]:
    """Return which requests ``tasks/get`` have found a task changed, each with the answer that has made the task.

    Both are numbers of frames. A task that is older than the record counts as made when that begins.
    """
    looks: dict[str, int] = {}
    changed: dict[int, int] = {}
    found: dict[str, Any] = {}
    made: dict[str, int] = {}
    for number, frame in enumerate(frames):
        message = frame.message if is_object(frame.message) else {}
        id, result = _key(message.get("id")), message.get("result")
        if frame.direction == "sent" and message.get("method") == "tasks/get":
            looks[id] = number
        elif frame.direction == "received" and is_object(result):
            told: Any = result["task"] if is_object(result.get("task")) else result
            task, state = _key(told.get("taskId")), {**told, "lastUpdatedAt": None}
            begun = made.setdefault(task, 0 if id in looks else number)
            if begun < looks.get(id, 0):
                if found.get(task) != state:
                    changed[looks[id]] = begun
                found[task] = state
    return changed


def _params_of(message: Any) -> dict[str, Any]:
    params = message.get("params") if is_object(message) else None
    return params if is_object(params) else {}


def _kind(name: str) -> str:
    """Return under which name the other side has said what a member gives back."""
    return "nextCursor" if name == "cursor" else name


def _is_answer(message: Any) -> bool:
    return is_object(message) and "method" not in message and "id" in message


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
