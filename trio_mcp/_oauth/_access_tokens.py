"""What an access token must say so that a server accepts it, and who its sender is then.

A verifier has shown that the token is genuine; here are the rules about what it says, and by which keys, and how,
tokens may be signed.

Spec: RFC 6750, RFC 7519, RFC 7662, RFC 8705, RFC 8707, RFC 9068; 2026-07-28, basic/authorization, "Token
Handling".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast, final

import attrs

from .._codec._json import is_array, is_object
from .._limits import KIB
from .._printable import shown
from ._metadata import canonical_resource, is_issuer
from ._principal import Principal
from ._signed import ALGORITHMS, SignedToken, fits, import_key, is_quick, read_signed

MAX_TOKEN: Final = 16 * KIB
"""The longest token that is looked at, in characters."""

MAX_KEYS: Final = 100
"""How many keys of one issuer are used."""

MAX_TRIED: Final = 10
"""How many keys of one issuer are tried for a token that does not name its key."""

MAX_AUDIENCES: Final = 100
"""For how many resources a token may be that writes this one otherwise than the server does."""

_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "jwt"})

CLIENT: Final = "client_id="
"""How the subject of a token begins that a client has for itself: no ``sub`` may begin so."""

_LAST_TIME: Final = 1e15
"""The latest time that a token may name, in seconds since 1970: an integer may be too large for a float."""


class TokenRefused(Exception):
    """A token is not accepted.

    Args:
        reason: Why, for the client's log. Constant text: nothing of the token.
        details: What came and what was expected, for the log of the server.
    """

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details


# Signatures.


@final
class VerificationKeys:
    """The public keys of an issuer (RFC 7517). Keys that cannot verify a signature are left out.

    Args:
        jwks: The set of keys, as plain JSON.

    Attributes:
        left_out: How many were not looked at, behind the first `MAX_KEYS` that can be used.

    Raises:
        ValueError: It is no set of keys.
        RuntimeError: joserfc is not installed.
    """

    def __init__(self, jwks: object) -> None:
        listed = jwks.get("keys") if is_object(jwks) else None
        if not is_array(listed):
            raise ValueError("the keys of an issuer must be an object with a list, keys")
        self._by_id: dict[str, Any] = {}
        self._all: list[tuple[Any, Mapping[str, Any]]] = []
        self._slow: set[int] = set()  # by their ids
        self.left_out: int = 0
        for index, jwk in enumerate(listed):
            if len(self._all) == MAX_KEYS:
                self.left_out = len(listed) - index
                break
            key = import_key(jwk)
            if key is None:
                continue
            self._all.append((key, jwk))
            if not is_quick(jwk):
                self._slow.add(id(key))
            if isinstance(jwk.get("kid"), str):
                self._by_id.setdefault(jwk["kid"], key)

    def __len__(self) -> int:
        return len(self._all)

    def are_slow(self, keys: Sequence[Any]) -> bool:
        """Whether verifying by some of them takes so long that it must not hold up the event loop."""
        return len(keys) > 1 or any(id(key) in self._slow for key in keys)

    def find(self, kid: object, algorithm: object) -> list[Any]:
        """Return the key of an id. For none those that sign by an algorithm, `MAX_TRIED` at most."""
        if kid is None:
            return [key for key, jwk in self._all if fits(jwk, algorithm)][:MAX_TRIED]
        key = self._by_id.get(kid) if isinstance(kid, str) else None
        return [] if key is None else [key]


def read_token(token: str) -> SignedToken | None:
    """Read a JWT. Returns `None` if it is none.

    Raises:
        RuntimeError: joserfc is not installed.
    """
    return read_signed(token) if len(token) <= MAX_TOKEN and token.count(".") == 2 else None


@final
class JwtRules:
    """How tokens may be signed, and of which type they may be.

    Args:
        algorithms: The algorithms.

    Raises:
        ValueError: One of them is none, or one with a shared secret.
    """

    def __init__(self, algorithms: Sequence[str] = ALGORITHMS) -> None:
        wrong = [name for name in algorithms if name not in ALGORITHMS]
        if wrong or not algorithms:
            known = ", ".join(ALGORITHMS)
            raise ValueError(
                f"algorithms must be some of {known}, not {', '.join(map(repr, wrong)) or 'none at all'}"
            )
        self.algorithms: Final = tuple(algorithms)

    def check(self, token: SignedToken) -> None:
        """Check what the header of a token says.

        Raises:
            TokenRefused: It is not as it must be.
        """
        header = token.header
        typ = header.get("typ")
        if typ is not None and (not isinstance(typ, str) or typ.lower() not in _TYPES):
            raise TokenRefused("the token is of another type")
        if header["alg"] not in self.algorithms:
            raise TokenRefused("the token is signed by an algorithm that is not accepted")
        if "crit" in header:
            raise TokenRefused("the token has a critical header member that is not known here")

    def verify(self, token: SignedToken, keys: Sequence[Any]) -> None:
        """Verify the signature of a token.

        Raises:
            TokenRefused: It is of none of the keys, or not as it must be.
        """
        self.check(token)
        if not self.is_by(token, keys):
            raise TokenRefused("the signature of the token is wrong")

    def is_by(self, token: SignedToken, keys: Sequence[Any]) -> bool:
        """Whether the signature of a token, which `check` has passed, is of one of the keys."""
        return any(token.is_by(key, self.algorithms) for key in keys)


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
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(scope for text in texts(value) for scope in text.split())


def with_implied(scopes: Iterable[str], implies: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return scopes with all that they include."""
    if not implies:
        return frozenset(scopes)
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
        issued = _time(claims, "iat")
        if until is not None and now >= until + self.leeway:
            raise TokenRefused("the token has expired")
        if begins is not None and now < begins - self.leeway:
            raise TokenRefused("the token is not valid yet")
        if issued is not None and now < issued - self.leeway:
            raise TokenRefused("the token was issued in the future")
        if isinstance(issuer, str) and issuer not in self.issuers:
            # As the server writes it, so that somebody has one name.
            issuer = next((each for each in self.issuers if is_issuer(issuer, each)), issuer)
        if issuer is not None and (not isinstance(issuer, str) or issuer not in self.issuers):
            raise TokenRefused(
                "the token is of another issuer",
                f"issuer {shown(issuer)} is none of authorization_servers {sorted(self.issuers)}",
            )
        named = texts(claims.get("aud"))
        # Nearly all are written as the server writes itself. Of very many, the others are not worth the time.
        if self.audiences.isdisjoint(named) and self.audiences.isdisjoint(
            map(canonical_resource, named[:MAX_AUDIENCES])
        ):
            came, expected = shown(named[:MAX_AUDIENCES]), sorted(self.audiences)
            raise TokenRefused(
                "the token is for another resource", f"its audience is {came}, expected one of {expected}"
            )
        client = claims.get("client_id", claims.get("azp"))
        client = client if isinstance(client, str) and client else None
        subject = claims.get("sub")
        if client is not None and subject in (None, client):
            # It acts for itself (RFC 9068, section 2.2). Clients may choose their id (section 5), so it is no
            # user's name.
            subject = f"{CLIENT}{client}"
        elif not isinstance(subject, str) or not subject:
            raise TokenRefused("the token does not say whose it is")
        elif subject.startswith(CLIENT):
            raise TokenRefused("the token has a subject that could be a client's id")
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
