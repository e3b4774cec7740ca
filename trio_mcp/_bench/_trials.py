"""What is measured of any server, whatever it is written in and whatever it does: a function each."""

from __future__ import annotations

import statistics
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from ._figures import slope_of
from ._links import Link, LoadError, now, seconds_now
from ._loops import HANGS, Calls, Sample, keep_in_flight, receive_floods
from ._messages import Message
from ._opening import Opened, agree, answer_question, ask_once, discover, leave, open_server

FILLER: Final = "The quick brown fox jumps over the lazy dog. 0123456789 "
PADDING: Final = "trio-mcp/padding"
"""The member of ``_meta`` that makes a request long; servers ignore it."""
ENCODED_ALIKE: Final = 100_000
"""Texts longer than this are looked for in answers instead of decoded."""
MEGABYTE: Final = 1e6
NOTIFIED: Final = 1_000
"""How many notifications are sent before a request shows that they have been taken."""
UNKNOWN: Final = 99_999_999
"""The id of a request that there was none of: a cancellation of it must be ignored."""
DEADLINE: Final = 0.05
"""After how many seconds a call is given up."""
WATCHED: Final = 0.5
"""How many seconds it is watched whether a server falls silent."""
TOO_QUICK: Final = 5
"""After how many answers within the deadline nothing is given up any more."""
SETTLE_SECONDS: Final = 0.3
LEAST_IDLE: Final = 1.0
"""How many seconds a server is watched that has nothing to do, at least."""
LOOKS: Final = 60
"""How often memory is looked at while calls are made."""
AN_HOUR: Final = 36_000
"""How many calls are those of an hour: ten a second."""


def text_of(size: int) -> str:
    """Return a text of so many bytes, without anything that JSON escapes."""
    return (FILLER * (size // len(FILLER) + 1))[:size]


def is_fine(result: Message) -> bool:
    """Whether a result is none of a tool that has failed."""
    return not result.get("isError")


def _calls_of(options: Mapping[str, Any]) -> Calls:
    """Return what is asked: a call as it was tried, with a long text in it if a size is given."""
    method: str = options["call"]["method"]
    params: Message = options["call"]["params"]
    size: int = options.get("size", 0)
    if not size:
        return Calls(method=method, params=params, check=is_fine)
    text = text_of(size)
    if options.get("echoes") is None:
        return Calls(method=method, params=params, check=is_fine, meta={PADDING: text}, size=size / MEGABYTE)
    arguments = {**params["arguments"], options["echoes"]: text}
    return Calls(
        method=method,
        params={**params, "arguments": arguments},
        check=is_fine,
        payload=text.encode() if size > ENCODED_ALIKE else b"",
        size=size / MEGABYTE,
    )


def measure_calls(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Keep so many calls in flight.

    Raises:
        LoadError: One failed, or was not answered.
    """
    patience = options.get("patience", HANGS)
    return keep_in_flight(link, _calls_of(options), options["in_flight"], seconds, patience=patience)


def measure_flood(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Have a tool report progress as often as it likes.

    Raises:
        LoadError: It did not.
    """
    link.payload = b""
    link.open_lanes(1)
    template = link.template(**options["flood"], progress=True)
    return receive_floods(
        link,
        template,
        seconds,
        notification="notifications/progress",
        count=None,
        patience=options.get("patience", HANGS),
    )


def measure_notified(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Send very many notifications that mean nothing; when the call behind them is answered, they were taken.

    Raises:
        LoadError: It was not.
    """
    link.payload = b""
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": UNKNOWN}}
    sent = 0
    began = last = now()
    while last - began < seconds * 1e9 or not sent:
        for _ in range(NOTIFIED):
            link.reply(cancelled)
        ask_once(link, **options["call"], within=options.get("patience", HANGS))
        sent += NOTIFIED
        last = now()
    took = (last - began) / 1e9
    return Sample(value=sent / took, operations=sent, seconds=took)


@final
class _GivenUp:
    """A call that is given up, and what the server still says about it."""

    def __init__(self, link: Link, id: int) -> None:
        self._link = link
        self._id = id
        self.is_answered = False
        self.heard_at = 0

    def watch(self, seconds: float, until: Callable[[Message], bool]) -> bool:
        """Read what comes, at most so long; return whether what was waited for has come."""
        end = seconds_now() + seconds
        while (left := end - seconds_now()) > 0:
            for _, message in self._link.poll(left):
                self._note(message)
                if until(message):
                    return True
        return False

    def _note(self, message: Message) -> None:
        if "method" in message:
            answer_question(self._link, message)
            params: Any = message.get("params") or {}
            is_about = params.get("progressToken") == self._id
        else:
            is_about = message.get("id") == self._id
            self.is_answered = self.is_answered or is_about
        if is_about:
            self.heard_at = now()


def measure_giving_up(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Give up slow calls at a deadline, and see how long until another call is answered, and what comes late.

    Raises:
        LoadError: The call is not slow, or no other one is answered.
    """
    link, slow, other = opened.link, options["slow"], options["call"]
    patience: float = options.get("patience", HANGS)
    link.payload = b""
    latencies: array[int] = array("Q")
    silences: list[float] = []
    late = quick = 0
    began = seconds_now()
    while seconds_now() - began < seconds or not latencies:
        link.open_lanes(2)
        id = link.ids.take()
        link.send(0, link.template(**slow, progress=True).fill(id))
        call = _GivenUp(link, id)
        if call.watch(DEADLINE, lambda message: message.get("id") == id and "method" not in message):  # noqa: B023 - at once
            quick += 1
            if quick == TOO_QUICK:
                raise LoadError(
                    f"the call is answered within {DEADLINE} s, so there is nothing to give up; see --slow"
                )
            continue
        call.heard_at = 0
        at = now()
        link.give_up(0, id)
        asked = link.ids.take()
        link.send(1, link.template(**other).fill(asked))
        if not call.watch(patience, lambda message: message.get("id") == asked):  # noqa: B023 - at once
            raise LoadError(f"after a call was given up, another one was not answered within {patience:g} s")
        latencies.append(now() - at)
        call.watch(WATCHED, lambda _: False)
        late += call.is_answered
        silences.append(max(0, call.heard_at - at) / 1e6)
        link.open_lanes(
            0
        )  # a response that was given up may never come, and its connection is then of no more use
    return Sample(
        value=statistics.median(latencies) / 1e6,
        operations=len(latencies),
        seconds=seconds_now() - began,
        latencies=latencies,
        facts={"late": late, "silence_ms": statistics.median(silences)},
    )


def measure_connects(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Connect, agree, ask what is to be called, if anything is, and leave again; one after the other.

    Raises:
        LoadError: The server does not want that.
    """
    latencies: array[int] = array("Q")
    began = last = now()
    while last - began < seconds * 1e9 or not latencies:
        link = opened.connect_again()
        if link.dialect.is_modern:
            discover(link, within=options.get("patience", HANGS))
        else:
            agree(link)
        if "call" in options:
            ask_once(link, **options["call"])
        leave(link)
        at = now()
        latencies.append(at - last)
        last = at
    took = (last - began) / 1e9
    return Sample(value=len(latencies) / took, operations=len(latencies), seconds=took, latencies=latencies)


def measure_memory(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """See how much memory the server has, once it has come to rest.

    Raises:
        LoadError: Nobody knows.
    """
    time.sleep(SETTLE_SECONDS)
    return Sample(value=opened.memory_bytes() / 2**20, operations=1, seconds=SETTLE_SECONDS)


def measure_idle(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """See how much the server computes while nobody wants anything of it.

    Raises:
        LoadError: Nobody knows.
    """
    server = opened.process()
    time.sleep(SETTLE_SECONDS)
    began, before, woken = seconds_now(), server.cpu_seconds(), server.wakeups()
    time.sleep(max(LEAST_IDLE, 5 * seconds))
    took = seconds_now() - began
    server.check_alive()
    return Sample(
        value=(server.cpu_seconds() - before) * 1e3 / took,
        operations=1,
        seconds=took,
        facts={"wakeups": (server.wakeups() - woken) / took},
    )


def measure_growth(opened: Opened, options: Mapping[str, Any], seconds: float) -> Sample:
    """Make the calls of an hour as fast as they go, and see how memory grows with them.

    The slope is that of the second half: before, what is loaded and kept when it is first needed still grows.

    Raises:
        LoadError: A call failed, or nobody knows how much memory the server has.
    """
    calls, patience = _calls_of(options), options.get("patience", HANGS)
    most: int = options.get("calls", AN_HOUR)
    at_most: float = options["seconds"]
    began = seconds_now()
    done = 0
    curve: list[tuple[float, float]] = [(0.0, opened.memory_bytes() / 2**20)]
    while done < most and seconds_now() - began < at_most:
        share = min(most - done, most // LOOKS + 1)
        lanes = min(options["in_flight"], share)
        sample = keep_in_flight(opened.link, calls, lanes, at_most / LOOKS, patience=patience, most=share)
        done += sample.operations
        curve.append((float(done), opened.memory_bytes() / 2**20))
    slope = slope_of(curve[len(curve) // 2 :])
    if slope is None:
        raise LoadError("too few calls were made to see how memory grows")
    kib = 1_000 * 1024
    return Sample(
        value=slope.median * kib,
        operations=done,
        seconds=seconds_now() - began,
        facts={
            "calls": done,
            "low": slope.low * kib,
            "high": slope.high * kib,
            "an_hour_mib": slope.median * AN_HOUR,
        },
        curve=tuple(curve),
    )


def measure_start(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Start a server and wait for its first answer.

    Raises:
        LoadError: There was none.
    """
    began = now()
    opened = open_server(job)
    try:
        ask_once(opened.link, **options["call"])
        took = (now() - began) / 1e9
    finally:
        opened.close()
    return Sample(value=took * 1e3, operations=1, seconds=took)


LINKED: Final = {"calls": measure_calls, "flood": measure_flood, "notified": measure_notified}
OPENED: Final = {
    "connect": measure_connects,
    "give-up": measure_giving_up,
    "memory": measure_memory,
    "idle": measure_idle,
    "growth": measure_growth,
}
