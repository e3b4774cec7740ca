"""The ways of OAuth in which programs have tokens, and nobody is asked. That by which a person is: `_person`.

    ClientCredentials    a program in its own name, with a secret or a key
    EnterpriseManaged    a person who is logged in at an identity provider, whose organisation has decided
    WorkloadIdentity     a program that its platform vouches for

Spec: 2026-07-28, basic/authorization; extensions io.modelcontextprotocol/oauth-client-credentials and
enterprise-managed-authorization.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import quote

import attrs
import trio

from .._errors import AuthorizationFailed
from .._limits import KIB, valid_kind
from .._oauth._clients import ClientAuthMethod, OAuthClient, PrivateKeyJwt, choose_method
from .._oauth._code import scope_text, scopes_to_request
from .._oauth._metadata import AuthorizationServerMetadata, is_issuer
from .._oauth._tokens import (
    ID_JAG,
    ID_JAG_PROFILE,
    JWT_BEARER,
    TOKEN_EXCHANGE,
    TOKEN_TYPES,
    TokenSet,
    holder_of,
    read_exchanged,
)
from .._printable import printable
from ._flow import TokenFlow
from ._session import TokenGrant
from ._stores import TokenStore  # noqa: F401  # pyright: ignore[reportUnusedImport] - of hints in `__init__`

TokenSource: TypeAlias = str | os.PathLike[str] | Callable[[], str | Awaitable[str]]
"""Where a token comes from: a file, which is read each time, or a plain or async function."""

MAX_TOKEN_FILE: Final = 64 * KIB
"""The largest file with a token."""


def check_text(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be a str, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{attribute.name} must not be empty")


def name_of(*parts: str | None) -> str:
    """Return a part of a key in a store. Different parts make different ones."""
    return " ".join(quote(part or "", safe=":/?#[]@!$&'()*+,;=~") for part in parts)


def requested_scopes(
    scopes: frozenset[str] | None, flow: TokenFlow, *, refreshes: bool = False
) -> frozenset[str] | None:
    """Return the scopes to ask for; `None` to name none.

    What was asked for before is asked for again: a token with less would lose what other requests need.

    Args:
        scopes: Those that the user has chosen.
        flow: What the server says of itself, what it asks for, and the token so far.
        refreshes: Whether a refresh token is wanted. Programs need none, for they can always ask again.
    """
    before = frozenset[str]()
    need, previous, discovered = flow.need, flow.previous, flow.found
    if previous is not None and is_issuer(previous.issuer, discovered.server.issuer):
        before = (previous.requested or before) | (previous.granted or before)
    challenged = need.scopes
    if scopes is not None:
        challenged = scopes | challenged if need.step_up and challenged is not None else scopes
    return scopes_to_request(challenged, discovered, before=before, refreshes=refreshes)


@attrs.frozen(kw_only=True, eq=False)
class KnownClient(TokenGrant):
    """A grant of a client that an authorization server knows, and that may prove who it is."""

    client_id: str | None = None  # that of a registration by hand
    client_secret: str | None = attrs.field(default=None, repr=False, validator=check_text)
    key: PrivateKeyJwt | None = attrs.field(default=None, repr=False, validator=valid_kind)
    token_endpoint_auth_method: ClientAuthMethod | None = attrs.field(default=None, validator=valid_kind)

    @property
    def _binding(self) -> str | None:
        return self.client_id if self.issuer is None else None

    async def _client_of(self, flow: TokenFlow, server: AuthorizationServerMetadata) -> OAuthClient:
        """Return this client, as an authorization server knows it that may be shown its credentials.

        Raises:
            AuthorizationFailed: They belong to another one, or it takes none of this kind.
        """
        assert self.client_id is not None
        await flow.bind(server.issuer, f"the client {printable(self.client_id)}")
        method = choose_method(
            server.token_endpoint_auth_methods_supported,
            has_secret=self.client_secret is not None,
            has_key=self.key is not None,
            wanted=self.token_endpoint_auth_method,
            name=server.name,
        )
        return OAuthClient(
            client_id=self.client_id, client_secret=self.client_secret, key=self.key, method=method
        )


@final
@attrs.frozen(kw_only=True, eq=False)
class ClientCredentials(KnownClient):
    """Authorizes a program in its own name: ``auth=ClientCredentials(client_id="…", client_secret="…")``.

    Attributes:
        client_id: The id of the client.
        client_secret: Its secret, if it has one.
        key: Its key instead, which is safer: only signatures leave the program.
        token_endpoint_auth_method: How it authenticates. Default: as the authorization server offers.
        issuer: The authorization server that the credentials are for. Default: the first that they were used at,
            as long as the store lasts.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.

    Spec: extension io.modelcontextprotocol/oauth-client-credentials.
    """

    client_id: str = attrs.field(validator=check_text)

    def __attrs_post_init__(self) -> None:
        if self.client_secret is None and self.key is None:
            raise ValueError("ClientCredentials needs client_secret or key")

    def _identity(self, shown: str | None) -> str:
        """Whose tokens these are."""
        del shown
        return f"client {name_of(self.client_id, *([self.issuer] if self.issuer else []))}"

    async def _obtain(self, flow: TokenFlow) -> TokenSet:
        """Ask for a token."""
        client = await self._client_of(flow, flow.found.server)
        scopes = requested_scopes(self.scopes, flow)
        grant = {"grant_type": "client_credentials", "scope": scope_text(scopes)}
        return await flow.request_token(client, grant, scopes=scopes)


async def read_source(source: TokenSource) -> str:
    """Return a token from where the user has said.

    Raises:
        AuthorizationFailed: It cannot be had, or is empty. The message does not show it.
    """
    if not callable(source):
        try:
            async with await trio.open_file(source, encoding="utf-8") as file:
                text = await file.read(MAX_TOKEN_FILE + 1)
        except (OSError, UnicodeError) as error:
            raise AuthorizationFailed(f"the token in {os.fspath(source)} cannot be read: {error}") from error
        if not text.strip():
            raise AuthorizationFailed(f"the token in {os.fspath(source)} cannot be read: the file is empty")
        return text.strip()
    await trio.lowlevel.checkpoint()
    returned = cast("object", source())
    if inspect.isawaitable(returned):
        returned = cast("object", await returned)
    if not isinstance(returned, str) or not returned:
        what = "an empty str" if returned == "" else type(returned).__name__
        raise AuthorizationFailed(f"the function for a token must return one as a str, not {what}")
    return returned


def _holder(account: str | None, shown: str | None) -> str | None:
    """Return for whom a token is, by the user's word or else by what is shown to have it."""
    if account is not None:
        return f"account {account}"
    return None if shown is None else holder_of(shown)


@final
@attrs.frozen(kw_only=True, eq=False)
class WorkloadIdentity(TokenGrant):
    """Authorizes a program that its platform vouches for, by a token that the platform gives to it.

    A refusal is final: it is neither tried again nor by another grant.

    Attributes:
        token: The platform's token: the path of a file, which is read each time because platforms replace it, or
            a plain or async function that returns it.
        client_id: The id of the client, where the authorization server wants one. Default: none is sent.
        account: A name for the workload, where one store has the tokens of several. Default: what its platform
            calls it (``iss`` and ``sub``), which is read when a token is needed.
        issuer: The only authorization server that the platform's token is shown to. Default: the first that it
            was shown to, as long as the store lasts.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.

    Spec: SEP-1933; RFC 7523, section 2.1.
    """

    token: TokenSource = attrs.field(repr=False)
    client_id: str | None = attrs.field(default=None, validator=check_text)
    account: str | None = attrs.field(default=None, validator=check_text)

    @property
    def _binding(self) -> str | None:
        # Not for each workload: a token may not say whose it is, and platforms make another one each hour.
        return f"workload {name_of(self.client_id, self.account)}" if self.issuer is None else None

    def _identity(self, shown: str | None) -> str | None:
        """Whose tokens these are."""
        holder = _holder(self.account, shown)
        return None if holder is None else f"workload {name_of(self.client_id, self.issuer, holder)}"

    async def _read_shown(self) -> str:
        return await read_source(self.token)

    async def _obtain(self, flow: TokenFlow) -> TokenSet:
        """Ask for a token."""
        await flow.bind(flow.found.server.issuer, "the workload")
        scopes = requested_scopes(self.scopes, flow)
        grant = {"grant_type": JWT_BEARER, "assertion": flow.shown, "scope": scope_text(scopes)}
        client = None if self.client_id is None else OAuthClient(client_id=self.client_id)
        return await flow.request_token(client, grant, scopes=scopes)


@final
@attrs.frozen(kw_only=True, eq=False)
class EnterpriseManaged(KnownClient):
    """Authorizes a person who is logged in at an identity provider, as their organisation has decided.

    The identity provider exchanges the person's token for an assertion (ID-JAG) for the authorization server of
    the MCP server, which gives a token for it. Nobody is asked anything.

    Attributes:
        id_token: The person's token of the identity provider: the path of a file, or a plain or async function.
        idp_issuer: The identity provider, whose metadata name its token endpoint.
        idp_token_endpoint: That endpoint, if the identity provider has no metadata.
        idp_client_id: The id of this client at the identity provider.
        idp_client_secret: Its secret there, if it has one.
        idp_key: Its key there, if it has one.
        client_id: The id of this client at the authorization server of the MCP server.
        client_secret: Its secret there, if it has one.
        key: Its key there, if it has one.
        token_endpoint_auth_method: How it authenticates there. Default: as the authorization server offers.
        subject_token_type: What `id_token` returns: ``"id_token"``, ``"saml2"`` or ``"refresh_token"``.
        account: A name for the person, where one store has the tokens of several. Default: whom `id_token` says
            that it is for (``iss`` and ``sub``), which is read when a token is needed; one that does not say it
            is taken for somebody of its own.
        issuer: The authorization server. Default: the one that the MCP server names.
        scopes: The scopes to ask for. Default: what the server asks for.
        store: Where tokens are kept. Default: in memory, as long as this object.
        dpop: Whether tokens must be bound to a key (RFC 9449). Default: if the server wants it.
        insecure_hosts: Hosts whose URLs may be http, such as those of containers.

    Spec: extension io.modelcontextprotocol/enterprise-managed-authorization.
    """

    id_token: TokenSource = attrs.field(repr=False)
    idp_issuer: str | None = None
    idp_token_endpoint: str | None = None
    idp_client_id: str = attrs.field(validator=check_text)
    idp_client_secret: str | None = attrs.field(default=None, repr=False, validator=check_text)
    idp_key: PrivateKeyJwt | None = attrs.field(default=None, repr=False)
    client_id: str = attrs.field(validator=check_text)
    subject_token_type: str = "id_token"
    account: str | None = attrs.field(default=None, validator=check_text)

    def __attrs_post_init__(self) -> None:
        if self.idp_issuer is None and self.idp_token_endpoint is None:
            raise ValueError("EnterpriseManaged needs idp_issuer or idp_token_endpoint")

    @property
    def _named(self) -> Collection[str | None]:
        return (self.issuer, self.idp_issuer, self.idp_token_endpoint)

    def _identity(self, shown: str | None) -> str | None:
        """Whose tokens these are."""
        holder = _holder(self.account, shown)
        idp = self.idp_issuer or self.idp_token_endpoint
        names = name_of(self.client_id, self.idp_client_id, idp, self.issuer, holder)
        return None if holder is None else f"enterprise {names}"

    async def _read_shown(self) -> str:
        return await read_source(self.id_token)

    async def _obtain(self, flow: TokenFlow) -> TokenSet:
        """Exchange the person's token, and ask for another with what comes."""
        server = flow.found.server
        profiles = server.authorization_grant_profiles_supported
        if profiles is not None and ID_JAG_PROFILE not in profiles:
            raise AuthorizationFailed(
                f"{server.name} does not take assertions of identity providers ({ID_JAG_PROFILE} is not among "
                "its authorization_grant_profiles_supported)",
                issuer=server.issuer,
            )
        client = await self._client_of(flow, server)
        scopes = requested_scopes(self.scopes, flow)
        assertion = await self._exchange(flow, scope_text(scopes))
        grant: Mapping[str, str | None] = {
            "grant_type": JWT_BEARER,
            "assertion": assertion,
            "scope": scope_text(scopes),
        }
        return await flow.request_token(client, grant, scopes=scopes)

    async def _exchange(self, flow: TokenFlow, scope: str | None) -> str:
        """Return the assertion for the authorization server (RFC 8693)."""
        endpoint, issuer, offered = self.idp_token_endpoint, self.idp_issuer, None
        if endpoint is None:
            assert self.idp_issuer is not None
            idp: AuthorizationServerMetadata = await flow.find_server(self.idp_issuer)
            endpoint, offered = idp.token_endpoint, idp.token_endpoint_auth_methods_supported
        issuer = issuer or endpoint
        name = f"the identity provider {printable(issuer)}"
        has_secret, has_key = self.idp_client_secret is not None, self.idp_key is not None
        method = choose_method(offered, has_secret=has_secret, has_key=has_key, name=name)
        client = OAuthClient(
            client_id=self.idp_client_id, client_secret=self.idp_client_secret, key=self.idp_key, method=method
        )
        grant = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": flow.found.server.issuer,
            "resource": flow.found.resource,
            "scope": scope,
            "subject_token": flow.shown,
            "subject_token_type": f"{TOKEN_TYPES}{self.subject_token_type}",
        }
        posted = await flow.post_form(endpoint, issuer, client, grant)
        return read_exchanged(posted.status, posted.document, name, issuer)
