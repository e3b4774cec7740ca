"""What an access token must say so that a server accepts it, and who its sender is then.

A verifier has shown that the token is genuine; here are the rules about what it says. Signatures are verified by
joserfc, which is imported when the first one is.

Spec: RFC 6750, RFC 7519, RFC 7662, RFC 8705, RFC 8707, RFC 9068; 2026-07-28, basic/authorization, "Token
Handling".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs

from .._codec import _json
from .._codec._json import is_array, is_object
from .._limits import KIB
from ._dpop import needs_auth_extra
from ._metadata import canonical_resource
from ._principal import Principal

if TYPE_CHECKING:
    from joserfc.jws import JWSRegistry

MAX_TOKEN: Final = 16 * KIB
"""The longest token that is looked at, in characters."""

MAX_KEYS: Final = 100
"""How many keys of one issuer are used."""

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA", "RS384", "RS512", "PS384", "PS512", "ES384", "ES512")
"""How tokens may be signed: by keys of which the server knows the public half alone. Never by a shared secret."""

_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "jwt"})

_LAST_TIME: Final = 1e15
"""The latest time that a token may name, in seconds since 1970: an integer may be too large for a float."""

_EDWARDS: Final = frozenset({"EdDSA", "Ed25519"})


class TokenRefused(Exception):
    """A token is not accepted.

    Args:
        reason: Why, for the client's log. Constant text: nothing of the token.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# Signatures.


@final
class VerificationKeys:
    """The public keys of an issuer (RFC 7517). Keys that cannot verify a signature are left out.

    Args:
        jwks: The set of keys, as plain JSON.

    Raises:
        ValueError: It is no set of keys.
        RuntimeError: joserfc is not installed.
    """

    def __init__(self, jwks: object) -> None:
        try:
            from joserfc.errors import JoseError
            from joserfc.jwk import JWKRegistry
        except ImportError as error:
            raise needs_auth_extra(error) from error
        listed = jwks.get("keys") if is_object(jwks) else None
        if not is_array(listed):
            raise ValueError("the keys of an issuer must be an object with a list, keys")
        self._by_id: dict[str, Any] = {}
        self._all: list[Any] = []
        for jwk in listed[:MAX_KEYS]:
            if not is_object(jwk) or jwk.get("kty") == "oct" or jwk.get("use", "sig") != "sig":
                continue
            try:
                key = JWKRegistry.import_key(cast("Any", dict(jwk)))
            except (JoseError, ValueError, TypeError, KeyError):
                continue  # of a kind that is not known here
            self._all.append(key)
            if isinstance(jwk.get("kid"), str):
                self._by_id[cast("str", jwk["kid"])] = key

    def __len__(self) -> int:
        return len(self._all)

    def find(self, kid: object) -> Any:
        """Return the key of an id; the only one for none. `None` if there is no such key."""
        if kid is None:
            return self._all[0] if len(self._all) == 1 else None
        return self._by_id.get(kid) if isinstance(kid, str) else None


@final
@attrs.frozen
class UnverifiedToken:
    """A JWT that was read. Anybody may have written it.

    Attributes:
        key_id: The id of the key that has signed it, as it says.
        claims: What it says.
    """

    key_id: object
    claims: Mapping[str, Any]
    _parts: Any = attrs.field(repr=False)

    @property
    def issuer(self) -> str | None:
        """Its issuer, as it says."""
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else None


@cache
def _registry(algorithms: tuple[str, ...]) -> JWSRegistry:
    """Return what joserfc is to accept: members that it does not know, and headers with certificates in them."""
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=algorithms, strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = MAX_TOKEN
    return registry


def read_token(token: str) -> UnverifiedToken | None:
    """Read a JWT. Returns `None` if it is none.

    Raises:
        RuntimeError: joserfc is not installed.
    """
    if len(token) > MAX_TOKEN or token.count(".") != 2:
        return None
    try:
        from joserfc.errors import JoseError
        from joserfc.jws import extract_compact
    except ImportError as error:
        raise needs_auth_extra(error) from error
    try:
        parts = extract_compact(token.encode("ascii"), registry=_registry(ALGORITHMS))
        claims = _json.decode(parts.payload)
    except (JoseError, ValueError, TypeError, RecursionError):
        return None
    if not is_object(claims):
        return None
    return UnverifiedToken(parts.protected.get("kid"), claims, parts)


@final
class JwtRules:
    """How tokens may be signed, and of which type they may be.

    Args:
        algorithms: The algorithms.

    Raises:
        ValueError: One of them is none, or one with a shared secret.
    """

    def __init__(self, algorithms: Sequence[str] = ALGORITHMS) -> None:
        wrong = [name for name in algorithms if name not in ALGORITHMS and name not in _EDWARDS]
        if wrong or not algorithms:
            known = ", ".join(ALGORITHMS)
            raise ValueError(
                f"algorithms must be some of {known}, not {', '.join(map(repr, wrong)) or 'none at all'}"
            )
        self.algorithms: Final = tuple(algorithms)

    def verify(self, token: UnverifiedToken, key: Any) -> None:
        """Verify the signature of a token.

        Raises:
            TokenRefused: It is not the key's, or not as it must be.
        """
        from joserfc.errors import JoseError
        from joserfc.jws import validate_compact

        parts = token._parts  # noqa: SLF001 - of this module
        header: Mapping[str, Any] = parts.protected
        typ = header.get("typ")
        if typ is not None and (not isinstance(typ, str) or typ.lower() not in _TYPES):
            raise TokenRefused("the token is of another type")
        if header.get("alg") not in self.algorithms:
            raise TokenRefused("the token is signed by an algorithm that is not accepted")
        if "crit" in header:
            raise TokenRefused("the token has a critical header member that is not known here")
        try:
            genuine = validate_compact(parts, key, self.algorithms, _registry(self.algorithms))
        except (JoseError, ValueError, TypeError):
            genuine = False
        if not genuine:
            raise TokenRefused("the signature of the token is wrong")


# What it says.


def _canonical(uris: Iterable[str]) -> frozenset[str]:
    return frozenset(map(canonical_resource, uris))


def texts(value: object) -> list[str]:
    """Return the strings of a claim that is one string or a list of some."""
    if isinstance(value, str):
        return [value]
    return (
        [each for each in cast("list[object]", value) if isinstance(each, str)] if isinstance(value, list) else []
    )


def scopes_in(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes that a token has: of ``scope`` (RFC 8693), or of ``scp``, as a string or a list."""
    value: object = claims.get("scope", claims.get("scp"))
    return frozenset(scope for text in texts(value) for scope in text.split())


def with_implied(scopes: Iterable[str], implies: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return scopes with all that they include."""
    found: set[str] = set()
    ahead = list(scopes)
    while ahead:
        scope = ahead.pop()
        if scope not in found:
            found.add(scope)
            ahead += implies.get(scope, ())
    return frozenset(found)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value: object = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LAST_TIME:
        raise TokenRefused(f"{name} of the token is no time")
    return float(value)


@final
@attrs.frozen(kw_only=True)
class TokenRules:
    """What a token must say.

    Attributes:
        audiences: For whom it may be: at least one of these, canonical.
        issuers: Who may have issued it, if it says who.
        implies: Which scopes include which others.
        leeway: By how many seconds clocks may differ.
    """

    audiences: frozenset[str] = attrs.field(converter=_canonical)
    issuers: frozenset[str]
    implies: Mapping[str, Collection[str]]
    leeway: float

    def accept(self, claims: Mapping[str, Any], now: float, token: str | None = None) -> AcceptedToken:
        """Check what a genuine token says.

        Args:
            claims: What it says.
            now: The time, in seconds since 1970.
            token: The token, if its principal is to have it.

        Raises:
            TokenRefused: It is not accepted.
        """
        until, begins, issuer = _time(claims, "exp"), _time(claims, "nbf"), claims.get("iss")
        if until is not None and now >= until + self.leeway:
            raise TokenRefused("the token has expired")
        if begins is not None and now < begins - self.leeway:
            raise TokenRefused("the token is not valid yet")
        if issuer is not None and (not isinstance(issuer, str) or issuer not in self.issuers):
            raise TokenRefused("the token is of another issuer")
        named = texts(claims.get("aud"))
        # Nearly all are written as the server writes itself.
        if self.audiences.isdisjoint(named) and self.audiences.isdisjoint(map(canonical_resource, named)):
            raise TokenRefused("the token is for another resource")
        client = claims.get("client_id", claims.get("azp"))
        client = client if isinstance(client, str) and client else None
        subject = claims.get("sub")
        if subject is None:
            subject = client  # it acts for itself
        if not isinstance(subject, str) or not subject:
            raise TokenRefused("the token does not say whose it is")
        confirmation: object = claims.get("cnf")
        bound: Mapping[str, Any] = confirmation if is_object(confirmation) else {}
        if confirmation is not None and bound.get("jkt") is None and bound.get("x5t#S256") is None:
            raise TokenRefused("the token is bound to something that is not known here")
        if len(self.issuers) == 1 and issuer is None:
            (issuer,) = self.issuers
        if issuer is None and any(subject.startswith(f"{each} ") for each in self.issuers):
            # As a string it would be the principal of that issuer.
            raise TokenRefused("the token does not say who has issued it")
        principal = Principal(
            subject,
            issuer=issuer if issuer is None else issuer.replace(" ", "%20"),
            client_id=client,
            scopes=with_implied(scopes_in(claims), self.implies),
            claims=claims,
            token=token,
        )
        return AcceptedToken(
            principal,
            math.inf if until is None else until + self.leeway,
            _text(bound.get("jkt")),
            _text(bound.get("x5t#S256")),
        )


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TokenRefused("the token is bound to something that is not known here")
    return value


@final
@attrs.frozen
class AcceptedToken:
    """A token that is accepted, if it comes with what it is bound to.

    Attributes:
        principal: Whose it is.
        until: When it expires, in seconds since 1970.
        key: The thumbprint of the key that its requests must be signed by (RFC 9449); `None` for none.
        certificate: The hash of the client's certificate (RFC 8705); `None` for none.
    """

    principal: Principal
    until: float
    key: str | None = None
    certificate: str | None = None
