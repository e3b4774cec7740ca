"""Who a client is to a server at a URL: what is sent with each request, and what follows from a refusal.

`Auth` is the seam, for users too; `AuthorizedTransport` asks it, around any transport. What is made of OAuth lies
above (`_auth`). No header that an `Auth` returns goes to another address than the server's own.
"""

from __future__ import annotations

import abc
import re
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, final

import attrs
import trio

from .._channel import AnswerClock
from .._core._http1 import HeaderField, Headers
from .._core._http_rules import error_in, media_type_of, parse_retry_after
from .._errors import (
    AuthorizationFailed,
    AuthorizationRefused,
    ConnectionLost,
    HttpStatusError,
    McpError,
    RequestError,
)
from .._limits import check_kind
from .._oauth._challenges import Challenge, our_challenge, parse_challenges
from .._oauth._metadata import Place, address_in, is_loopback, place_of
from .._printable import masking, printable, secrets_in, shown_url, without_secrets
from ._cookies import CookieJar
from ._messages import HttpRequest, HttpResponse, HttpTransport, ResponseHead
from ._target import HttpSettings, HttpTarget

_T = TypeVar("_T")

FieldValues: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the values of all header fields of a name."""

MAX_SENDS: Final = 5
"""How often one request is sent at most: a server that refuses every token is not asked for ever."""

REFUSAL_BYTES: Final = 64 * 1024
"""How much of the body of a refusal is read."""

EXCERPT: Final = 1000
"""How many characters of the body of an error are kept if it holds no error of the protocol."""

REFUSALS: Final = frozenset({401, 403})

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


@final
@attrs.define(eq=False)
class AuthRequest:
    """A request to a server, for an `Auth` to authorize.

    Attributes:
        method: The method of HTTP.
        url: The URL, without its query.
        body: The body, as it is sent.
        sends: How often it was sent before.
        was_asked: Whether a person was asked something for it; see `person_asked`.
    """

    method: str
    url: str
    body: bytes = attrs.field(repr=False)
    sends: int = 0
    was_asked: bool = attrs.field(default=False, init=False)
    _clocks: Sequence[AnswerClock] = attrs.field(default=(), repr=False, alias="clocks")

    @contextmanager
    def person_asked(self) -> Generator[None]:
        """Do not count the time in this block as the server's: a person is asked something in it.

        A client's ``request_timeout`` stands still, and `fail_after_silence`, and the time for connecting.
        Trio's own deadlines do not.
        """
        self.was_asked = True
        clocks = tuple(self._clocks)
        for clock in clocks:
            clock.stop()
        try:
            yield
        finally:
            for clock in clocks:
                clock.start()


@final
@attrs.frozen(kw_only=True)
class AuthResponse:
    """A response of the server, without its body.

    Attributes:
        status: The HTTP status.
        challenges: What the server wants to see (``WWW-Authenticate``).
        sent: The fields that the `Auth` had added to the request.
        headers: The other fields that matter for authorization, such as ``dpop-nonce``; names in lower case.
    """

    status: int
    challenges: tuple[Challenge, ...] = ()
    sent: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)


@final
@attrs.define(eq=False)
class Reached:
    """Where the connections to a server have gone, whatever its name stands for a moment later.

    Attributes:
        place: Where the farthest was; `None` if there was none. Through a proxy it may have been anywhere.
        cookies: What was set there, and where the server sends its clients to be authorized, also on earlier
            connections of the same client.
    """

    place: Place | None = None
    cookies: CookieJar = attrs.field(factory=CookieJar, kw_only=True, repr=False)

    def note(self, target: HttpTarget, address: str | None) -> None:
        """Take note of a connection; see `OnConnected`."""
        address = address or address_in(target.host)
        place = Place.FAR if address is None else place_of(address)
        self.place = place if self.place is None else max(self.place, place)

    @property
    def is_public(self) -> bool:
        """Whether one of them went to the internet, or may have."""
        return self.place is Place.FAR


@final
@attrs.frozen
class ProtectedServer:
    """The server that an `Auth` is opened for.

    Attributes:
        url: Its URL, without query.
    """

    url: str
    _target: HttpTarget = attrs.field(repr=False)
    _settings: HttpSettings = attrs.field(repr=False)
    _transport: HttpTransport | None = attrs.field(default=None, repr=False)
    _reached: Reached = attrs.field(factory=Reached, repr=False)

    @property
    def _place(self) -> Place:
        """Where it is: no connection to it went farther."""
        target = self._target
        if target.socket_path is not None or self._transport is not None or is_loopback(target.host):
            return Place.HERE
        literal = address_in(target.host)
        if literal is not None:
            return place_of(literal)
        return Place.FAR if self._reached.place is None else self._reached.place


class Auth(abc.ABC):
    """Authorizes the requests of a client to one server at a URL. Subclass it for ways of your own.

    ``open_client(url, auth=...)`` asks `headers_for` before each HTTP request, streams and the handshake of a
    WebSocket included, and `on_refused` when the server answers with 401 or 403. Several tasks call both at
    once. A task that calls can be cancelled at any checkpoint: what others wait for must not belong to it, so
    what takes long belongs in a task of its own, in a nursery that `open` holds.

    The fields go to the server's own address and nowhere else, and are not shown in errors, logs and records.
    """

    @abc.abstractmethod
    async def headers_for(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the header fields that authorize a request. Each time it is sent again, this is asked again.

        Raises:
            McpError: The request cannot be authorized; it fails with this. Any other exception is the cause of a
                `ConnectionLost`.
        """

    async def on_refused(self, request: AuthRequest, response: AuthResponse) -> bool:
        """Return whether to send a request again that the server has refused: 401 or 403. The default is no.

        The server has not handled it. After `MAX_SENDS` attempts this is not asked any more.

        Raises:
            McpError: As `headers_for`.
        """
        del request, response
        await trio.lowlevel.checkpoint()
        return False

    def on_response(self, request: AuthRequest, response: AuthResponse) -> None:
        """Take note of a response, whatever its status. It never waits."""

    def open(self, server: ProtectedServer) -> AbstractAsyncContextManager[Auth]:
        """Return a context manager around the connection to a server, with what authorizes its requests.

        The default returns this object. The block is entered when the client connects, and left after its last
        request.
        """
        del server
        return nullcontext(self)


def check_auth(_instance: object, _attribute: object, value: Any) -> None:
    """Check what is given for who a client is: a validator of attrs."""
    if value is not None and not isinstance(value, Auth):
        raise TypeError(f"auth must be an Auth, such as OAuth() or StaticToken(...), not {type(value).__name__}")


def host_names(given: Collection[str]) -> frozenset[str]:
    """Return hosts that are accepted without TLS."""
    if isinstance(given, str):
        raise TypeError("insecure_hosts is a collection of host names")
    check_kind("insecure_hosts", given, Collection)
    return frozenset(given)


@final
class StaticToken(Auth):
    """Sends one token with every request: ``open_client(url, auth=StaticToken(token))``.

    It goes over TLS, or to this machine: anybody on the way could use it otherwise.

    Args:
        token: The token.
        scheme: What is written before it.
        insecure_hosts: Hosts whose URLs may be http, or ws, such as those of containers. Default: none.

    Raises:
        TypeError: `insecure_hosts` is not a collection of strings.
        ValueError: The token cannot be sent. The message does not show it.
    """

    def __init__(
        self, token: str, *, scheme: str = "Bearer", insecure_hosts: Collection[str] = frozenset[str]()
    ) -> None:
        if token[: len(scheme) + 1].lower() == f"{scheme} ".lower():
            raise ValueError(
                f"token must not begin with {scheme!r}: leave that out, for scheme= is sent before it"
            )
        if token != token.strip():
            raise ValueError("token has a line break or blanks around it: write token.strip()")
        if not _TOKEN.fullmatch(token) or not _TOKEN.fullmatch(scheme):
            raise ValueError("token has characters that cannot be sent in a header field, or is empty")
        self._fields = MappingProxyType({"Authorization": f"{scheme} {token}"})
        self._insecure_hosts = frozenset(host.lower() for host in host_names(insecure_hosts))

    def __repr__(self) -> str:
        return "StaticToken(...)"

    def open(self, server: ProtectedServer) -> AbstractAsyncContextManager[Auth]:
        """Open it for one connection.

        Raises:
            AuthorizationFailed: The token would go to another machine without TLS.
        """
        target, place = server._target, server._place
        host = target.host.lower()
        if not target.is_secure and place is not Place.HERE and host not in self._insecure_hosts:
            raise AuthorizationFailed(
                f"{target.address} is not https, so anybody on the way could use the token: use https, or "
                f"StaticToken(..., insecure_hosts=[{host!r}]) if that is accepted"
            )
        return super().open(server)

    async def headers_for(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the token."""
        del request
        await trio.lowlevel.checkpoint()
        return self._fields


# Sending.


@final
class _Kept:
    """A body that was read already."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def receive_some(self) -> bytes:
        await trio.lowlevel.checkpoint()
        body, self._body = self._body, b""
        return body

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@final
class AuthorizedTransport:
    """Sends requests as `Auth` has them, and again when it says so.

    Args:
        transport: Carries the requests.
        auth: What authorizes them.
        address: The server's address (`HttpTarget.address`): requests to any other go out as they are.
    """

    def __init__(self, transport: HttpTransport, auth: Auth, address: str) -> None:
        self._transport = transport
        self._auth = auth
        self._address = address

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request; see `HttpTransport.send`.

        Raises:
            McpError: It could not be authorized. Others as there.
        """
        target = request.target
        if target.address != self._address:
            return await self._transport.send(request, urgent=urgent)
        asked = AuthRequest(request.method, target.documented_url, request.body, clocks=request.clocks)
        while True:
            sent = await headers_of(self._auth, asked)
            response = await self._transport.send(with_headers(request, sent), urgent=urgent)
            asked.sends += 1
            answer = answer_of(response.status, response.headers.get_all, sent)
            self._auth.on_response(asked, answer)
            if response.status not in REFUSALS:
                return response
            # Its connection is given back: what follows may take minutes.
            async with response:
                body = await response.read_excerpt(REFUSAL_BYTES)
            if asked.sends >= MAX_SENDS or not await _ask(self._auth.on_refused(asked, answer)):
                return attrs.evolve(response, source=_Kept(body))


def answer_of(status: int, values: FieldValues, sent: Mapping[str, str]) -> AuthResponse:
    """Return what an `Auth` sees of a response.

    Args:
        status: The HTTP status.
        values: Returns the values of a header field.
        sent: What the `Auth` had added to the request.
    """
    nonces = values("dpop-nonce")
    challenges = _challenges(values, fields_of(sent)) if status in REFUSALS else ()
    headers = {"dpop-nonce": nonces[0]} if len(nonces) == 1 else {}
    return AuthResponse(status=status, challenges=challenges, sent=sent, headers=headers)


def _challenges(values: FieldValues, sent: Sequence[HeaderField]) -> tuple[Challenge, ...]:
    """Return the challenges of a refusal, which do not repeat what was sent in secret."""
    return parse_challenges(without_secrets(list(values("www-authenticate")), secrets_in(sent), only_whole=True))


async def headers_of(auth: Auth, request: AuthRequest) -> Mapping[str, str]:
    """Return the fields for a request.

    Raises:
        McpError: It cannot be authorized. `ConnectionLost` if the user's code failed, or returned what cannot be
            sent.
    """
    return await _ask(auth.headers_for(request))


async def _ask(answer: Awaitable[_T]) -> _T:
    try:
        return await answer
    except McpError:
        raise
    except Exception as error:
        # The boundary of users' code: it costs the request that it was called for, whose caller gets the error.
        raise ConnectionLost(f"a request could not be authorized: {type(error).__name__}") from error


async def is_sent_again(auth: Auth, request: AuthRequest, head: ResponseHead, sent: Mapping[str, str]) -> bool:
    """Return whether to send a handshake again that the server has refused.

    Raises:
        McpError: As `headers_of`.
    """
    answer = answer_of(head.status, head.headers.get_all, sent)
    auth.on_response(request, answer)
    if head.status not in REFUSALS or request.sends >= MAX_SENDS:
        await trio.lowlevel.checkpoint()
        return False
    return await _ask(auth.on_refused(request, answer))


def fields_of(fields: Mapping[str, str]) -> list[HeaderField]:
    """Return header fields as they are sent.

    Raises:
        ConnectionLost: They cannot be sent. The message does not show their values.
    """
    try:
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in fields.items()]
    except (AttributeError, UnicodeError):
        raise ConnectionLost(
            "a request could not be authorized: its fields have characters that cannot be sent"
        ) from None


def with_headers(request: HttpRequest, fields: Mapping[str, str]) -> HttpRequest:
    """Return a request with the fields of an `Auth`, which replace others of their names.

    Raises:
        ConnectionLost: They cannot be sent. The message does not show their values.
    """
    added = fields_of(fields)
    names = {name.lower() for name, _ in added}
    others = [field for field in request.headers if field[0].lower() not in names]
    return attrs.evolve(request, headers=(*others, *added), has_auth=True)


# Errors.


def elsewhere(where: str) -> str:
    """Return what to ask who has connected to a server that knows no such path or method, or shows a page."""
    return f"is this the URL of its MCP endpoint?{'' if where.endswith('/mcp') else ' Often that ends in /mcp'}"


_BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses whose pages say that it is the right place at a wrong time."""


def type_sent(headers: Headers) -> str:
    """Return the media type of a response's body, for a message."""
    return printable(media_type_of(headers.get("content-type")) or "a body without a type", 80)


def error_for(
    status: int,
    reason: str,
    headers: Headers,
    body: bytes,
    where: str,
    *,
    fields: Sequence[HeaderField],
    has_auth: bool,
    what: str = "answered",
    hidden: Sequence[str] = (),
) -> RequestError:
    """Return the error for an HTTP error: that of the protocol in its body, else one made of status and body.

    What it quotes of the answer does not repeat what was sent in secret.

    Args:
        status: The HTTP status.
        reason: The words after it.
        headers: The fields of the response.
        body: Its body, or the beginning of it.
        where: The server, for the message.
        fields: The fields of the request.
        has_auth: Whether an `Auth` was to authorize it.
        what: What the server did, for the message.
        hidden: What else was sent in secret.
    """
    sent = error_in(body)
    secrets = (*secrets_in(fields), *hidden)
    retry_after = parse_retry_after(headers.get("retry-after"), time.time())
    text = without_secrets(body.decode("utf-8", "replace").strip(), secrets)[:EXCERPT]
    challenges = _challenges(headers.get_all, fields) if status in REFUSALS else ()
    if sent is not None and secrets:
        shown = error_without_secrets({"message": sent.message, "data": sent.data}, fields, hidden)
        sent = RequestError(sent.code, shown["message"], shown["data"])
    if status == 401 or challenges:
        given = [value for name, value in fields if name.lower() == b"authorization"]
        outcome = _outcome(status, given, has_auth=has_auth)
        refusal = _refusal(status, challenges, where, text, retry_after, outcome, secrets)
        refusal.was_authorized = bool(given)
        if sent is not None:
            refusal.code, refusal.message, refusal.data = sent.code, sent.message, sent.data
        return refusal
    if sent is not None:
        sent.status, sent.retry_after = status, retry_after
        if status == 404 and sent.message.startswith("nothing is served at "):
            sent.message = f"{where} {what} with HTTP status 404: {sent.message} ({elsewhere(where)})"
        return sent
    message = f"{where} {what} with HTTP status {status}{f' {reason}' if reason else ''}"
    is_page = media_type_of(headers.get("content-type")) == "text/html" and status not in _BUSY
    if is_page or status in (404, 405):
        message += f" ({elsewhere(where)})"
    if (location := headers.get("location")) is not None and 300 <= status < 400:
        message += f", a redirect to {shown_url(location)!r} that is not followed"
    if text:
        message += f", {type_sent(headers)}"
    return HttpStatusError(status, without_secrets(message, secrets), body=text, retry_after=retry_after)


def error_without_secrets(
    error: Mapping[str, Any], sent: Sequence[HeaderField], hidden: Sequence[str] = ()
) -> dict[str, Any]:
    """Return an error of the protocol that does not repeat what was sent in secret.

    Args:
        error: Its members.
        sent: The fields of the request, or of the handshake.
        hidden: What else was sent in secret.
    """
    secrets = (*secrets_in(sent), *hidden)
    parts, whole = masking(secrets), masking(secrets, only_whole=True)
    return {name: (parts if name == "message" else whole)(each) for name, each in error.items()}


def _outcome(status: int, given: Sequence[bytes], *, has_auth: bool) -> str | None:
    """Return what has become of the client's credentials; `None` if it has none."""
    if not given:
        return "auth= had no token to send" if has_auth else None
    if b" " not in given[0].strip():
        return "the field Authorization that was sent must begin with 'Bearer ', before the token"
    return "the token that was sent is not accepted" if status == 401 else ""


def _refusal(
    status: int,
    challenges: Sequence[Challenge],
    where: str,
    body: str,
    retry_after: float | None,
    outcome: str | None,
    secrets: Sequence[str],
) -> AuthorizationRefused:
    ours = our_challenge(challenges)
    challenge = ours or (challenges[0] if challenges else Challenge(""))
    scope, error = challenge.get("scope"), challenge.get("error")
    given = (error, challenge.get("error_description"))
    details = [printable(without_secrets(each, secrets), 300) for each in given if each]
    message = f"{where} refused the request with HTTP status {status}"
    if details:
        message += f" ({': '.join(details)})"
    if scope and not set(scope.split()) <= set(re.findall(r"[^\s,]+", challenge.get("error_description") or "")):
        message += f"; it asks for the scope {printable(without_secrets(scope, secrets), 300)!r}"
    if outcome is not None:
        message += f"; {outcome}" if outcome else ""
    elif ours is not None or not challenges:
        message += "; give auth=OAuth() to log in, or auth=StaticToken(...) if you have a token"
    else:
        message += f"; it asks for the scheme {printable(challenge.scheme, 40)}: subclass Auth for that"
    return AuthorizationRefused(
        status,
        message,
        body=body,
        retry_after=retry_after,
        scheme=challenge.scheme or None,
        scope=scope,
        resource_metadata=challenge.get("resource_metadata"),
        error=error,
    )
