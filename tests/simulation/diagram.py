"""Draws a log: what went over the wire between its two ends, and beside it what callers and handlers noted."""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

WIDTH: Final = 58
LEFT_OUT: Final = frozenset(
    {"begin", "gauges", "in", "http-heard", "http-request", "http-served", "told-ended", "shown"}
)

Event = dict[str, Any]


def draw(events: Sequence[Event], marked: Iterable[int] = ()) -> Iterator[str]:
    """Yield a line for each event that is worth one.

    Args:
        events: The log.
        marked: The numbers of events to point at, which are drawn in any case.
    """
    marks = set(marked)
    clients = {event.get("client", event.get("conn", 0)) for event in events}
    several = len([client for client in clients if client is not None and client >= 0]) > 1
    yield f"{'':14}{'client':<{WIDTH // 2}}{'server':>{WIDTH // 2}}"
    for event in events:
        is_marked = event["i"] in marks
        if event["ev"] in LEFT_OUT and not is_marked:
            continue
        who = event.get("client", event.get("conn"))
        number = f"{who}" if several and who is not None else ""
        yield f"{'>' if is_marked else ' '}{event['i']:4} {event['t']:8.3f}{number:>2} {_line(event)}"


def _line(event: Event) -> str:
    ev = event["ev"]
    match ev:
        case "out":
            return _arrow(short(event["raw"]), to_right=event["end"] == "client")
        case "in":
            return _arrow(f"got {short(event['raw'])}", to_right=event["end"] == "server", dashed=True)
        case "http-sent":
            return _arrow(f"#{event['stream']} {event['method']} {short(event['raw'])}", to_right=True)
        case "http-said":
            said = " ".join(short(line[6:]) for line in event["raw"].split("\n") if line.startswith("data: {"))
            return _arrow(f"#{event['stream']} {said or short(event['raw'])}", to_right=False)
        case "http-head":
            return _arrow(f"#{event['stream']} {event['status']}", to_right=False)
        case "http-end":
            return f" #{event['stream']} {event['how']} ".center(WIDTH, "-")
        case (
            "stall" | "cut" | "break" | "damage" | "restart"
            | "server-ending" | "server-ended" | "closing" | "hanging-up"
        ):  # fmt: skip
            shown = ("end", "seconds", "how", "crash", "code", "stream", "kind")
            about = " ".join(f"{name}={event[name]}" for name in shown if name in event)
            return f" {ev} {about} ".center(WIDTH, "~")
        case _:
            skipped = {"i", "t", "ev", "client", "conn", "left", "scopes", "silence", "parts", "timeout"}
            about = " ".join(f"{k}={v}" for k, v in event.items() if k not in skipped and v not in (None, ""))
            return f"{'':{WIDTH}} {ev} {about}"[:170]


def _arrow(text: str, *, to_right: bool, dashed: bool = False) -> str:
    stroke = "." if dashed else "-"
    text = text if len(text) <= WIDTH - 8 else f"{text[: WIDTH - 9]}…"
    line = f" {text} ".center(WIDTH - 2, stroke)
    return f"{line}->" if to_right else f"<-{line}"


def short(raw: str) -> str:
    """Return what is worth to be said of a message."""
    try:
        value: Any = json.loads(raw)
    except ValueError:
        return raw[:30].strip()
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return _short(value)


def _short(message: Any) -> str:
    if not isinstance(message, dict):
        return repr(message)
    params = message.get("params") or {}
    id = f" {message['id']}" if message.get("id") is not None else ""
    match message.get("method"):
        case None:
            if "error" in message:
                return f"error{id}: {message['error'].get('code')}"
            kind = message.get("result", {}).get("resultType")
            return f"{'input required' if kind == 'input_required' else 'result'}{id}"
        case "notifications/cancelled":
            return f"cancelled {params.get('requestId')}"
        case "notifications/progress":
            return f"progress {params.get('progressToken')}: {params.get('progress')}"
        case method:
            named = (params.get("arguments") or {}).get("token") or params.get("uri") or params.get("message")
            return f"{method}{id}" + (f" ({named})" if isinstance(named, str) else "")
