"""Who sends a message, as far as the transport knows; and the certificate by which a client of TLS shows that.

A principal is a string, the name under which a server keeps what belongs to it: so that it can be compared,
logged and written as JSON like any name, and code that was written for names goes on working.

Spec: RFC 9068; RFC 8705; RFC 4514 for names in certificates.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self, final

import attrs

OFFLINE: Final = "offline_access"
"""The scope for a refresh token, of authorization servers that have it; no server needs it."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@final
class Principal(str):
    """Who sends a message: a name, and what is known about who has it.

    As a string it is the subject, after its issuer and a space if there is one. Equal strings are equal
    principals, whatever else is known about them: what a server keeps for one, such as a session, is still there
    when it comes with another token. Nothing of it can be changed.

    Args:
        subject: The name; not empty.
        issuer: Who vouches for the name, usually the URL of an authorization server. Without spaces.
        client_id: The client that acts for the subject, if that is known.
        scopes: What it may do.
        claims: What else its token says, as plain JSON.
        token: The token itself. It is not part of the string, of the `repr`, nor of a pickle.

    Attributes:
        subject: The name.
        issuer: Who vouches for it; `None` if nobody else does.
        client_id: The client that acts for the subject; `None` if that is not known.
        scopes: What it may do; empty if its transport knows no scopes.
        claims: What else its token says; empty without one.
        token: The token, if `ResourceServer.hands_on_tokens` is set; otherwise `None`. Sending it to another
            server than its own lends that server rights that nobody gave it.

    Raises:
        TypeError: The subject is no string, or `scopes` is one.
        ValueError: The subject is empty, or the issuer contains a space.

    Spec: RFC 9068, section 2.2; 2026-07-28, basic/authorization, "Token Handling".
    """

    __slots__ = ("claims", "client_id", "issuer", "scopes", "subject", "token")

    subject: str
    issuer: str | None
    client_id: str | None
    scopes: frozenset[str]
    claims: Mapping[str, Any]
    token: str | None

    def __new__(
        cls,
        subject: str,
        *,
        issuer: str | None = None,
        client_id: str | None = None,
        scopes: Iterable[str] = (),
        claims: Mapping[str, Any] = _NOTHING,
        token: str | None = None,
    ) -> Self:
        """Make a principal; see the class."""
        _check_text(subject)
        if not subject:
            raise ValueError("the subject of a principal must not be empty")
        if isinstance(scopes, str):
            raise TypeError("the scopes of a principal are several strings, not one with spaces")
        if issuer is not None and (not issuer or " " in issuer):  # or two principals could have one string
            raise ValueError(f"the issuer of a principal must not be empty or contain spaces: {issuer!r}")
        self = super().__new__(cls, subject if issuer is None else f"{issuer} {subject}")
        keep = object.__setattr__
        keep(self, "subject", str(subject))
        keep(self, "issuer", issuer)
        keep(self, "client_id", client_id)
        keep(self, "scopes", frozenset(scopes))
        keep(self, "claims", claims if isinstance(claims, MappingProxyType) else MappingProxyType(dict(claims)))
        keep(self, "token", token)
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a principal cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a principal cannot be changed: {name}")

    def __repr__(self) -> str:
        known = [repr(self.subject)]
        for name in ("issuer", "client_id"):
            value = getattr(self, name)
            if value is not None:
                known.append(f"{name}={value!r}")
        if self.scopes:
            known.append(f"scopes={sorted(self.scopes)!r}")
        return f"Principal({', '.join(known)})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)  # what leaves the process is a name


def _check_text(subject: object) -> None:
    if not isinstance(subject, str):
        raise TypeError(f"the subject of a principal must be a str, not {type(subject).__name__}")


def as_principal(name: str | None) -> Principal | None:
    """Return the principal of a name that a transport gives; it may be one already."""
    return name if name is None or isinstance(name, Principal) else Principal(name)


# Certificates.


@final
@attrs.frozen
class ClientCertificate:
    """The certificate by which the client of a TLS connection has shown who it is. Its chain was verified.

    Attributes:
        der: The certificate.
        fields: What it says, as `ssl.SSLSocket.getpeercert` returns it; empty where the host knows it only as
            bytes.
    """

    der: bytes = attrs.field(repr=False)
    fields: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    @property
    def thumbprint(self) -> str:
        """Its hash, as tokens that are bound to it have it (RFC 8705, ``x5t#S256``)."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.der).digest()).rstrip(b"=").decode("ascii")

    @property
    def subject(self) -> str:
        """Its subject, such as ``CN=worker,O=Example``; empty if that is not known."""
        return _distinguished_name(self.fields.get("subject", ()))

    @property
    def issuer(self) -> str:
        """Its issuer, likewise."""
        return _distinguished_name(self.fields.get("issuer", ()))

    def alternative_names(self, kind: str) -> list[str]:
        """Return its alternative names of a kind: ``DNS``, ``URI``, ``email``."""
        return [value for each, value in self.fields.get("subjectAltName", ()) if each == kind]


_SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;=])')


def _distinguished_name(name: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return a name as text (RFC 4514), its most specific part first."""

    def written(kind: str, value: str) -> str:
        return _SHORT.get(kind, kind) + "=" + _SPECIAL.sub(r"\\\1", value)

    return ",".join("+".join(written(kind, value) for kind, value in part) for part in reversed(name))
