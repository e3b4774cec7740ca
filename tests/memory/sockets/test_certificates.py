"""Clients with certificates: who they are, what is counted by that, and programs that serve over TLS."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ssl
from typing import Any

import pytest
from inside_endpoint import name_in

from trio_mcp import (
    HttpServerSettings,
    Server,
    SocketServerSettings,
)

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        ({"subject": ((("commonName", "a"),),)}, "CN=a"),
        ({"subject": ((("countryName", "DE"),), (("commonName", "a"), ("userId", "7")))}, "CN=a+UID=7,C=DE"),
        ({"subject": ((("emailAddress", "a@b"),),)}, "emailAddress=a@b"),
        ({"subject": ((("commonName", " #a,b=c;<\\> "),),)}, "CN=\\ #a\\,b=c\\;\\<\\\\\\>\\ "),
        ({"subject": ((("commonName", "#a"),),)}, "CN=\\#a"),
        ({"subject": ((("commonName", "a\0b"),),)}, "CN=a\\00b"),
        ({"subject": (), "subjectAltName": (("URI", "spiffe://x/y"), ("DNS", "z"))}, "URI:spiffe://x/y"),
        ({"subject": ()}, None),
    ],
)
def test_names_in_certificates(certificate: dict[str, Any], name: str | None) -> None:
    """No two subjects have the same name."""
    assert name_in(certificate) == name


@pytest.mark.parametrize(
    ("transport", "options", "error"),
    [
        ("tcp", {"settings": HttpServerSettings()}, TypeError),
        ("unix", {"settings": HttpServerSettings(), "path": "x"}, TypeError),
        ("websocket", {"settings": SocketServerSettings()}, TypeError),
        ("sse", {"settings": SocketServerSettings()}, TypeError),
        ("stdio", {"settings": SocketServerSettings()}, ValueError),
        ("stdio", {"ssl_context": ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)}, ValueError),
        ("unix", {"ssl_context": ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), "path": "x"}, ValueError),
        ("tcp", {"authenticate": print}, ValueError),
        ("smoke", {}, ValueError),
    ],
)
def test_what_a_transport_does_not_take_is_refused(
    transport: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Server("x").run(transport, **options)
