"""Load: so many requests in flight, each answer checked, each latency kept; floods of notifications."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, final

import attrs

from ._links import Link, LoadError, now
from ._messages import Message, Template
from ._opening import answer_question

HANGS: Final = 20.0
"""Seconds of silence after which a server hangs."""
ROUNDED_TO: Final = 10
"""How many binary digits of a latency are kept: three decimal ones."""


@final
@attrs.frozen(kw_only=True)
class Sample:
    """What one measurement found.

    Attributes:
        value: The figure, in the workload's unit.
        operations: How much was done, of whatever is counted.
        seconds: How long that took.
        latencies: Of each operation, in nanoseconds.
        facts: What else was found.
        curve: How the figure came about, where that is a line: pairs of numbers.
    """

    value: float
    operations: int
    seconds: float
    latencies: array[int] = attrs.field(factory=lambda: array("Q"))
    facts: Mapping[str, float] = attrs.field(factory=dict[str, float])
    curve: tuple[tuple[float, float], ...] = ()


def counted(latencies: Iterable[int]) -> list[tuple[int, int]]:
    """Return how often each latency was seen, rounded."""
    counts: dict[int, int] = {}
    for latency in latencies:
        shift = max(0, latency.bit_length() - ROUNDED_TO)
        rounded = latency >> shift << shift
        counts[rounded] = counts.get(rounded, 0) + 1
    return sorted(counts.items())


@final
@attrs.frozen(kw_only=True)
class Calls:
    """What is asked again and again, and what the answer must be.

    Attributes:
        method: The method.
        params: Its parameters.
        check: Whether a result is right.
        payload: A long text that comes in the answers; see `Link.payload`.
        progress: Whether a report of progress is asked for.
        meta: What else is in ``_meta``.
        size: What one call counts for.
    """

    method: str
    params: Mapping[str, Any]
    check: Callable[[Message], bool]
    payload: bytes = b""
    progress: bool = False
    meta: Mapping[str, Any] | None = None
    size: float = 1

    def template(self, link: Link) -> Template:
        """Return the request as a link sends it."""
        return link.template(self.method, self.params, progress=self.progress, meta=self.meta)


def keep_in_flight(
    link: Link, calls: Calls, lanes: int, seconds: float, *, patience: float = HANGS, most: int | None = None
) -> Sample:
    """Keep so many requests in flight for so long, and then wait for the last answers.

    Args:
        link: Where to.
        calls: What is asked.
        lanes: How many are in flight.
        seconds: How long.
        patience: How many seconds of silence are waited for.
        most: How many requests there are at most.

    Raises:
        LoadError: An answer was wrong, or none came.
    """
    link.payload = calls.payload
    link.open_lanes(lanes)
    template = calls.template(link)
    pending: dict[int, tuple[int, int]] = {}
    latencies: array[int] = array("Q")
    keep, fill, send, take, check = latencies.append, template.fill, link.send, link.ids.take, calls.check
    began = now()
    first = 0
    for lane in range(lanes):
        id = take()
        first = first or id
        pending[id] = lane, began
        send(lane, fill(id))
    left = -1 if most is None else max(0, most - lanes)
    end = began + int(seconds * 1e9)
    last = began
    while pending:
        messages = link.poll(patience)
        last = now()
        if not messages:
            raise LoadError(f"{len(pending)} requests were not answered within {patience:g} s")
        for _, message in messages:
            if "method" in message:
                answer_question(link, message)
                continue
            of = pending.pop(message.get("id", 0), None)
            if of is None:
                if isinstance(message.get("id"), int) and message["id"] < first:
                    continue  # of what was given up before
                raise LoadError(f"an answer to nothing: {str(message)[:500]}")
            lane, sent = of
            if "result" not in message or not check(message["result"]):
                raise LoadError(f"wrong answer: {str(message)[:500]}")
            keep(last - sent)
            if last < end and left:
                left -= 1
                id = take()
                pending[id] = lane, last
                send(lane, fill(id))
    took = (last - began) / 1e9
    done = len(latencies)
    return Sample(value=done * calls.size / took, operations=done, seconds=took, latencies=latencies)


def receive_floods(
    link: Link,
    template: Template,
    seconds: float,
    *,
    notification: str,
    count: int | None,
    patience: float = HANGS,
) -> Sample:
    """Have a request answered after very many notifications, again and again for so long.

    Args:
        link: Where to.
        template: The request.
        seconds: How long.
        notification: The method of the notifications.
        count: How many must come before each answer; `None` if that is not known.
        patience: How many seconds of silence are waited for.

    Raises:
        LoadError: Notifications were missing, out of order or wrong.
    """
    received = 0
    began = last = now()
    end = began + int(seconds * 1e9)
    while last < end or not received:
        id = link.ids.take()
        link.send(0, template.fill(id))
        run = 0
        is_answered = False
        before = 0.0
        while not is_answered:
            messages = link.poll(patience)
            if not messages:
                raise LoadError(f"the flood stopped after {run} notifications")
            for _, message in messages:
                if message.get("method") == notification:
                    run += 1
                    before = _checked(message, before, run if count is not None else None)
                elif "method" in message:
                    answer_question(link, message)
                elif message.get("id") != id or "result" not in message:
                    raise LoadError(f"wrong answer: {str(message)[:500]}")
                else:
                    is_answered = True
        if run != count if count is not None else not run:
            raise LoadError(f"{run} notifications came instead of {'some' if count is None else count}")
        received += run
        last = now()
    took = (last - began) / 1e9
    return Sample(value=received / took, operations=received, seconds=took)


def _checked(message: Message, before: float, expected: int | None) -> float:
    """Return how far a report of progress is, which must be further than the one before."""
    progress: Any = message["params"].get("progress")
    if progress is None:
        return before
    if progress != expected if expected is not None else progress <= before:
        raise LoadError(f"wrong progress: {message}, after {before:g}")
    return float(progress)
