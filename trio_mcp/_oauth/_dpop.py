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

from .._codec._json import is_object
from ._signed import PROOF_ALGORITHMS, import_key, is_quick, needs_auth_extra, read_signed

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

ALGORITHM: Final = "ES256"
"""What we sign with: the one that every server of RFC 9449 must know."""

TYPE: Final = "dpop+jwt"
MAX_PROOF: Final = 8 * 1024
"""The longest proof that is read, in characters."""


class InvalidProof(ValueError):
    """A proof is not valid. The message names what is wrong, and repeats nothing of it."""


class AnotherKey(InvalidProof):
    """A proof is by another key than the one that was asked for."""


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
            from joserfc.errors import JoseError
            from joserfc.jwk import ECKey
        except ImportError as error:
            raise needs_auth_extra(error) from error
        if jwk is None:
            self._key: ECKey = ECKey.generate_key("P-256", private=True)
        else:
            try:
                self._key = ECKey.import_key(cast("Any", dict(jwk)))
            except (JoseError, TypeError, KeyError):
                raise ValueError("what is given is no key for DpopKey") from None  # nothing of it is shown
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


def read_proof(proof: str, key: str | None = None) -> Proof:
    """Read a proof, and verify its signature by the key in it (RFC 9449, section 4.3, checks 2 to 7).

    Args:
        proof: The proof.
        key: The thumbprint that its key must have; by default, any.

    Raises:
        AnotherKey: Its key is another one; its signature was not looked at.
        InvalidProof: It is none.
        RuntimeError: joserfc is not installed.
    """
    if len(proof) > MAX_PROOF:
        raise InvalidProof(f"the proof is longer than {MAX_PROOF} characters")
    read = read_signed(proof)
    if read is None:
        raise InvalidProof("the proof cannot be read")
    jwk: object = read.header.get("jwk")
    if read.header.get("typ") != TYPE or not is_object(jwk):
        raise InvalidProof("the proof has no key, or is of another type")
    if "d" in jwk or "k" in jwk or jwk.get("kty") == "oct":
        raise InvalidProof("the proof shows a private key, or a shared secret")
    own = thumbprint(jwk)
    if key is not None and own != key:
        raise AnotherKey("the proof is by another key")
    public = import_key(jwk) if is_quick(jwk) else None
    if public is None:
        raise InvalidProof("the proof is by a key of a kind or a size that is not accepted")
    if not read.is_by(public, PROOF_ALGORITHMS):
        raise InvalidProof("the signature of the proof is wrong")
    return Proof(own, read.claims)
