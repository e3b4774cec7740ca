"""What vouches for tokens over the network: keys that are fetched and rotated, and questions that are asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trio_mcp import (
    IntrospectionVerifier,
    JwtVerifier,
)


def introspecting(url: str) -> IntrospectionVerifier:
    return IntrospectionVerifier(url, client_id="a", client_secret="b")


@pytest.mark.parametrize("make", [JwtVerifier, introspecting])
def test_verifiers_speak_https(make: Callable[[str], object]) -> None:
    """Keys and secrets over plain http would be anybody's."""
    with pytest.raises(ValueError, match="https"):
        make("http://login.test/x")
    assert "'b'" not in repr(make("https://login.test/x"))
