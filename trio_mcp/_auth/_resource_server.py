"""How a server is protected by OAuth: the settings of a resource server. They are applied by `_endpoint`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, final

import attrs

from .._limits import MIB, _size
from .._oauth._protected_resource import check_url, resource_metadata
from ._verifiers import CertificateVerifier, JwtVerifier, TokenVerifier, Verify

Verifier: TypeAlias = TokenVerifier | CertificateVerifier | Verify
"""What vouches for clients: one of the verifiers, or a function that does what `Verify` says."""


def _urls(urls: Iterable[str]) -> tuple[str, ...]:
    if isinstance(urls, str):
        raise TypeError(f"authorization_servers must be several URLs, not the string {urls!r}")
    return tuple(check_url("authorization_servers", url) for url in urls)


def _scopes(scopes: Iterable[str]) -> frozenset[str]:
    if isinstance(scopes, str):
        raise TypeError(f"scopes must be several strings, not the string {scopes!r}")
    return frozenset(scopes)


def _verifiers(given: Verifier | Sequence[Verifier] | None) -> tuple[Verifier, ...]:
    if given is None:
        return ()
    return tuple(cast("Any", given)) if isinstance(given, Sequence) else (given,)


@final
@attrs.frozen(kw_only=True)
class ResourceServer:
    """How a server over HTTP is protected by OAuth: ``serve_http(server, auth=ResourceServer(…))``.

        ResourceServer("https://example.com/mcp", authorization_servers=["https://login.example.com"])

    Each request needs an access token in its `Authorization` field that was issued for this server (``aud``), by
    one of its authorization servers, has not expired, and has the scopes. `Context.principal` is whose it is; all
    that a server keeps for somebody belongs to its issuer and subject, so a client that comes with a new token
    finds it again. A token in a URL is never looked at.

    Clients without one get 401, and find the way to the authorization servers by metadata at
    ``/.well-known/oauth-protected-resource``, with and without the path of the resource. What tools, resources
    and prompts need beyond `scopes` is said where they are registered; a client that lacks it gets 403, with a
    challenge that names the scopes.

    A stream, a subscription or a WebSocket ends when the token expires with which it was opened.

    Args:
        resource: The URL of the endpoint as clients use it; what tokens must be issued for.
        authorization_servers: The issuers of the tokens: their URLs, exactly as tokens have them.
        verifier: What vouches for tokens: `JwtVerifier`, `IntrospectionVerifier`, `CertificateVerifier`, a
            function (see `Verify`), or a list of these, which are asked in order. Default: a `JwtVerifier` for
            each authorization server.
        scopes: Those that every request needs.
        scopes_supported: Those that the metadata offer to clients; by default `scopes`.
        scope_implies: Which scopes include which others: ``{"orders:write": {"orders:read"}}``.
        audiences: For whom else tokens may be issued, such as a former URL of the server.
        name: The server's name, for people, in the metadata.
        documentation: The URL of a page for developers, in the metadata.
        dpop: Whether tokens that are bound to a key are ``"accepted"`` (RFC 9449), beside others; ``"required"``;
            or `None`, neither. A token that is bound is never accepted without a proof.
        dpop_nonces: Whether proofs need a nonce of this server, which shows that they are new.
        leeway: By how many seconds the clocks of two machines may differ.
        keep_for: For how many seconds a token is accepted without asking its verifier again, and never after it
            has expired. So long a revoked token may be accepted. 0 for asking each time.
        max_kept_bytes: How much memory the tokens take that are remembered; the ones not seen for longest are
            forgotten.
        hands_on_tokens: Whether handlers get the token, as `Principal.token`: for exchanging it for another one.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: A URL is no https URL without a fragment (http is only for this machine), or nothing vouches
            for tokens.
    """

    resource: str = attrs.field(kw_only=False)
    authorization_servers: tuple[str, ...] = attrs.field(default=(), converter=_urls)
    verifier: tuple[Verifier, ...] = attrs.field(default=(), converter=_verifiers)
    scopes: frozenset[str] = attrs.field(default=frozenset[str](), converter=_scopes)
    scopes_supported: frozenset[str] | None = attrs.field(
        default=None, converter=attrs.converters.optional(_scopes)
    )
    scope_implies: Mapping[str, Collection[str]] = attrs.field(factory=dict[str, Collection[str]])
    audiences: frozenset[str] = attrs.field(default=frozenset[str](), converter=_scopes)
    name: str | None = None
    documentation: str | None = None
    dpop: Literal["accepted", "required"] | None = attrs.field(
        default="accepted", validator=attrs.validators.in_(("accepted", "required", None))
    )
    dpop_nonces: bool = False
    leeway: float = attrs.field(default=60.0, validator=attrs.validators.ge(0))
    keep_for: float = attrs.field(default=60.0, validator=attrs.validators.ge(0))
    max_kept_bytes: int = _size(16 * MIB)
    hands_on_tokens: bool = False

    def __attrs_post_init__(self) -> None:
        check_url("resource", self.resource)
        if not self.verifier:
            if not self.authorization_servers:
                raise ValueError("authorization_servers or verifier is needed: nothing vouches for tokens")
            default = tuple(JwtVerifier(issuer) for issuer in self.authorization_servers)
            object.__setattr__(self, "verifier", default)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of the resource (RFC 9728, section 2)."""
        offered = self.scopes if self.scopes_supported is None else self.scopes_supported
        return resource_metadata(
            self.resource,
            authorization_servers=self.authorization_servers,
            scopes=offered,
            name=self.name,
            documentation=self.documentation,
            dpop=self.dpop,
            binds_certificates=any(isinstance(each, CertificateVerifier) for each in self.verifier),
        )
