"""Which addresses are one client's."""

from __future__ import annotations

from inside_core import client_at


def test_an_ipv6_network_is_one_client() -> None:
    """A client with one address of a network has 2**64; a mapped address is the IPv4 address that it stands for."""
    cases: list[tuple[str | None, str]] = [
        (None, ""),
        ("", ""),
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:0::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
        ("fe80::1%eth0", "fe80::%eth0/64"),
        ("fe80::2%eth1", "fe80::%eth1/64"),
        ("testclient", "testclient"),
        ("unix:/run/x", "unix:/run/x"),
    ]
    for address, client in cases:
        assert client_at(address) == client


def test_two_addresses_of_one_network_are_one_and_the_same() -> None:
    """Whatever way they are written in, and whatever they are asked for in between."""
    clients = {client_at(f"2001:db8::{n:x}") for n in range(5_000)}
    assert clients == {"2001:db8::/64"}
