"""What the tests of send queue share in several layers."""

from __future__ import annotations

from typing import cast

from inside_peer import Exchange, ExchangeSink, QueuedMessage, SendQueue
from inside_wire import Request

from trio_mcp import Outgoing


def exchanges(count: int) -> list[Exchange]:
    nowhere = cast("ExchangeSink", None)  # nothing is sent
    return [Exchange(Request(id, "tools/call", None), None, 0.0, nowhere) for id in range(count)]


def open_queue() -> SendQueue:
    return SendQueue(1_000_000_000, lambda: None)


def said(exchange: Exchange, number: int) -> QueuedMessage:
    return QueuedMessage(Outgoing(b"%d" % number), exchange=exchange)


def answered(exchange: Exchange, number: int) -> QueuedMessage:
    return QueuedMessage(Outgoing(b"%d" % number, answers=(exchange.request.id,)), exchange=exchange)
