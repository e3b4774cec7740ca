"""The certificate by which the client of a TLS connection shows who it is.

Spec: RFC 8705; RFC 4514 for names.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs


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
