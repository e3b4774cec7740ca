"""What protected servers and authorization servers say of themselves: where it is found, what of it is accepted.

`discover` walks through the documents, in the order that the specification prescribes: it yields what to fetch,
is sent what came, and returns what was found. Issuers and resources are compared, and sent, as the strings they
are; but for the slash of an issuer without a path, in which documents and tokens of one issuer differ.

Spec: 2026-07-28, basic/authorization/authorization-server-discovery; 2025-11-25 and 2025-06-18,
basic/authorization, "Authorization Server Discovery"; 2025-03-26, basic/authorization, "Server Metadata
Discovery" and "Fallbacks for Servers without Metadata Discovery"; RFC 9728, sections 3 and 7.3; RFC 8414,
sections 3 and 5.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Generator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import SplitResult, urlsplit

import attrs

from .._codec._json import is_array, is_object
from .._core._reconnect import may_pass
from .._errors import AuthorizationFailed
from .._printable import printable

MAX_DOCUMENT_BYTES: Final = 64 * 1024
"""The largest document that is read."""

MAX_SERVERS: Final = 8
"""How many of the authorization servers that a server names are tried."""

MAX_TEXT: Final = 8_192
"""The longest URL, in characters."""

LEGACY_VERSION: Final = ("MCP-Protocol-Version", "2025-03-26")
"""The field with which the metadata of that revision are asked for."""


_IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_NAT64_HERE: Final = ipaddress.ip_network("64:ff9b:1::/48")
"""Translated by the network that one is in (RFC 8215)."""

_NOT_PUBLIC: Final = (_NAT64_HERE, *map(ipaddress.ip_network, ("fec0::/10", "192.88.99.0/24")))
"""Of one site, or withdrawn, although `ipaddress` calls them global (RFC 3879, RFC 7526)."""

_NO_NETWORK: Final = ipaddress.ip_network("0.0.0.0/8")

_CLOUDS: Final = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "fd20:ce::254")))
"""Where clouds tell their machines secrets, beside addresses of a single link."""


def is_loopback(host: str) -> bool:
    """Whether a host of a URL, without brackets, is this machine."""
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_in(host: str) -> str | None:
    """Return the IP address that a host of a URL, without brackets, is; `None` for a name.

    Systems, and proxies, take addresses of IPv4 in older forms, too: ``127.1``, ``0x7f000001``, ``2130706433``.
    """
    host = host.removesuffix(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    parts = host.lower().split(".")
    if len(parts) > 4 or not all(map(_OLD_NUMBER.fullmatch, parts)):
        return None
    *first, last = (
        int(part, 16 if part.startswith("0x") else 8 if part.startswith("0") else 10) for part in parts
    )
    if any(each > 255 for each in first) or last >= 256 ** (4 - len(first)):
        return None
    return str(ipaddress.IPv4Address(sum(each << 8 * (3 - n) for n, each in enumerate(first)) + last))


_OLD_NUMBER: Final = re.compile(r"0x[0-9a-f]{1,8}|0[0-7]{0,11}|[1-9][0-9]{0,9}")


def _read_address(address: str) -> _IpAddress | None:
    """Return an address, or that of IPv4 which it stands for."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv4Address):
        return found
    if found in _NAT64:
        return ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    return found.ipv4_mapped or found.sixtofour or found


def tells_secrets(address: str) -> bool:
    """Whether machines of a cloud may learn their secrets at an IP address, such as one of a single link."""
    found = _read_address(address)
    if found is None:
        return False
    if found in _NAT64_HERE:
        found = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    return found.is_link_local or found in _CLOUDS


@final
class Place(IntEnum):
    """How far away an address is: a server may name what is as far away as itself, or farther."""

    HERE = 0
    """On this machine."""

    NEAR = 1
    """On a link, or in a private network."""

    FAR = 2
    """On the internet."""


def place_of(address: str) -> Place:
    """Return where an IP address is. One without a meaning, such as 0.0.0.0, leads to this machine."""
    found = _read_address(address)
    if found is None or found.is_loopback or found.is_unspecified or found in _NO_NETWORK:
        return Place.HERE
    is_far = found.is_global and not found.is_multicast and not found.is_reserved
    return Place.FAR if is_far and not any(found in each for each in _NOT_PUBLIC) else Place.NEAR


def is_public_address(address: str) -> bool:
    """Whether an IP address is one of the internet, and not of a machine, a link or a private network."""
    return place_of(address) is Place.FAR


def split_url(url: str) -> SplitResult:
    """Split a URL of a document.

    Raises:
        ValueError: It is none that can be used.
    """
    if len(url) > MAX_TEXT or not url.isascii() or not url.isprintable() or set(url) & set(' "<>\\^`{|}'):
        raise ValueError("it has characters that no URL may have, or is too long")
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not a URL with http or https and a host")
    if "@" in parts.netloc:
        raise ValueError("it has a user name or a password")
    if parts.port == 0:
        raise ValueError("its port is 0")
    return parts


def origin_of(parts: SplitResult) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL, for comparing."""
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or (443 if scheme == "https" else 80)


def bare_origin(parts: SplitResult) -> str:
    """Return scheme, host and port of a URL, as it is written in URLs."""
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}"


def canonical_resource(uri: str) -> str:
    """Return a resource so that equal ones are equal texts: scheme and host in lower case, no slash for no path.

    What is no URL is returned as it is: other resources are names.

    Spec: 2026-07-28, basic/authorization, "Canonical Server URI".
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if not parts.netloc:  # a name, and no URL
        return uri
    host, default = parts.netloc.lower(), {"https": ":443", "http": ":80"}.get(parts.scheme.lower(), "")
    if default:
        host = host.removesuffix(default)
    path = "" if parts.path == "/" else parts.path
    return f"{parts.scheme.lower()}://{host}{path}" + (f"?{parts.query}" if parts.query else "")


_SLASH_ALONE: Final = re.compile(r"[a-z]+://[^/?#]+/")


def plain_issuer(issuer: str) -> str:
    """Return an issuer without the slash of one that has no path. Everything else of it is exact."""
    return issuer[:-1] if _SLASH_ALONE.fullmatch(issuer) else issuer


def is_issuer(issuer: object, expected: str) -> bool:
    """Whether a text of others names an issuer."""
    return issuer == expected or (isinstance(issuer, str) and plain_issuer(issuer) == plain_issuer(expected))


def is_resource_of(resource: str, server_url: str) -> bool:
    """Whether a resource identifier is that of a server: of the same origin, and its path or one above it.

    Upper case in scheme and host is tolerated, and the query does not count.
    """
    try:
        ours, theirs = split_url(server_url), split_url(resource)
    except ValueError:
        return False
    if theirs.fragment or origin_of(ours) != origin_of(theirs):
        return False
    path, prefix = ours.path or "/", theirs.path or "/"
    return (
        path == prefix
        or path.startswith(prefix if prefix.endswith("/") else f"{prefix}/")
        or f"{path}/" == prefix
    )


# Reading documents.


@final
@attrs.frozen
class _Document:
    """An object of JSON from a server, and its name for errors."""

    name: str
    members: Mapping[str, Any]

    def text(self, member: str) -> str | None:
        value = self.members.get(member)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise AuthorizationFailed(f"{self.name}: {member} is not a string")
        return value

    def url(self, member: str) -> str | None:
        value = self.text(member)
        if value is not None:
            try:
                split_url(value)
            except ValueError as error:
                raise AuthorizationFailed(f"{self.name}: {member} cannot be used: {error}") from None
        return value

    def texts(self, member: str) -> tuple[str, ...] | None:
        value = self.members.get(member)
        if value is None:
            return None
        if not is_array(value) or not all(isinstance(each, str) for each in value):
            raise AuthorizationFailed(f"{self.name}: {member} is not a list of strings")
        return tuple(cast("list[str]", value))

    def flag(self, member: str) -> bool:
        return self.members.get(member) is True


@final
@attrs.frozen(kw_only=True)
class ProtectedResource:
    """What a server says of its protection (RFC 9728, section 2).

    Attributes:
        resource: Its identifier, byte for byte what is sent as ``resource``.
        authorization_servers: The issuers whose tokens it takes.
        scopes_supported: The scopes for basic use; `None` if it names none.
        needs_dpop: Whether its tokens must be bound to a key.
    """

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None
    needs_dpop: bool = False


def read_protected_resource(members: Mapping[str, Any], url: str, server_url: str) -> ProtectedResource:
    """Read a document of a protected server.

    Args:
        members: The document.
        url: Where it was found.
        server_url: The server.

    Raises:
        AuthorizationFailed: It is that of another server, or not valid.
    """
    document = _Document(f"the protected resource metadata at {printable(url)}", members)
    resource = document.text("resource")
    if resource is None:
        raise AuthorizationFailed(f"{document.name} have no resource")
    if not is_resource_of(resource, server_url):
        raise AuthorizationFailed(
            f"{document.name} are those of {printable(resource)}, not of {printable(server_url)}: "
            "a token for it would be one for somebody else"
        )
    return ProtectedResource(
        resource=resource,
        authorization_servers=(document.texts("authorization_servers") or ())[:MAX_SERVERS],
        scopes_supported=document.texts("scopes_supported"),
        needs_dpop=document.flag("dpop_bound_access_tokens_required"),
    )


@final
@attrs.frozen(kw_only=True)
class AuthorizationServerMetadata:
    """What an authorization server says of itself (RFC 8414, section 2); `None` where it says nothing.

    Attributes:
        issuer: Its name, which answers and credentials are bound to.
        is_assumed: Whether it says nothing, and its endpoints are those that 2025-03-26 assumes.
        name: Its document, for errors.
        named: How the server names it, which may have a slash where its own document has none.
    """

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    device_authorization_endpoint: str | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_grant_profiles_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    is_assumed: bool = False
    may_lack_pkce: bool = False
    name: str = "the authorization server"
    named: str | None = None


_URLS: Final = (
    *("authorization_endpoint", "registration_endpoint", "revocation_endpoint", "jwks_uri"),
    "device_authorization_endpoint",
)
_LISTS: Final = (
    *("scopes_supported", "token_endpoint_auth_methods_supported", "code_challenge_methods_supported"),
    "authorization_grant_profiles_supported",
)
_FLAGS: Final = ("client_id_metadata_document_supported", "authorization_response_iss_parameter_supported")


def read_authorization_server(
    read: Mapping[str, Any], url: str, issuers: Sequence[str]
) -> AuthorizationServerMetadata:
    """Read a document of an authorization server.

    Args:
        read: The document.
        url: Where it was found.
        issuers: The issuer that it must name, and what else is accepted for it.

    Raises:
        AuthorizationFailed: It names another issuer (RFC 8414, section 3.3), or is not valid.
    """
    document = _Document(f"the authorization server metadata at {printable(url)}", read)
    issuer = document.text("issuer")
    if issuer is None or not any(is_issuer(issuer, each) for each in issuers):
        raise AuthorizationFailed(
            f"{document.name} name the issuer {printable(str(issuer)) or repr('')}, not {printable(issuers[0])}: "
            "they are not used"
        )
    token_endpoint = document.url("token_endpoint")
    if token_endpoint is None:
        raise AuthorizationFailed(f"{document.name} have no token_endpoint")
    members = {
        **{name: document.url(name) for name in _URLS},
        **{name: document.texts(name) for name in _LISTS},
        **{name: document.flag(name) for name in _FLAGS},
        "name": f"the authorization server {printable(issuer)}",
    }
    return AuthorizationServerMetadata(issuer=issuer, token_endpoint=token_endpoint, **cast("Any", members))


# Where documents are.


def resource_metadata_urls(server_url: str) -> list[str]:
    """Return where the metadata of a server are, if it does not say so: with its path, then at the root."""
    parts = urlsplit(server_url)
    root = f"{bare_origin(parts)}/.well-known/oauth-protected-resource"
    path = parts.path.rstrip("/")
    return [f"{root}{path}", root] if path else [root]


def server_metadata_urls(issuer: str) -> list[str]:
    """Return where the metadata of an authorization server may be, in the order in which that is tried."""
    parts = split_url(issuer)
    origin, path = bare_origin(parts), parts.path.rstrip("/")
    if not path:
        return [f"{origin}/.well-known/oauth-authorization-server", f"{origin}/.well-known/openid-configuration"]
    return [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    ]


# Finding out.


@final
@attrs.frozen
class Fetch:
    """A document that is wanted.

    Attributes:
        url: Where.
        headers: Further fields of the request.
        is_hint: Whether the server has named the whole URL in a challenge.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    is_hint: bool = attrs.field(default=False, eq=False)


@final
@attrs.frozen
class Fetched:
    """What came.

    Attributes:
        status: The HTTP status.
        document: The document, decoded; anything else than an object is none.
    """

    status: int
    document: object = None

    @property
    def members(self) -> Mapping[str, Any] | None:
        """The document, if there is one."""
        return self.document if 200 <= self.status < 300 and is_object(self.document) else None

    @property
    def outcome(self) -> str:
        """What came instead of a document, for errors."""
        return "not a JSON object" if 200 <= self.status < 300 else f"HTTP status {self.status}"


@final
@attrs.frozen(kw_only=True)
class Discovered:
    """What was found out about the protection of a server.

    Attributes:
        resource: What is sent as ``resource``.
        server: The authorization server.
        scopes_supported: The scopes that the protected server names.
        needs_dpop: Whether it takes no tokens but those bound to a key.
    """

    resource: str
    server: AuthorizationServerMetadata
    scopes_supported: tuple[str, ...] | None = None
    needs_dpop: bool = False


Discovery = Generator[Fetch, Fetched, Discovered]


def discover(
    server_url: str, hint: str | None = None, issuer: str | None = None, former: str | None = None
) -> Discovery:
    """Find out who issues tokens for a server.

    Args:
        server_url: The server.
        hint: Where its challenge says that its metadata are (``resource_metadata``).
        issuer: The authorization server to use; `None` for the first that the server names and that answers.
        former: The one that was used before, and is tried first if the server goes on naming it.

    Raises:
        AuthorizationFailed: Nothing was found that may be used.
    """
    resource = yield from _find_resource(server_url, hint)
    if resource is None:
        return (yield from _discover_legacy(server_url, issuer))
    named = resource.authorization_servers
    if not named:
        raise AuthorizationFailed(
            f"{printable(server_url)} names no authorization server (authorization_servers)"
        )
    if issuer is not None:
        if not any(is_issuer(each, issuer) for each in named):
            raise AuthorizationFailed(
                f"{printable(server_url)} takes tokens of {', '.join(map(printable, named))}, and not of "
                f"{issuer or repr('')}, which this client is set up for"
            )
        named = (issuer,)
    failure: AuthorizationFailed | None = None
    for each in sorted(named, key=lambda each: former is None or not is_issuer(each, former)):
        try:
            server = yield from find_server(each)
        except AuthorizationFailed as error:
            if failure is None or (error.may_pass and not failure.may_pass):
                failure = error  # one that may be there again in a while is no refusal by all
        else:
            return Discovered(
                resource=resource.resource,
                server=server,
                scopes_supported=resource.scopes_supported,
                needs_dpop=resource.needs_dpop,
            )
    assert failure is not None
    raise failure


def _find_resource(server_url: str, hint: str | None) -> Generator[Fetch, Fetched, ProtectedResource | None]:
    urls = resource_metadata_urls(server_url)
    if hint is not None:
        try:
            split_url(hint)
        except ValueError as error:
            raise AuthorizationFailed(f"the resource_metadata of the challenge cannot be used: {error}") from None
        urls = [hint, *(url for url in urls if url != hint)]
    for url in urls:
        fetched = yield Fetch(url, is_hint=url == hint)
        if fetched.members is not None:
            return read_protected_resource(fetched.members, url, server_url)
        _check_continues(fetched, url)
    return None


def _check_continues(fetched: Fetched, url: str) -> None:
    """A place without a document is passed over; a server that fails, or has no time, is no such place."""
    if may_pass(fetched.status):
        raise AuthorizationFailed(f"{printable(url)} answered with HTTP status {fetched.status}", may_pass=True)


def find_server(issuer: str) -> Generator[Fetch, Fetched, AuthorizationServerMetadata]:
    """Find the metadata of an authorization server.

    Raises:
        AuthorizationFailed: There are none that may be used.
    """
    try:
        urls = server_metadata_urls(issuer)
    except ValueError as error:
        raise AuthorizationFailed(f"the issuer {printable(issuer)} cannot be used: {error}") from None
    tried: list[str] = []
    for url in urls:
        fetched = yield Fetch(url)
        if fetched.members is not None:
            return attrs.evolve(read_authorization_server(fetched.members, url, [issuer]), named=issuer)
        _check_continues(fetched, url)
        tried.append(f"{url} ({fetched.outcome})")
    raise AuthorizationFailed(
        f"the authorization server {printable(issuer)} has no metadata at {', '.join(tried)}"
    )


def _assumed_resource(server_url: str) -> str:
    """Return what a server is called that says nothing of itself: its URL without the query."""
    return canonical_resource(server_url.partition("#")[0].partition("?")[0])


def _discover_legacy(server_url: str, issuer: str | None) -> Discovery:
    """As 2025-03-26 has it: the server is its own authorization server, at the root of its origin."""
    origin = bare_origin(urlsplit(server_url))
    if issuer is not None and not is_issuer(issuer, origin):
        server = yield from find_server(issuer)
        return Discovered(resource=_assumed_resource(server_url), server=server)
    url = f"{origin}/.well-known/oauth-authorization-server"
    fetched = yield Fetch(url, (LEGACY_VERSION,))
    if fetched.members is not None:
        server = read_authorization_server(fetched.members, url, [origin])
        server = attrs.evolve(server, may_lack_pkce=server.code_challenge_methods_supported is None)
    else:
        _check_continues(fetched, url)
        server = AuthorizationServerMetadata(
            issuer=origin,
            authorization_endpoint=f"{origin}/authorize",
            token_endpoint=f"{origin}/token",
            registration_endpoint=f"{origin}/register",
            is_assumed=True,
            may_lack_pkce=True,
            name=f"the authorization server {origin}",
        )
    return Discovered(resource=_assumed_resource(server_url), server=server)
