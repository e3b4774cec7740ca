"""Tokens that are bound to a key (RFC 9449) or to a certificate (RFC 8705), and clients known by a certificate."""
# pyright: reportArgumentType=false, reportUnknownMemberType=false
# trustme takes the contexts of a library that is not here as well.

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trustme
from shared.http_server_bound_tokens import AUTHORIZATION, RESOURCE, make_server, protection, whoami

from trio_mcp import (
    CertificateVerifier,
    ClientCertificate,
    HttpServerParameters,
    HttpSettings,
    RequestError,
    ResourceServer,
    open_client,
    serve_http,
)

# Certificates.


@asynccontextmanager
async def served_over_tls(
    authority: trustme.CA, http: Any, auth: ResourceServer, mode: ssl.VerifyMode = ssl.CERT_REQUIRED
) -> AsyncGenerator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = mode
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, make_server(), "127.0.0.1", 0, http=http, ssl_context=context, auth=auth)
        urls: tuple[str, ...] = await nursery.start(serve)
        yield urls[0]
        nursery.cancel_scope.cancel()


def client_settings(authority: trustme.CA, own: trustme.LeafCert | None = None) -> HttpSettings:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if own is not None:
        own.configure_cert(context)
    return HttpSettings(ssl_context=context)


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
async def test_clients_are_known_by_their_certificates(http: str) -> None:
    """Without any token: the name of a workload, or the subject, vouched for by who has signed it."""
    authority = trustme.CA(organization_name="Example")
    verifier = CertificateVerifier(scopes=lambda certificate: {certificate.subject.partition(",")[0]})
    auth = ResourceServer(RESOURCE, verifier=verifier)
    worker = authority.issue_cert("worker@example.com", common_name="worker")
    async with served_over_tls(authority, http, auth) as url:
        shown = await whoami(url, client_settings(authority, worker))
        assert "CN=worker" in shown
        assert "O=Example" in shown
    async with served_over_tls(authority, http, auth, ssl.CERT_OPTIONAL) as url:
        with pytest.raises(RequestError, match="not authorized"):
            await whoami(url, client_settings(authority))


@pytest.mark.parametrize("http", ["hypercorn", "lean"])
async def test_a_token_is_bound_to_a_certificate(http: str) -> None:
    """RFC 8705, section 3: a stolen token is good for nobody without the key of the certificate."""
    authority = trustme.CA()
    own, other = (authority.issue_cert(f"{name}@example.com", common_name=name) for name in ("own", "other"))
    der = ssl.PEM_cert_to_DER_cert(own.cert_chain_pems[0].bytes().decode())
    token = AUTHORIZATION.issue(resource=RESOURCE, cnf={"x5t#S256": ClientCertificate(der).thumbprint})
    async with served_over_tls(authority, http, protection(), ssl.CERT_OPTIONAL) as url:
        assert "'ann'" in await whoami(url, client_settings(authority, own), token)
        for settings in (client_settings(authority, other), client_settings(authority)):
            with pytest.raises(RequestError, match="another certificate"):
                await whoami(url, settings, token)


@pytest.mark.parametrize("kind", ["alone", "bound"])
async def test_a_certificate_that_expires_is_good_no_more(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a connection that was made before: TLS looks at it when it begins, and never again."""
    authority = trustme.CA()
    own = authority.issue_cert("own@example.com", common_name="own")
    der = ssl.PEM_cert_to_DER_cert(own.cert_chain_pems[0].bytes().decode())
    token = AUTHORIZATION.issue(
        resource=RESOURCE, cnf={"x5t#S256": ClientCertificate(der).thumbprint}, lifetime=10**11
    )
    auth = ResourceServer(RESOURCE, verifier=CertificateVerifier()) if kind == "alone" else protection()
    async with served_over_tls(authority, "lean", auth) as url:
        headers = {} if kind == "alone" else {"Authorization": f"Bearer {token}"}
        settings = client_settings(authority, own)
        async with open_client(HttpServerParameters(url, headers=headers, http=settings)) as client:
            await client.call_tool("whoami")
            now = time.time()
            monkeypatch.setattr(time, "time", lambda: now + 5e10)
            with pytest.raises(RequestError, match="the certificate has expired"):
                await client.call_tool("whoami")
