"""Which addresses are one client's. Pure functions over text: no sockets, no look-ups."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final

__all__ = ["holder_of"]

PREFIX_BITS: Final = 64
"""What an IPv6 network gives to one subscriber at least: whoever has one address of it has all of them, 2**64."""


def holder_of(address: str | None) -> str:
    """Return by what a client is counted that is known by its address alone.

    Whoever counts by address must ask this, or one client is 2**64: of IPv6 the network (its first 64 bits) is
    the client. An IPv4 address that a socket for both kinds shows as IPv6 is the IPv4 address.

    Args:
        address: As a socket or a trusted proxy shows it; `None` where there are no addresses. What is no address
            stands for itself.
    """
    if address is None:
        return ""
    return _network_of(address) if ":" in address else address


@lru_cache(maxsize=1024)
def _network_of(address: str) -> str:
    try:
        read = IPv6Address(address)
    except AddressValueError:
        return address
    if read.ipv4_mapped is not None:
        return str(read.ipv4_mapped)
    network = IPv6Address(int(read) >> (128 - PREFIX_BITS) << (128 - PREFIX_BITS))
    zone = "" if read.scope_id is None else f"%{read.scope_id}"  # the same network is another on another wire
    return f"{network}{zone}/{PREFIX_BITS}"
