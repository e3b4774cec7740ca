"""``login``, ``logout``, ``--auth`` and ``cimd``: somebody at a terminal, whose tokens a file keeps."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import attrs
import trio

from .._auth._listener import PATH, open_in_browser
from .._auth._person import OAuth
from .._auth._stores import FileTokenStore
from .._bindings._http_messages import HttpServerParameters
from .._bindings._websocket_client import WebSocketServerParameters
from .._client._client import Client
from .._client._open import Target, can_have_auth, parameters_of
from .._codec import _json
from .._errors import AuthorizationFailed, McpError
from .._http._client import open_http_client, send_following
from .._http._messages import HttpRequest
from .._http._target import parse_target
from .._limits import KIB
from .._oauth._clients import (
    DEVICE_CODE,
    PrivateKeyJwt,
    check_metadata_document,
    check_metadata_url,
    metadata_document,
)
from .._oauth._code import DeviceCode
from .._oauth._metadata import is_loopback
from .._oauth._protected_resource import check_url
from .._printable import shown_url
from ._arguments import check_sendable
from ._console import Console
from ._parser import Exit, Failure, Options
from ._questions import read_line
from ._targets import ServedFile, target_of


def with_login(
    target: Target | ServedFile, label: str, options: Options, console: Console | None = None
) -> Target:
    """Return a target that the user is logged in at, if the server wants that.

    Args:
        target: The server.
        label: The same, for people.
        options: Who the user is, and how they log in.
        console: Where that is asked, if not in the browser.

    Raises:
        Failure: It is no server at a URL, or the options do not fit.
    """
    if isinstance(target, str):
        target = parameters_of(target)
    if not isinstance(target, (HttpServerParameters, WebSocketServerParameters)) or not can_have_auth(target):
        raise Failure(Exit.USAGE, f"logging in is for servers that are reached over HTTP, not for {label}")
    if options.device and options.registered_uri is not None:
        raise Failure(Exit.USAGE, "--redirect-uri is for a login at a page, and --device has none")
    if any(line.partition(":")[0].strip().lower() == "authorization" for line in options.header or ()):
        raise Failure(Exit.USAGE, "--header Authorization is for a token that you have, and not for a login")
    try:
        check_sendable({"--client-id": options.client_id, "--scope": options.scope})
        if options.issuer is not None:
            check_url("--issuer", options.issuer)
        return attrs.evolve(target, auth=_oauth(options, console or Console()))
    except ValueError as error:
        raise Failure(Exit.USAGE, str(error)) from None


def _oauth(options: Options, console: Console) -> OAuth:
    uri = options.registered_uri
    listens = uri is None or (uri.startswith("http:") and is_loopback(urlsplit(uri).hostname or ""))
    asks = options.no_browser or not listens
    return OAuth(
        client_name="trio-mcp",
        store=FileTokenStore(),
        client_id=options.client_id,
        issuer=options.issuer,
        scopes=options.scope,
        redirect_uri=uri,
        listen=listens,
        open_page=partial(_ask_where_it_ends, console, uri) if asks else open_in_browser,
        show_code=partial(_show_code, console) if options.device else None,
    )


async def _ask_where_it_ends(console: Console, uri: str | None, url: str) -> str | None:
    """Print a page to open at any machine, and read where the browser was sent to in the end.

    For the browser that is its own machine: where nothing listens there, it shows an error, and the address.
    """
    console.note(f"To log in, open this page in a browser:\n  {url}")
    console.note(
        f"It ends at an address that begins with {uri or 'http://127.0.0.1'} and need not show anything: "
        "paste it here."
    )
    while True:  # noqa: ASYNC913 - a line that cannot be read is the last
        console.prompt("address: ")
        answer = None
        with suppress(OSError, ValueError, AttributeError):  # standard input may be anything, or missing
            answer = await read_line()
        if answer is None:
            return None  # the answer may still come to the listener
        if _state_of(answer) == _state_of(url):
            return answer.strip()
        console.note(
            "That is not where this login ends: copy the whole address, with all behind the question mark."
        )


def _state_of(url: str) -> list[str]:
    try:
        return parse_qs(urlsplit(url.strip()).query).get("state", [])
    except ValueError:
        return []


def _show_code(console: Console, code: DeviceCode) -> None:
    console.note(str(code))
    if code.verification_uri_complete is not None:
        console.note(f"  or open {code.verification_uri_complete}")


async def log_in(client: Client, options: Options, console: Console) -> int:
    """Do what only somebody may who is logged in: many servers let anybody begin a connection."""
    if client.server_capabilities is None or client.server_capabilities.tools is not None:
        await client.list_tools()
    else:
        await client.ping()
    where = options.target or ""
    where = shown_url(where) if "://" in where else where
    await console.say(f"logged in at {where}, as far as it wants that; so are commands with --auth")
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
        was_logged_in = await _oauth(options, console).log_out(target.target.without_query)
    except AuthorizationFailed as error:
        raise Failure(Exit.FAILED, str(error)) from error
    if not was_logged_in:
        raise Failure(Exit.FAILED, f"nobody is logged in at {label}")
    await console.say(f"logged out of {label}")
    return Exit.DONE


# The document of a client whose id is its URL.

MAX_DOCUMENT: Final = 5 * KIB
"""The largest such document that authorization servers are asked to take, in bytes."""

REDIRECT_URIS: Final = (f"http://127.0.0.1{PATH}", f"http://[::1]{PATH}")
"""Where answers to logins come to: authorization servers take any port there (RFC 8252, section 7.3)."""


def write_document(options: Options) -> int:
    """Print the document to publish, or see whether that was done.

    Raises:
        Failure: The options are not as they must be, or the document is not.
    """
    console = Console()
    try:
        check_metadata_url(options.url)
        if options.check:
            trio.run(_check_document, options.url)
            console.say_sync(f"the document at {options.url} is in order")
            return Exit.DONE
        key = None
        if options.key is not None:
            key = PrivateKeyJwt(key=Path(options.key).read_bytes(), algorithm=options.algorithm)
        uris = options.redirect_uri or REDIRECT_URIS
        document = metadata_document(options.url, options.name or "trio-mcp", uris, key)
    except OSError as error:
        raise Failure(Exit.USAGE, f"the key in {options.key} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Failure(Exit.USAGE, str(error).replace("client_metadata_url", "URL")) from None
    check_sendable(document)
    if options.device:
        document["grant_types"].append(DEVICE_CODE)
    console.say_json_sync(document)
    return Exit.DONE


async def _check_document(url: str) -> None:
    """Check what is published at a URL.

    Raises:
        Failure: It cannot be fetched, or no authorization server would take it.
    """
    try:
        status, body = await fetch_document(url)
    except McpError as error:
        raise Failure(Exit.UNREACHABLE, f"{url} cannot be fetched: {error}") from None
    if status != 200:
        raise Failure(Exit.FAILED, f"{url} answers with HTTP status {status}, and has to with 200")
    try:
        check_metadata_document(url, _json.decode(body))
    except ValueError as error:
        raise Failure(Exit.FAILED, f"the document at {url} is not in order: {error}") from None


async def fetch_document(url: str) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a request for a document.

    Raises:
        McpError: There is none.
    """
    accept = [(b"accept", b"application/json")]
    request = HttpRequest(method="GET", target=parse_target(url), headers=accept)
    async with open_http_client() as client, await send_following(client, request, max_redirects=0) as response:
        return response.status, await response.read(MAX_DOCUMENT, "MAX_DOCUMENT")
