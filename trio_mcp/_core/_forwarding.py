"""Who a request comes from when it comes through proxies: pure functions over addresses and header fields.

Whoever sends a request can write into it where it came from. So only what a trusted proxy has written is
believed, and each proxy writes behind what it was given: from the right, the first address that is none of ours
is the client's, and everything further left is hearsay.

Spec: RFC 7239 for `Forwarded`; `X-Forwarded-For` and `X-Forwarded-Proto` have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal, TypeAlias, final

import attrs

from ._headers import Headers

__all__ = ["UNIX", "ProxyHeaders", "ProxyRules"]

ProxyHeaders: TypeAlias = Literal["x-forwarded", "forwarded"]

UNIX: Final = "unix"
"""Stands for whatever connects to a Unix socket, where there are no addresses."""

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_SCHEMES: Final = ("http", "https")
# Possessive, so that nothing a stranger writes is looked at twice.
_PAIR: Final = re.compile(r'[ \t]*+(?:([^\s=;,"]++)=(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]*+)))?[ \t]*+(?:([;,])|$)')


def _address(text: str) -> _Address | None:
    """Read an address as proxies write it, with a port or without; `None` for what is none."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _networks(entries: Iterable[str]) -> tuple[_Network, ...]:
    networks: list[_Network] = []
    for entry in sorted(set(entries) - {UNIX}):
        try:
            networks.append(ip_network(entry))
        except ValueError as error:
            raise ValueError(
                f"a trusted proxy is written like 10.0.0.7, 10.0.0.0/8 or {UNIX}, not {entry!r}"
            ) from error
    return tuple(networks)


@final
@attrs.frozen
class _Hop:
    """What one proxy says of who connected to it. `address` is `None` where it does not say, or hides it."""

    address: _Address | None
    scheme: str | None


@final
class ProxyRules:
    """Which proxies are believed, and what they are asked.

    Args:
        trusted: Addresses, networks, and `UNIX`.
        headers: Which header fields they write. What they do not write, a client may have.

    Raises:
        ValueError: One of them is no address.
    """

    def __init__(self, trusted: Iterable[str], headers: ProxyHeaders) -> None:
        trusted = frozenset(trusted)
        self._networks: Final = _networks(trusted)
        self._trusts_unix: Final = UNIX in trusted
        self._reads: Final = _forwarded if headers == "forwarded" else _x_forwarded

    def trusts(self, peer: str | None) -> bool:
        """Whether what is at the other end of a connection is believed; `None` for a Unix socket."""
        return self._trusts_unix if peer is None else bool(self._networks) and self._trusts(_address(peer))

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def sender(self, peer: str | None, scheme: str, headers: Headers) -> tuple[str | None, str]:
        """Return the address that a request was sent from, and by which scheme.

        Args:
            peer: Who is at the other end of the connection; `None` for a Unix socket.
            scheme: How the connection is.
            headers: What the request says.
        """
        if not self.trusts(peer):
            return peer, scheme
        for hop in self._reads(headers):
            if hop.scheme is not None:
                scheme = hop.scheme
            if hop.address is None:
                break  # nobody knows who it was; the proxy that says so is as far as we can see
            peer = str(hop.address)
            if not self._trusts(hop.address):
                break
        return peer, scheme


def _listed(headers: Headers, name: str) -> list[str]:
    """Return the items of a list, those of the nearest proxy first."""
    return [item.strip() for value in reversed(headers.get_all(name)) for item in reversed(value.split(","))]


def _scheme(text: str) -> str | None:
    scheme = text.strip().lower()
    return scheme if scheme in _SCHEMES else None


def _x_forwarded(headers: Headers) -> Iterator[_Hop]:
    """Yield what `X-Forwarded-For` and `X-Forwarded-Proto` say, from the nearest proxy on.

    Many proxies write one scheme, whatever they were given; then it is that of all of them.
    """
    schemes = _listed(headers, "x-forwarded-proto")
    addresses = _listed(headers, "x-forwarded-for")
    for i in range(max(len(addresses), 1)):
        scheme = _scheme(schemes[min(i, len(schemes) - 1)]) if schemes else None
        yield _Hop(_address(addresses[i]) if addresses else None, scheme)


def _forwarded(headers: Headers) -> Iterator[_Hop]:
    """Yield what `Forwarded` says, from the nearest proxy on. Behind what cannot be read nothing is believed."""
    for value in reversed(headers.get_all("forwarded")):
        hops = _elements(value)
        if hops is None:
            yield _Hop(None, None)
        else:
            yield from reversed(hops)


def _elements(value: str) -> list[_Hop] | None:
    """Take apart the value of one `Forwarded` field; `None` for what is none."""
    hops: list[_Hop] = []
    pairs: dict[str, str] = {}
    position, separator = 0, ","
    while separator:
        found = _PAIR.match(value, position)
        if found is None:
            return None
        if found[1] is not None:
            quoted, plain = found[2], found[3]
            pairs[found[1].lower()] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position, separator = found.end(), found[4] or ""
        if separator != ";" and pairs:
            hops.append(_Hop(_address(pairs.get("for", "")), _scheme(pairs.get("proto", ""))))
            pairs = {}
    return hops
