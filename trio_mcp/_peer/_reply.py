"""Runs the handler of one exchange to its reply, wherever the exchange came from.

What is promised for every request is promised here: failures are masked, a granted time that is over cancels the
handler, and a caller that does not give up after all is not left waiting. Where the reply goes is not known here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import trio

from .._codec._jsonrpc import encode_error, encode_response
from .._contained import Contained, going_on
from .._errors import CANCELLED_BY_DEADLINE, INTERNAL_ERROR, SERVER_BUSY, RequestError
from .._limits import Limits
from .._logs import Log
from ._exchange import Exchange, Handler

__all__ = ["Reply", "make_reply", "note_failure", "reply_to", "settle"]

_log: Final = Log("trio_mcp.peer")


@final
@attrs.frozen
class Reply:
    """What answers a request.

    Attributes:
        data: The message.
        error_code: The code of the error that it is; `None` for a result.
    """

    data: bytes
    error_code: int | None = None

    @classmethod
    def of_error(cls, exchange: Exchange, error: RequestError) -> Reply:
        """Return the reply that is this error."""
        return cls(encode_error(exchange.request.id, error), error.code)


async def reply_to(
    exchange: Exchange,
    handler: Handler,
    limits: Limits,
    wait_room: Callable[[], Awaitable[None]] | None = None,
) -> Reply | None:
    """Run the handler of an exchange. What it raises becomes the reply.

    Args:
        exchange: The request; its scope is entered here.
        handler: Serves it.
        limits: How large a reply may be, and how long a caller whose time is over is waited for.
        wait_room: Waits, inside the exchange, until there is room for the reply.

    Returns:
        The reply; `None` if the other side has given the request up.
    """
    reply: Reply | None = None
    failures: list[BaseException] = []
    with Contained(failures.append, exchange.scope):
        if not exchange.given_up:
            reply = await make_reply(exchange, handler, limits, wait_room)
    if failures:
        reply = note_failure(exchange, failures[0])
    if reply is None or exchange.scope.cancel_called:
        return await settle(exchange, reply, limits)
    return reply


async def settle(exchange: Exchange, reply: Reply | None, limits: Limits) -> Reply | None:
    """Decide what becomes of an exchange whose scope was cancelled, and see to it that its caller does not wait.

    Args:
        exchange: The request; its scope is left.
        reply: What its handler has made of it all the same. It counts where serving ends, and not when the time
            granted is over: then the caller is told that, whatever the handler has swallowed.
        limits: How long a caller whose time is over is waited for.

    Returns:
        The reply; `None` if the other side has given the request up.
    """
    # When only the granted time is over, the caller's cancellation is on its way, and an answer would cross it.
    # If it does not come, the caller must not be left waiting.
    with trio.move_on_after(limits.goodbye_timeout):
        await exchange.wait_abandoned()
    if exchange.given_up:
        return None
    exchange.end_companion("the request has ended")
    return reply if reply is not None and exchange.stopped else _too_late(exchange)


def note_failure(exchange: Exchange, error: BaseException) -> Reply:
    """Return the reply to a request whose handler has failed, and tell our log why: it alone is told.

    Args:
        exchange: The request.
        error: What its handler has raised, or has left behind.
    """
    when = " while it was being cancelled" if exchange.scope.cancel_called else ""
    _log.error("the handler of %s failed%s", exchange.request.method, when, exc_info=error)
    return Reply.of_error(exchange, RequestError(INTERNAL_ERROR, "internal error"))


async def make_reply(
    exchange: Exchange,
    handler: Handler,
    limits: Limits,
    wait_room: Callable[[], Awaitable[None]] | None,
) -> Reply:
    """Run the handler of an exchange, whose scope is entered, and return what answers its request.

    Args:
        exchange: The request.
        handler: Serves it.
        limits: How large a reply may be.
        wait_room: Waits until there is room for the reply.
    """
    request = exchange.request
    try:
        try:
            reply = Reply(encode_response(request.id, await handler(exchange)))
        except RequestError as error:
            reply = Reply.of_error(exchange, error)
        if len(reply.data) > limits.max_message_bytes:
            problem = f"the answer is {len(reply.data)} bytes; max_message_bytes is {limits.max_message_bytes}"
            _log.error("%s: %s", request.method, problem)
            reply = Reply.of_error(exchange, RequestError(INTERNAL_ERROR, problem))
    except BaseException as error:  # noqa: ASYNC103
        # The boundary of one request: whatever fails in a handler is the answer to it, told to our log in
        # full and to the other side not at all.
        passing = going_on(error)
        if passing is error:
            raise
        reply = note_failure(exchange, error)
        if passing is not None:
            raise passing from None  # noqa: ASYNC104
    if wait_room is not None:
        await wait_room()
    return reply


def _too_late(exchange: Exchange) -> Reply:
    """Return the reply to a request whose handler was cancelled, although the caller has not given it up."""
    if exchange.stopped:
        error = RequestError(SERVER_BUSY, "serving ended before the request was done")
    else:
        error = RequestError(CANCELLED_BY_DEADLINE, "the time granted for the request is over")
    return Reply.of_error(exchange, error)
