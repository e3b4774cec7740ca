"""Doing what a page asks for that a host shows. What it may ask for is decided in `_core/_app_view`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

import trio

from .._codec._jsonrpc import to_json
from .._core._app_view import REFUSED, AppView, ViewAsk
from .._errors import INTERNAL_ERROR, McpError, RequestError
from .._limits import check_given
from .._logs import Log
from .._printable import kind_shown
from ._client import Client

_log: Final = Log("trio_mcp.client")

OnViewAsk: TypeAlias = Callable[[ViewAsk], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]
"""Does what a page asks of its host, and returns the result, or `None` for an empty one.

It raises `RequestError` to refuse, whose message the page reads. What it returns for a notification is ignored.
"""


async def serve_view(
    client: Client, view: AppView, message: str | bytes | Mapping[str, Any], *, on_ask: OnViewAsk | None = None
) -> list[dict[str, Any]]:
    """Do what a message of a page asks for, and return what is to be sent to the page then.

    Calls of tools and reading of resources go to the server, those of tools as `Client.call_tool`: within the
    caller's deadline, and with the client's own handlers for questions. Call it for each message, several at once
    if you like; what `AppView` refuses never reaches the server. Cancelled, it cancels the request at the server,
    and the request counts as open no longer.

    Args:
        client: A client of the page's own server.
        view: The page.
        message: What it has sent, as JSON or decoded.
        on_ask: Does what is left: everything that `AppView.offers` names, and notifications. Without it these are
            refused, or ignored.

    Returns:
        Messages as plain JSON, to be sent in this order; often none.

    Raises:
        TypeError: `on_ask` has returned no mapping, or an argument is of another kind.
        trio.ClosedResourceError: The client was closed.
        Others: What `on_ask` raises, but for `RequestError`.
    """
    check_given(serve_view, {"client": client, "view": view, "on_ask": on_ask})
    await trio.lowlevel.checkpoint()
    outcome = view.received(message)
    if outcome.problem is not None:
        _log.warning("a message of the page %.200s: %s", view.page.uri, outcome.problem)
    sent, ask = list(outcome.send), outcome.ask
    if ask is None or ask.id is None:
        if ask is not None and on_ask is not None:
            with suppress(RequestError):  # which nobody reads
                await _done(on_ask, ask)
        return sent
    try:
        result = await _result(client, ask, on_ask)
    except RequestError as error:
        return [*sent, view.refuse(ask, error.message, error.code)]
    except (McpError, _Silent) as error:
        _log.warning("%s of the page %.200s failed: %s", ask.method, view.page.uri, error)
        return [*sent, view.refuse(ask, "the server could not be asked", INTERNAL_ERROR)]
    except BaseException:
        view.refuse(ask, "given up")
        raise
    return [*sent, view.answer(ask, result)]


class _Silent(Exception):
    """The server has not answered in time. What `on_ask` raises by itself is not meant."""


async def _result(client: Client, ask: ViewAsk, on_ask: OnViewAsk | None) -> Mapping[str, Any] | None:
    if ask.method not in {"tools/call", "resources/read"}:
        return await _done(on_ask, ask)
    try:
        if ask.method == "tools/call":
            return _plain(await client.call_tool(ask.params["name"], ask.params.get("arguments")))
        return _plain(await client.read_resource(ask.params["uri"]))
    except trio.TooSlowError as error:  # `request_timeout`; the caller's own deadlines are no errors here
        raise _Silent(str(error)) from error


def _plain(result: object) -> dict[str, Any]:
    return {name: value for name, value in to_json(result).items() if name != "resultType"}


async def _done(on_ask: OnViewAsk | None, ask: ViewAsk) -> Mapping[str, Any] | None:
    if on_ask is None:
        raise RequestError(REFUSED, f"this host does not serve {ask.method}")
    await trio.lowlevel.checkpoint()
    answered = on_ask(ask)
    result = await answered if isinstance(answered, Awaitable) else answered
    if result is not None and not isinstance(cast("object", result), Mapping):
        raise TypeError(f"on_ask returned {kind_shown(result)}: return a mapping, or None for an empty result")
    return result
