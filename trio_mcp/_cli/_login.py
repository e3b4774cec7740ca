"""``login``, ``logout`` and ``--auth``: somebody at a terminal, whose tokens a file keeps for later commands."""

from __future__ import annotations

import attrs
import trio

from .._auth._grants import OAuth
from .._auth._stores import FileTokenStore
from .._bindings._http_messages import HttpServerParameters
from .._bindings._websocket_client import WebSocketServerParameters
from .._client._client import Client
from .._client._open import Target, can_have_auth, parameters_of
from .._errors import AuthorizationFailed
from .._http._target import parse_target
from ._console import Console
from ._parser import Exit, Failure, Options
from ._targets import ServedFile, target_of


def with_login(target: Target | ServedFile, label: str, options: Options) -> Target:
    """Return a target that the user is logged in at, if the server wants that.

    Raises:
        Failure: It is no server at a URL.
    """
    if isinstance(target, str):
        target = parameters_of(target)
    if not isinstance(target, (HttpServerParameters, WebSocketServerParameters)) or not can_have_auth(target):
        raise Failure(Exit.USAGE, f"logging in is for servers that are reached over HTTP, not for {label}")
    return attrs.evolve(target, auth=_oauth(options))


def _oauth(options: Options) -> OAuth:
    return OAuth(
        client_name="trio-mcp",
        store=FileTokenStore(),
        client_id=options.client_id,
        issuer=options.issuer,
        scopes=options.scope,
    )


async def log_in(client: Client, _options: Options, console: Console) -> int:
    """Do what only somebody may who is logged in: many servers let anybody begin a connection."""
    if client.server_capabilities is None or client.server_capabilities.tools is not None:
        await client.list_tools()
    else:
        await client.ping()
    await console.say("the server has answered; commands with --auth are logged in")
    return Exit.DONE


def log_out(options: Options) -> int:
    """Forget the token for a server, and revoke it.

    Raises:
        Failure: There is none.
    """
    return trio.run(_log_out, options)


async def _log_out(options: Options) -> int:
    console = Console()
    target, label = await target_of(options, stderr=console.quote_line)
    target = with_login(target, label, options)
    assert isinstance(target, (HttpServerParameters, WebSocketServerParameters))
    try:
        was_logged_in = await _oauth(options).log_out(parse_target(target.target.url).shown)
    except AuthorizationFailed as error:
        raise Failure(Exit.FAILED, str(error)) from error
    if not was_logged_in:
        raise Failure(Exit.FAILED, f"nobody is logged in at {label}")
    await console.say(f"logged out of {label}")
    return Exit.DONE
