"""Tokens that are bound to a key (RFC 9449) or to a certificate (RFC 8705), and clients known by a certificate."""
# pyright: reportArgumentType=false, reportUnknownMemberType=false
# trustme takes the contexts of a library that is not here as well.

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

import pytest
from inside_protection import (
    ProofRefused,
    ProofRules,
)
from shared.http_server_bound_tokens import KEY, memory


def test_the_key_is_compared_before_anything_is_verified_with_it() -> None:
    """Or a client could choose one that takes long: RFC 9449 leaves the size of it open."""
    modulus, exponent = "w" + "_" * 4_000 + "8", "_" * 800 + "8"
    for changes in ({}, {"e": "AQAB"}, {"n": "w" + "_" * 300}, {"n": 7}):
        jwk = {"kty": "RSA", "n": modulus, "e": exponent, **changes}
        header = base64.urlsafe_b64encode(
            json.dumps({"typ": "dpop+jwt", "alg": "RS256", "jwk": jwk}).encode()
        ).rstrip(b"=")
        made = f"{header.decode()}.e30.{'A' * 342}"
        rules = ProofRules("https://mcp.test/mcp", None, memory())
        for key, reason in ((KEY.thumbprint, "another key"), (own_thumbprint(jwk), "kind or a size")):
            began = time.perf_counter()
            with pytest.raises(ProofRefused, match=reason):
                rules.check([made], client="ann", method="POST", path="/mcp", token="t", key=key, now=5.0)
            assert time.perf_counter() - began < 0.1


def own_thumbprint(jwk: dict[str, Any]) -> str:
    plain = json.dumps({name: jwk[name] for name in ("e", "kty", "n")}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(plain.encode()).digest()).rstrip(b"=").decode()
