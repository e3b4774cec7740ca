"""What a server says of itself to clients that want to log in: its metadata document, its challenges, and proofs.

Spec: RFC 9728; RFC 6750, section 3; RFC 9449, sections 4.3, 7.1, 9 and 11.1; 2026-07-28, basic/authorization.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, final
from urllib.parse import urlsplit

from .._core._account import Loan, Overdrawn, Pool, lend_all
from ._challenges import format_challenge
from ._dpop import AnotherKey, InvalidProof, content_digest, read_proof, token_hash
from ._metadata import canonical_resource
from ._signed import PROOF_ALGORITHMS

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"

PROOF_SECONDS: Final = 300.0
"""How old a proof may be, and how far ahead its clock, in seconds."""

PROOF_BYTES: Final = 200
"""What a proof takes that is remembered, in bytes."""

MAX_PROOFS: Final = 100_000
"""How many proofs are remembered, so that none is used twice."""

_NONCE_SECONDS: Final = 120
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(name: str, url: object) -> str:
    """Return a URL of ours or of an authorization server, if it may be one.

    Raises:
        TypeError: It is no string.
        ValueError: It is no https URL (http is only for this machine), or has a fragment.
    """
    if not isinstance(url, str):
        raise TypeError(f"{name} must be a str, not {type(url).__name__}")
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not (parts.scheme == "https" or is_local) or not parts.hostname or "#" in url or " " in url:
        raise ValueError(
            f"{name} must be an https URL without a fragment (http for this machine only), not {url!r}"
        )
    return url


def metadata_path(resource: str) -> str:
    """Return the path of the metadata of a resource (RFC 9728, section 3.1)."""
    path = urlsplit(resource).path.rstrip("/")
    return f"{WELL_KNOWN}{path}"


def metadata_url(resource: str) -> str:
    """Return the URL of the metadata of a resource."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{metadata_path(resource)}"


def resource_metadata(
    resource: str,
    *,
    authorization_servers: Sequence[str],
    scopes: Collection[str],
    name: str | None,
    documentation: str | None,
    dpop: str | None,
    binds_certificates: bool,
) -> dict[str, Any]:
    """Return the metadata of a resource (RFC 9728, section 2)."""
    document: dict[str, Any] = {"resource": resource, "bearer_methods_supported": ["header"]}
    if authorization_servers:
        document["authorization_servers"] = list(authorization_servers)
    if scopes:
        document["scopes_supported"] = sorted(scopes)
    if name is not None:
        document["resource_name"] = name
    if documentation is not None:
        document["resource_documentation"] = documentation
    if dpop is not None:
        document["dpop_signing_alg_values_supported"] = list(PROOF_ALGORITHMS)
        document["dpop_bound_access_tokens_required"] = dpop == "required"
    if binds_certificates:
        document["tls_client_certificate_bound_access_tokens"] = True
    return document


def challenge(
    scheme: str, url: str, scopes: Iterable[str], error: str | None = None, description: str | None = None
) -> str:
    """Return the challenge of a refusal.

    Args:
        scheme: ``Bearer`` or ``DPoP``.
        url: The URL of the metadata.
        scopes: What the request needs.
        error: What is wrong; `None` if there was no token (RFC 6750, section 3.1).
        description: The same, for people.
    """
    said = {"error": error, "error_description": description, "resource_metadata": url}
    said["scope"] = " ".join(sorted(scopes)) or None
    said["algs"] = " ".join(PROOF_ALGORITHMS) if scheme == "DPoP" else None
    return format_challenge(scheme, said)


# Proofs.


class ProofRefused(Exception):
    """A proof is not accepted.

    Args:
        error: The code for the challenge.
        reason: Why, for the client's log.
    """

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(error, reason)
        self.error = error
        self.reason = reason


@final
class UsedProofs:
    """Remembers which proofs were used, for as long as they are good.

    None can be forgotten earlier, or it would be good again. So each principal gets at most as many places as are
    left for all others: however many it has keys for, and however many do the same, the next one finds room.

    Kept true: a proof is in `_seen` for as long as it could be accepted; `_order` is a heap of these by the time
    at which they may be forgotten, and `_loans` counts those of each principal.

    Args:
        memory: Lends what they take in memory.
    """

    def __init__(self, memory: Pool) -> None:
        self._pools: Final = (Pool("MAX_PROOFS", MAX_PROOFS, unit="proofs"), memory)
        self._seen: set[bytes] = set()
        self._order: list[tuple[float, bytes, str]] = []
        self._loans: dict[str, tuple[Loan, ...]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def use(self, client: str, proof: tuple[str, str], until: float, now: float) -> None:
        """Note that a proof was used.

        Args:
            client: The client that it is remembered for.
            proof: The thumbprint of its key, and its id, which is unique for the key.
            until: How long it would be good, in seconds since 1970.
            now: The time.

        Raises:
            ProofRefused: It was used before.
            Overdrawn: There is no room.
        """
        while self._order and self._order[0][0] < now:
            _, old, of = heappop(self._order)
            self._seen.discard(old)
            self._count(of, -1)
        key, id = proof
        digest = hashlib.sha256(f"{key} {id}".encode("utf-8", "surrogatepass")).digest()[:16]
        if digest in self._seen:
            raise ProofRefused("invalid_dpop_proof", "the proof was used before")
        self._count(client, 1)
        self._seen.add(digest)
        heappush(self._order, (until, digest, client))

    def _count(self, client: str, more: int) -> None:
        loans = self._loans.get(client)
        if loans is None:
            loans = self._loans[client] = lend_all([(pool, 0) for pool in self._pools], client, "proofs")
        places, lent = loans
        count = places.amount + more
        try:
            places.change(count)
            try:
                lent.change(count * PROOF_BYTES)
            except Overdrawn:
                places.change(count - more)
                raise
        finally:
            if not places.amount:
                del self._loans[client]
                places.give_back()
                lent.give_back()


@final
class ProofRules:
    """Checks proofs: each is good once, for one request and one token, for five minutes.

    Args:
        resource: The URL that clients use.
        secret: What nonces are made of; `None` if proofs need none.
        memory: Lends what it takes to remember those that were used.
    """

    def __init__(self, resource: str, secret: bytes | None, memory: Pool) -> None:
        parts = urlsplit(canonical_resource(resource))
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._resource = f"{self._origin}{parts.path}"
        self._secret = secret
        self.used = UsedProofs(memory)

    def nonce(self, now: float) -> str | None:
        """Return the nonce of this time; `None` if proofs need none."""
        return None if self._secret is None else self._nonce(self._secret, int(now // _NONCE_SECONDS))

    @staticmethod
    def _nonce(secret: bytes, period: int) -> str:
        return hmac.digest(secret, b"%d" % period, "sha256").hex()[:32]

    def check(
        self, proofs: Sequence[str], *, client: str, method: str, path: str, token: str, key: str, now: float
    ) -> Mapping[str, Any]:
        """Check the proof of a request; return what it says.

        Args:
            proofs: The values of all `DPoP` fields.
            client: The client that it is remembered for.
            method: The method of the request.
            path: Its path, as the client may have sent it.
            token: The token that it comes with.
            key: The thumbprint of the key that the token is bound to.
            now: The time, in seconds since 1970.

        Raises:
            ProofRefused: It is not accepted.
            Overdrawn: There is no room to remember it.
        """
        if len(proofs) != 1:
            raise ProofRefused("invalid_dpop_proof", "there must be one proof")
        try:
            proof = read_proof(proofs[0], key)
        except AnotherKey:
            raise ProofRefused("invalid_token", "the token is bound to another key") from None
        except InvalidProof as error:
            raise ProofRefused("invalid_dpop_proof", str(error)) from None
        claims = proof.claims
        issued, id, url = claims.get("iat"), claims.get("jti"), claims.get("htu")
        if claims.get("htm") != method:
            raise ProofRefused("invalid_dpop_proof", "htm is not the method of the request")
        if not isinstance(url, str) or not self._is_here(url, path):
            raise ProofRefused("invalid_dpop_proof", "htu is not the URL of the request")
        # Compared and not subtracted: an integer may be too large for a float.
        if (
            isinstance(issued, bool)
            or not isinstance(issued, (int, float))
            or not now - PROOF_SECONDS <= issued <= now + PROOF_SECONDS
        ):
            raise ProofRefused("invalid_dpop_proof", "iat is not now")
        if claims.get("ath") != token_hash(token):
            raise ProofRefused("invalid_dpop_proof", "ath is not the hash of the token")
        if not isinstance(id, str) or not id:
            raise ProofRefused("invalid_dpop_proof", "jti is missing")
        if self._secret is not None:
            period = int(now // _NONCE_SECONDS)
            if claims.get("nonce") not in [self._nonce(self._secret, period - back) for back in (0, 1)]:
                raise ProofRefused("use_dpop_nonce", "the proof needs the nonce of DPoP-Nonce")
        self.used.use(client, (key, id), issued + PROOF_SECONDS, now)
        return claims

    def _is_here(self, url: str, path: str) -> bool:
        try:
            parts = urlsplit(canonical_resource(url.partition("#")[0].partition("?")[0]))
        except ValueError:
            return False
        named = f"{parts.scheme}://{parts.netloc}{parts.path}"
        return named in {self._resource, f"{self._origin}{path}", canonical_resource(f"{self._origin}{path}")}


def check_digest(claims: Mapping[str, Any], body: bytes) -> None:
    """Check the digest of the body in a proof, if it has one.

    Raises:
        ProofRefused: It is that of another body.
    """
    digest = claims.get("content_digest")
    if digest is not None and digest != content_digest(body):
        raise ProofRefused("invalid_dpop_proof", "content_digest is not that of the body")
