"""Proofs that a request was made by the holder of a key, which tokens are bound to: made and read.

Signing and verifying is joserfc's, which is imported when a key is made or a proof is read.

Spec: RFC 9449; RFC 7638 for thumbprints; the DPoP extension of MCP, draft, for ``content_digest``.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

ALGORITHM: Final = "ES256"
"""What we sign with: the one that every server of RFC 9449 must know."""

ALGORITHMS: Final = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
"""What a proof may be signed with: never with a shared secret (RFC 9449, section 4.3)."""

TYPE: Final = "dpop+jwt"
MAX_PROOF: Final = 8 * 1024
"""The longest proof that is read, in characters."""


class InvalidProof(ValueError):
    """A proof is not valid. The message names what is wrong, and repeats nothing of it."""


def needs_auth_extra(error: ImportError) -> RuntimeError:
    """Return the error that says what to install."""
    made = RuntimeError("this needs joserfc, which signs and verifies tokens: pip install 'trio-mcp[auth]'")
    made.__cause__ = error
    return made


def token_hash(access_token: str) -> str:
    """Return the hash of an access token that a proof carries (section 4.2, ``ath``)."""
    return _base64url(hashlib.sha256(access_token.encode("utf-8")).digest())


def content_digest(body: bytes) -> str:
    """Return the digest of a body that a proof carries, as in the field `Content-Digest` (RFC 9530)."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode('ascii')}:"


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """Return the thumbprint of a public key by which a token is bound to it (``cnf.jkt``).

    Raises:
        InvalidProof: It is no key.
    """
    try:
        from joserfc.jwk import thumbprint as calculate

        return calculate(dict(jwk))
    except ImportError as error:
        raise needs_auth_extra(error) from error
    except Exception as error:
        raise InvalidProof("the key has no thumbprint") from error


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


@final
class DpopKey:
    """A key for proofs. Its private half never leaves it, but by `private_jwk`.

    Args:
        jwk: The private key; `None` for a new one.

    Raises:
        RuntimeError: joserfc is not installed.
        ValueError: It is no key on the curve P-256.
    """

    def __init__(self, jwk: Mapping[str, Any] | None = None) -> None:
        try:
            from joserfc.jwk import ECKey
        except ImportError as error:
            raise needs_auth_extra(error) from error
        if jwk is None:
            self._key: ECKey = ECKey.generate_key("P-256", private=True)
        else:
            self._key = ECKey.import_key(cast("Any", dict(jwk)))
        if not self._key.is_private or self._key.curve_name != "P-256":
            raise ValueError("a key for DPoP must be a private key on the curve P-256")

    def __repr__(self) -> str:
        return f"<DpopKey {self.thumbprint}>"

    @cached_property
    def thumbprint(self) -> str:
        """Its thumbprint."""
        return self._key.thumbprint()

    @cached_property
    def _public(self) -> dict[str, Any]:
        public = self._key.as_dict(private=False)
        return {name: public[name] for name in ("kty", "crv", "x", "y")}

    def private_jwk(self) -> dict[str, Any]:
        """Return the private key, for a store."""
        return dict(self._key.as_dict(private=True))

    def prove(
        self,
        method: str,
        url: str,
        *,
        now: float,
        access_token: str | None = None,
        nonce: str | None = None,
        body: bytes | None = None,
    ) -> str:
        """Make the proof for one request. Each has an id of its own, also when the request is sent again.

        Args:
            method: The method of HTTP.
            url: The URL; query and fragment are left out.
            now: The time of day, in seconds since 1970.
            access_token: The token that is sent with the request, if there is one.
            nonce: What the server wants to see, if it has said so.
            body: The body of a request to an MCP server.
        """
        from joserfc import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(now),
        }
        if access_token is not None:
            claims["ath"] = token_hash(access_token)
        if nonce is not None:
            claims["nonce"] = nonce
        if body is not None:
            claims["content_digest"] = content_digest(body)
        header = {"typ": TYPE, "alg": ALGORITHM, "jwk": self._public}
        return jwt.encode(header, claims, self._key, algorithms=[ALGORITHM])


@final
@attrs.frozen
class Proof:
    """A proof whose signature is that of its own key. What it says has not been compared with the request.

    Attributes:
        thumbprint: The thumbprint of its key.
        claims: What it says.
    """

    thumbprint: str
    claims: Mapping[str, Any]


def read_proof(proof: str) -> Proof:
    """Read a proof, and verify its signature by the key in it (RFC 9449, section 4.3, checks 2 to 7).

    Raises:
        InvalidProof: It is none.
        RuntimeError: joserfc is not installed.
    """
    if len(proof) > MAX_PROOF:
        raise InvalidProof(f"the proof is longer than {MAX_PROOF} characters")
    try:
        from joserfc import jws, jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import JWKRegistry
    except ImportError as error:
        raise needs_auth_extra(error) from error
    try:
        registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        registry.max_header_length = MAX_PROOF  # an RSA key takes more than joserfc expects of a header
        header: Mapping[str, Any] = jws.extract_compact(proof.encode("ascii"), registry=registry).protected
        jwk = header.get("jwk")
        if header.get("typ") != TYPE or not isinstance(jwk, dict):
            raise InvalidProof("the proof has no key, or is of another type")
        fields = cast("dict[str, Any]", jwk)
        if "d" in fields or "k" in fields or fields.get("kty") == "oct":
            raise InvalidProof("the proof shows a private key, or a shared secret")
        key = JWKRegistry.import_key(cast("Any", fields))
        token = jwt.decode(proof, key, algorithms=list(ALGORITHMS), registry=registry)
        return Proof(thumbprint(fields), token.claims)
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, InvalidProof):
            raise
        raise InvalidProof("the proof cannot be read, or its signature is wrong") from error
