"""Signed tokens (JWTs): read, and verified by a key.

Keys and signatures are joserfc's, which is imported when first used; which keys and algorithms are good enough is
decided here. Anybody may have written what is read: whatever it is, reading it takes time in proportion to its
length.

Spec: RFC 7515; RFC 7519; RFC 7518, section 3.3; RFC 8725.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache
from typing import Any, Final, cast, final

import attrs

from .._codec import _json
from .._codec._json import is_object

ALGORITHMS: Final = (
    *("ES256", "RS256", "PS256", "Ed25519", "EdDSA"),
    *("RS384", "RS512", "PS384", "PS512", "ES384", "ES512"),
)
"""How tokens may be signed: by keys of which the server knows the public half alone. Never by a shared secret."""

_MAX_KEPT_HEADER: Final = 1024
"""The longest header that is kept, in characters. At most 256 are."""

_MODULUS: Final = (342, 1366)
"""How long the modulus of an RSA key may be in base64url: 2048 bits (RFC 7518, section 3.3) to 8192."""

_MAX_EXPONENT: Final = 6
"""The longest exponent, in base64url: 32 bits. Verifying takes time in proportion to them."""

_CURVES: Final[Mapping[object, tuple[str, ...]]] = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
"""By which algorithms keys of a curve sign."""

_QUICK: Final = frozenset({("EC", "P-256"), ("OKP", "Ed25519")})
_QUICK_RSA: Final = (683, 4)
"""By what keys a signature is verified in less than 200 microseconds: 4096 bits, and the usual exponents, of RSA.
With others it takes up to 600."""

PROOF_ALGORITHMS: Final = ("ES256", "RS256", "PS256", "Ed25519", "EdDSA", "RS384", "RS512", "PS384", "PS512")
"""How proofs may be signed, whose keys anybody chooses: quickly."""


def needs_auth_extra(error: ImportError) -> RuntimeError:
    """Return the error that says what to install."""
    made = RuntimeError("this needs joserfc, which signs and verifies tokens: pip install 'trio-mcp[auth]'")
    made.__cause__ = error
    return made


@final
@attrs.frozen
class _Jose:
    """What is used of joserfc.

    Attributes:
        failures: What it raises for what is not valid.
        decode: Decodes base64url, strictly: a token has one form.
        algorithms: Its algorithms, by name. Not by its registry, which warns of EdDSA with each use.
        check_header: Checks the types of the members that it knows.
        import_key: Makes a key of its JSON.
    """

    failures: tuple[type[Exception], ...]
    decode: Callable[[bytes], bytes]
    algorithms: Mapping[str, Any]
    check_header: Callable[[dict[str, Any]], None]
    import_key: Callable[[Any], Any]


@cache
def _jose() -> _Jose:
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import JWKRegistry
        from joserfc.jws import JWSRegistry
        from joserfc.util import urlsafe_b64decode
    except ImportError as error:
        raise needs_auth_extra(error) from error
    return _Jose(
        (JoseError, ValueError, TypeError, KeyError, RecursionError),
        urlsafe_b64decode,
        JWSRegistry.algorithms,
        JWSRegistry(strict_check_header=False).check_header,
        JWKRegistry.import_key,
    )


# Keys.


def import_key(jwk: object) -> Any:
    """Return a public key that may verify signatures. `None` if it is none, or too weak, or slow to verify with.

    Raises:
        RuntimeError: joserfc is not installed.
    """
    jose = _jose()
    if not is_object(jwk) or jwk.get("use", "sig") != "sig" or not _is_fair(jwk):
        return None
    try:
        return jose.import_key(dict(jwk))
    except jose.failures:
        return None  # of a kind that is not known here


def fits(jwk: Mapping[str, Any], algorithm: object) -> bool:
    """Whether a key signs by one of `ALGORITHMS`: by its type and curve, and by what it says of itself."""
    kind, curve, said = jwk.get("kty"), jwk.get("crv"), jwk.get("alg")
    if kind == "RSA":
        names = tuple(name for name in ALGORITHMS if name[0] in "RP")
    elif kind == "EC":
        names = _CURVES.get(curve, ())
    else:
        names = ("EdDSA", "Ed25519") if curve == "Ed25519" else ("EdDSA",)
    # The two names of an Edwards curve are one algorithm.
    return algorithm in names and (said in (None, algorithm) or (kind == "OKP" and said in names))


def is_quick(jwk: Mapping[str, Any]) -> bool:
    """Whether signatures by a key are verified so quickly that the event loop can do it; see `_QUICK_RSA`."""
    if jwk.get("kty") == "RSA":
        most, exponent = _QUICK_RSA
        return len(str(jwk.get("n"))) <= most and len(str(jwk.get("e"))) <= exponent
    return (str(jwk.get("kty")), str(jwk.get("crv"))) in _QUICK


def _is_fair(jwk: Mapping[str, Any]) -> bool:
    if jwk.get("kty") != "RSA":
        return jwk.get("kty") in ("EC", "OKP")
    modulus, exponent = jwk.get("n"), jwk.get("e")
    if not (isinstance(modulus, str) and isinstance(exponent, str)):
        return False
    least, most = _MODULUS
    return least <= len(modulus) <= most and len(exponent) <= _MAX_EXPONENT


# Tokens.


@final
@attrs.frozen
class SignedToken:
    """A token that was read. Anybody may have written it.

    Attributes:
        header: Its header.
        claims: What it says.
    """

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    _signed: bytes = attrs.field(repr=False)
    _signature: bytes = attrs.field(repr=False)

    def is_by(self, key: Any, algorithms: Collection[str]) -> bool:
        """Whether it was signed by a key, in one of these ways. One with critical members was not: none is known.

        Args:
            key: The key.
            algorithms: Some of `ALGORITHMS`.
        """
        header, jose = self.header, _jose()
        name = header["alg"]
        if name not in algorithms or "crit" in header:
            return False
        algorithm = jose.algorithms[name]
        try:
            algorithm.check_key(key)
            return cast("bool", algorithm.verify(self._signed, self._signature, key))
        except jose.failures:
            return False


def read_signed(token: str) -> SignedToken | None:
    """Read a token whose length was checked. Returns `None` if it is none.

    Raises:
        RuntimeError: joserfc is not installed.
    """
    jose = _jose()
    try:
        signed, _, signature = token.encode("ascii").rpartition(b".")
        head, _, payload = signed.partition(b".")
        # All tokens of one key have the same header.
        read = _header if len(head) <= _MAX_KEPT_HEADER else _header.__wrapped__
        header = read(head)
        claims: object = _json.decode(jose.decode(payload))  # of another dot, too, it makes an error
        if not is_object(claims):
            return None
        return SignedToken(header, claims, signed, jose.decode(signature))
    except jose.failures:
        return None


@lru_cache(maxsize=256)
def _header(text: bytes) -> Mapping[str, Any]:
    """Read a header.

    Raises:
        Others: It is none.
    """
    jose = _jose()
    header: object = _json.decode(jose.decode(text))
    if not is_object(header) or not isinstance(header.get("alg"), str) or header.get("b64", True) is not True:
        raise ValueError("no header of a token that is known here")
    if "crit" not in header:
        jose.check_header(dict(header))
    return header
