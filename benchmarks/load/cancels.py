"""Storms of cancellation: how long until each handler's ``finally`` has run, and how many never do."""

from __future__ import annotations

import json
import statistics
import time
from array import array
from collections.abc import Mapping
from typing import Any, Final

from trio_mcp._bench._http_links import HttpLink
from trio_mcp._bench._links import Link, LoadError
from trio_mcp._bench._loops import HANGS, Sample
from trio_mcp._bench._opening import ask_once

__all__ = ["measure_cancels"]

PATIENCE: Final = 5.0
LOOK_SECONDS: Final = 0.005


def measure_cancels(link: Link, options: Mapping[str, Any], seconds: float) -> Sample:
    """Start so many handlers that wait for ever, and give them all up; again and again.

    Both processes read the same clock of the machine, the monotonic one.

    Raises:
        LoadError: A handler did not start.
    """
    lanes: int = options["in_flight"]
    latencies: array[int] = array("Q")
    storms = lost = 0
    began = time.monotonic()
    while time.monotonic() - began < seconds or not storms:
        given_up = storm(link, lanes, storms)
        ended = collect(link, lanes, given_up)
        lost += len(given_up) - len(ended)
        for key, at in ended.items():
            latencies.append(max(0, at - given_up[key]))
        storms += 1
    if not latencies:
        raise LoadError(f"no handler ended within {PATIENCE} s")
    return Sample(
        value=statistics.median(latencies) / 1e6,
        operations=len(latencies),
        seconds=time.monotonic() - began,
        latencies=latencies,
        facts={"left_over": lost},
    )


def storm(link: Link, lanes: int, number: int) -> Mapping[str, int]:
    """Start handlers, wait until all of them run, give them all up; return when."""
    link.payload = b""
    link.open_lanes(lanes + 1)  # one for questions meanwhile
    if isinstance(link, HttpLink) and not link.dialect.is_modern:
        link.expect_replies(lanes)
    running: dict[int, tuple[int, str]] = {}
    for lane in range(lanes):
        id = link.ids.take()
        key = f"{number}-{lane}"
        running[id] = lane, key
        link.send(
            lane, link.template("tools/call", {"name": "hold", "arguments": {"key": key}}, progress=True).fill(id)
        )
    started: set[int] = set()
    while len(started) < lanes:
        messages = link.poll(HANGS)
        if not messages:
            raise LoadError(f"only {len(started)} of {lanes} handlers started")
        for _, message in messages:
            if message.get("method") == "notifications/progress":
                started.add(message["params"]["progressToken"])
            elif "error" in message:
                raise LoadError(f"a handler did not start: {message}")
    given_up: dict[str, int] = {}
    for id, (lane, key) in running.items():
        given_up[key] = time.monotonic_ns()
        link.give_up(lane, id)
    return given_up


def collect(link: Link, lanes: int, given_up: Mapping[str, int]) -> Mapping[str, int]:
    """Return when which of the handlers ended."""
    ended: dict[str, int] = {}
    deadline = time.monotonic() + PATIENCE
    while len(ended) < len(given_up) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        result = ask_once(link, "tools/call", {"name": "ended", "arguments": {}}, lane=lanes)
        said: Mapping[str, int] = json.loads(result["content"][0]["text"])
        ended |= {key: at for key, at in said.items() if key in given_up}
    # A request that was given up may never be answered, and its connection is then of no more use.
    link.open_lanes(0)
    return ended
