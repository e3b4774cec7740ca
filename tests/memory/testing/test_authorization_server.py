"""The authorization server that users' tests log in to: what it gives, what it refuses, and what it does wrong."""

from __future__ import annotations

import base64
import json
import re
import time
from functools import partial
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing
from authorization_pages import shows
from inside_protection import DpopKey
from logging_in import BACK, ISSUER, RESOURCE, basic, claims_of, open_person
from misbehaving import Misbehaving, Misbehaviour

from trio_mcp.testing import AuthorizationServer

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


@pytest.mark.parametrize("issuer", [ISSUER, f"{ISSUER}/tenant", f"{ISSUER}/"])
async def test_metadata_are_where_clients_look(issuer: str) -> None:
    """RFC 8414, section 3; OpenID Connect Discovery, section 4. The issuer is the string that it was given."""
    authorization = AuthorizationServer(issuer=issuer, scopes=["a", "b"])
    path = issuer.removeprefix(ISSUER).rstrip("/")
    async with open_person(authorization) as person:
        said = await person.get(f"{ISSUER}/.well-known/openid-configuration{path}")
        for place in (
            f"{ISSUER}/.well-known/oauth-authorization-server{path}",
            f"{ISSUER}{path}/.well-known/openid-configuration",
        ):
            said = await person.get(place)
            assert (said.status, said.json["issuer"]) == (200, issuer)
        assert said.json["token_endpoint"] == f"{issuer.rstrip('/')}/token"
        assert said.json["code_challenge_methods_supported"] == ["S256"]
        assert said.json["authorization_response_iss_parameter_supported"] is True
        assert said.json["scopes_supported"] == ["a", "b"]
        assert (await person.get(f"{ISSUER}/.well-known/other")).status == 404


def test_without_a_url_nothing_is_issued() -> None:
    """Tokens that name no issuer would be refused far away from where the mistake is."""
    authorization = AuthorizationServer()
    for issue in (authorization.issue, partial(authorization.issue_id_token, "client")):
        with pytest.raises(RuntimeError, match=r"issue it within serving\(\), or give an issuer"):
            issue()


async def test_a_login_gives_tokens_for_the_resource() -> None:
    """RFC 6749, section 4.1; RFC 8707; RFC 9068; RFC 9207."""
    async with open_person() as person:
        back = await person.authorize()
        assert back.status == 302
        assert back.headers["location"].startswith(f"{BACK}?"), "the port of a loopback address is free"
        assert (back.sent_back["state"], back.sent_back["iss"]) == ("s", ISSUER)
        said = await person.redeem(back.sent_back["code"])
        assert (said.status, said.headers["cache-control"]) == (200, "no-store")
        assert (said.json["token_type"], said.json["scope"]) == ("Bearer", "a b")
        claims = claims_of(said.json["access_token"])
        assert said.json["expires_in"] == 3_600
        assert claims["exp"] - claims["iat"] in (3_600, 3_601), "whole seconds, and good for as long as was said"
        assert {name: claims[name] for name in ("iss", "sub", "aud", "client_id", "scope")} == {
            "iss": ISSUER,
            "sub": "ann",
            "aud": RESOURCE,
            "client_id": "app",
            "scope": "a b",
        }
        again = await person.redeem(back.sent_back["code"])
        assert (again.status, again.json["error"]) == (400, "invalid_grant"), "a code is good once"
        assert person.authorization.grants == {"authorization_code": 2}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:3001/callback"}, "invalid_grant"),
        ({"resource": "https://other.test/mcp"}, "invalid_target"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
        ({"grant_type": "password"}, "unauthorized_client"),
    ],
)
async def test_a_code_is_good_for_who_has_asked_for_it(wrong: dict[str, str], error: str) -> None:
    """RFC 7636, section 4.6; RFC 6749, section 4.1.3; RFC 8707, section 2.2."""
    async with open_person() as person:
        said = await person.redeem((await person.authorize()).sent_back["code"], None, **wrong)
        assert said.json["error"] == error
        assert "access_token" not in said.json


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
async def test_a_wrong_question_is_sent_back(wrong: dict[str, str], error: str) -> None:
    """With state and issuer, by which the client finds out whose answer it is (RFC 9207)."""
    async with open_person() as person:
        back = (await person.authorize(**wrong)).sent_back
        assert (back["error"], back["state"], back["iss"]) == (error, "s", ISSUER)


@pytest.mark.parametrize("wrong", [{"redirect_uri": "https://evil.test/callback"}, {"client_id": "nobody"}])
async def test_nobody_is_sent_to_an_address_that_is_not_the_clients(wrong: dict[str, str]) -> None:
    """RFC 6749, section 3.1.2.4: an open redirector would hand codes to others."""
    async with open_person() as person:
        said = await person.authorize(**wrong)
        assert (said.status, "location" in said.headers) == (400, False)


async def test_a_person_agrees_on_a_page() -> None:
    """Which no other page can frame, and nobody else can answer for them."""
    async with open_person(AuthorizationServer(issuer=ISSUER, consent="asked")) as person:
        person.authorization.add_client("<b>", redirect_uris=[BACK])

        async def ask() -> tuple[str, str]:
            page = await person.authorize(client_id="<b>")
            assert page.status == 200
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert b"&lt;b&gt;" in page.body
            found = re.search(rb"name=request value=([^>]+)>", page.body)
            assert found is not None
            return found[1].decode(), page.headers["set-cookie"].partition(";")[0]

        request, cookie = await ask()
        forged = await person.post("/consent", request=request, decision="allow")
        assert forged.status == 400
        request, cookie = await ask()
        said = await person.post("/consent", {"Cookie": cookie}, request=request, decision="allow")
        assert said.sent_back["code"]
        again = await person.post("/consent", {"Cookie": cookie}, request=request, decision="allow")
        assert again.status == 400
        request, cookie = await ask()
        denied = await person.post("/consent", {"Cookie": cookie}, request=request, decision="deny")
        assert denied.sent_back["error"] == "access_denied"
        person.authorization.consent = "denied"
        assert (await person.authorize()).sent_back["error"] == "access_denied"


@shows("Localhost Redirect URI Risks")
async def test_a_person_is_told_where_the_answer_goes() -> None:
    """And that any program of this machine could listen there, if that is where it goes in every case."""
    for uris, warns in (
        ([BACK], True),
        (["https://app.test/callback"], False),
        ([BACK, "https://app.test/x"], False),
    ):
        async with open_person(AuthorizationServer(issuer=ISSUER, consent="asked")) as person:
            person.authorization.add_client("x", redirect_uris=uris)
            page = await person.authorize(client_id="x", redirect_uri=uris[0])
            assert urlsplit(uris[0]).netloc.encode() in page.body
            assert (b"just started it on this machine" in page.body) is warns


async def test_refresh_tokens_are_good_once() -> None:
    """RFC 9700, section 4.14.2: one that comes twice was stolen, and everything of its login ends."""
    async with open_person() as person:

        async def refresh(token: str, **other: str) -> dict[str, Any]:
            form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "app", **other}
            return (await person.post("/token", None, **form)).json

        first = await person.log_in()
        second = await refresh(first["refresh_token"], resource=RESOURCE)
        assert second["refresh_token"] != first["refresh_token"]
        fewer = await refresh(second["refresh_token"], scope="a")
        assert claims_of(fewer["access_token"])["scope"] == "a"
        assert (await refresh(fewer["refresh_token"], scope="a c"))["error"] == "invalid_scope"
        assert (await refresh(first["refresh_token"]))["error"] == "invalid_grant"
        assert (await refresh(fewer["refresh_token"]))["error"] == "invalid_grant"
        assert person.authorization.grants["refresh_token"] == 5


async def test_clients_register_and_are_known_by_their_documents() -> None:
    """RFC 7591; the draft of client id metadata documents."""
    url = "https://app.test/client.json"
    document = {"client_id": url, "client_name": "App", "redirect_uris": [BACK]}
    async with open_person(AuthorizationServer(issuer=ISSUER, documents={url: document})) as person:
        body = (
            b'{"redirect_uris": ["%b"], "client_name": "x", "token_endpoint_auth_method": "client_secret_post"}'
        )
        said = await person.send("POST", "/register", body % BACK.encode(), {})
        assert (said.status, said.json["client_name"]) == (201, "x")
        code = (await person.authorize(client_id=said.json["client_id"])).sent_back["code"]
        own = {"client_id": said.json["client_id"], "client_secret": said.json["client_secret"]}
        assert (await person.redeem(code, **own)).status == 200
        code = (await person.authorize(client_id=url)).sent_back["code"]
        assert (await person.redeem(code, client_id=url)).status == 200
        person.authorization.documents["https://evil.test/x"] = document
        assert (await person.authorize(client_id="https://evil.test/x")).status == 400, "it is of another URL"
        for wrong in (b"[]", b"{", b'{"redirect_uris": "x"}', b"{}"):
            assert (await person.send("POST", "/register", wrong, {})).status == 400
        person.authorization.registration = False
        assert (await person.send("POST", "/register", body % BACK.encode(), {})).status == 403
        assert "registration_endpoint" not in person.authorization.metadata()


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("http://app.test/callback", 400),
        ("http://127.0.0.1.app.test/callback", 400),
        ("javascript:alert(1)", 400),
        ("https://app.test/callback", 201),
        ("http://localhost:1/callback", 201),
        ("com.example.app:/callback", 201),
    ],
)
async def test_nobody_is_registered_at_an_address_of_others_without_tls(uri: str, status: int) -> None:
    """Whoever is on the way there could read the code."""
    async with open_person() as person:
        said = await person.send("POST", "/register", json.dumps({"redirect_uris": [uri]}).encode(), {})
        assert said.status == status
        if status == 400:
            assert said.json["error"] == "invalid_redirect_uri"


@shows("Client ID Metadata Document Security")
async def test_a_document_that_says_too_little_is_none(subtests: pytest.Subtests) -> None:
    """The draft of client id metadata documents, section 4.1; and its redirect URIs are all there are."""
    rows: list[tuple[dict[str, Any], int]] = [
        ({}, 302),
        ({"client_name": None}, 400),
        ({"redirect_uris": []}, 400),
        ({"redirect_uris": BACK}, 400),
        ({"redirect_uris": ["https://app.test/other"]}, 400),
        ({"client_id": "https://app.test/other.json"}, 400),
        ({"client_secret": "s"}, 400),
    ]
    for change, status in rows:
        with subtests.test(change=change, status=status):
            url = "https://app.test/client.json"
            document = {"client_id": url, "client_name": "App", "redirect_uris": [BACK], **change}
            async with open_person(AuthorizationServer(issuer=ISSUER, documents={url: document})) as person:
                said = await person.authorize(client_id=url)
                assert (said.status, "location" in said.headers) == (status, status == 302)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://app.test/x", 302),
        ("http://127.0.0.1:1/x", 302),
        ("http://app.test/x", 400),
        ("ftp://app.test/x", 400),
    ],
)
async def test_a_document_is_believed_from_where_nobody_else_can_write_it(url: str, status: int) -> None:
    """By https, or on this machine, where tests are."""
    document = {"client_id": url, "client_name": "App", "redirect_uris": [BACK]}
    async with open_person(AuthorizationServer(issuer=ISSUER, documents={url: document})) as person:
        assert (await person.authorize(client_id=url)).status == status


async def test_metadata_say_which_grants_there_are() -> None:
    """And how clients authenticate for tokens of their own."""
    async with open_person() as person:
        said = (await person.get("/.well-known/oauth-authorization-server")).json
        assert "client_credentials" in said["grant_types_supported"]
        assert {"private_key_jwt", "client_secret_basic"} <= set(said["token_endpoint_auth_methods_supported"])


async def test_tokens_are_looked_up_and_revoked() -> None:
    """RFC 7662; RFC 7009."""
    async with open_person() as person:
        person.authorization.add_client("server", secret="s3cret")
        token = (await person.log_in())["access_token"]
        own = basic("server", "s3cret")
        known = (await person.post("/introspect", own, token=token)).json
        assert (known["active"], known["sub"], known["aud"]) == (True, "ann", RESOURCE)
        assert (await person.post("/introspect", basic("server", "wrong"), token=token)).status == 401
        assert (await person.post("/introspect", own, token="other")).json == {"active": False}
        assert (await person.post("/revoke", own, token=token)).status == 200
        assert (await person.post("/introspect", own, token=token)).json == {"active": False}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
async def test_clients_get_tokens_of_their_own(method: Any) -> None:
    """RFC 6749, section 4.4; RFC 7523, section 2.2."""
    from joserfc import jwt
    from joserfc.jwk import ECKey

    key = ECKey.generate_key("P-256", {"kid": "k"})
    async with open_person() as person:
        jwks = {"keys": [key.as_dict(private=False)]} if method == "private_key_jwt" else None
        secret = None if jwks else "s&c ret"
        person.authorization.add_client("job", secret=secret, method=method, jwks=jwks)
        form = {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "a"}
        headers: dict[str, str] = {}
        if method == "client_secret_basic":
            headers = basic("job", "s%26c+ret")
        elif method == "client_secret_post":
            form |= {"client_id": "job", "client_secret": "s&c ret"}
        else:
            said = {"iss": "job", "sub": "job", "aud": ISSUER, "exp": time.time() + 60, "jti": "1"}
            form["client_assertion"] = jwt.encode({"alg": "ES256", "kid": "k"}, said, key)
            form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        answer = await person.post("/token", headers, **form)
        assert answer.status == 200, answer.body
        claims = claims_of(answer.json["access_token"])
        assert (claims["sub"], claims["aud"]) == ("job", RESOURCE)
        again = await person.post("/token", headers, **form)
        assert again.status == (401 if method == "private_key_jwt" else 200), "an assertion is good once"
        public = await person.post("/token", grant_type="client_credentials", client_id="app")
        assert public.json["error"] == "unauthorized_client"


async def test_an_enterprise_lends_its_logins() -> None:
    """The draft of identity assertion authorization grants: two servers, of which one trusts the other."""
    provider = AuthorizationServer(issuer="https://idp.test")
    provider.add_client("app-at-idp", secret="idp")
    authorization = AuthorizationServer(issuer=ISSUER, trusted_issuers={"https://idp.test": provider.jwks()})
    authorization.add_client("enterprise", secret="s")
    async with open_person(provider) as at_idp, open_person(authorization) as person:
        said = await at_idp.post("/token", basic("app-at-idp", "idp"), **exchange(provider, "app-at-idp"))
        assert said.status == 200, said.body
        grant = {"grant_type": JWT_BEARER, "assertion": said.json["access_token"], "scope": "a c"}
        tokens = await person.post("/token", basic("enterprise", "s"), **grant)
        assert tokens.status == 200, tokens.body
        claims = claims_of(tokens.json["access_token"])
        assert (claims["sub"], claims["aud"], claims["scope"]) == ("carl", RESOURCE, "a")
        again = await person.post("/token", basic("enterprise", "s"), **grant)
        assert again.json["error"] == "invalid_grant", "an assertion is good once"


def exchange(provider: AuthorizationServer, client_id: str) -> dict[str, str]:
    """Return what an identity provider is asked by a client that it knows as ``app-at-idp``."""
    return {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "subject_token": provider.issue_id_token(client_id, subject="carl"),
        "audience": ISSUER,
        "resource": RESOURCE,
        "scope": "a b",
        "client_id": "enterprise",
    }


async def test_what_an_identity_provider_lends() -> None:
    """The same draft: the answer to an exchange, and what the assertion says."""
    provider = AuthorizationServer(issuer="https://idp.test")
    provider.add_client("app-at-idp", secret="idp")
    async with open_person(provider) as person:
        said = await person.post("/token", basic("app-at-idp", "idp"), **exchange(provider, "app-at-idp"))
        assert said.json["issued_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
        assert said.json["token_type"] == "N_A"
        header, claims = (
            json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
            for part in said.json["access_token"].split(".")[:2]
        )
        assert header["typ"] == "oauth-id-jag+jwt"
        assert claims.pop("jti")
        assert claims["exp"] - claims.pop("iat") == said.json["expires_in"] > 0
        assert claims.pop("exp") > time.time()
        assert claims == {
            "iss": "https://idp.test",
            "sub": "carl",
            "aud": ISSUER,
            "resource": RESOURCE,
            "client_id": "enterprise",
            "scope": "a b",
        }


async def test_an_identity_token_of_another_client_is_not_exchanged() -> None:
    """Nor one that nobody has signed."""
    provider = AuthorizationServer(issuer="https://idp.test")
    provider.add_client("app-at-idp", secret="idp")
    stranger = AuthorizationServer(issuer="https://idp.test")
    async with open_person(provider) as person:
        for wrong in (exchange(provider, "another"), exchange(stranger, "app-at-idp")):
            said = await person.post("/token", basic("app-at-idp", "idp"), **wrong)
            assert (said.status, said.json["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("change", "client", "status"),
    [
        ({}, "enterprise", 200),
        ({"audience": "https://other.test"}, "enterprise", 400),
        ({"client_id": "another"}, "enterprise", 400),
        ({}, "another", 400),
    ],
)
async def test_an_assertion_is_good_for_its_client_and_its_server(
    change: dict[str, str], client: str, status: int
) -> None:
    provider = AuthorizationServer(issuer="https://idp.test")
    provider.add_client("app-at-idp", secret="idp")
    authorization = AuthorizationServer(issuer=ISSUER, trusted_issuers={"https://idp.test": provider.jwks()})
    for each in ("enterprise", "another"):
        authorization.add_client(each, secret="s")
    async with open_person(provider) as at_idp, open_person(authorization) as person:
        asked = {**exchange(provider, "app-at-idp"), **change}
        lent = await at_idp.post("/token", basic("app-at-idp", "idp"), **asked)
        grant = {"grant_type": JWT_BEARER, "assertion": lent.json["access_token"]}
        said = await person.post("/token", basic(client, "s"), **grant)
        assert (said.status, said.json.get("error")) == (status, None if status == 200 else "invalid_grant")


async def test_a_workload_comes_with_the_token_of_its_platform() -> None:
    """RFC 7523, section 2.1: no client, and no secret."""
    platform = AuthorizationServer(issuer="https://platform.test")
    authorization = AuthorizationServer(issuer=ISSUER, trusted_issuers={"https://platform.test": platform.jwks()})
    async with open_person(authorization) as person:
        for assertion, status in (
            (platform.issue(subject="job-7", resource=ISSUER), 200),
            (platform.issue(subject="job-7", resource="https://other.test"), 400),
            (platform.issue(subject="job-7", resource=ISSUER, lifetime=-5), 400),
            (AuthorizationServer(issuer="https://platform.test").issue(resource=ISSUER), 400),
            ("nonsense", 400),
        ):
            said = await person.post("/token", grant_type=JWT_BEARER, assertion=assertion, resource=RESOURCE)
            assert said.status == status
        assert person.authorization.grants[JWT_BEARER] == 5


async def test_tokens_are_bound_to_keys() -> None:
    """RFC 9449, sections 4 to 8: a proof is good for one request, and with the nonce that the server wants."""
    key, authorization = DpopKey(), AuthorizationServer(issuer=ISSUER, dpop="required", dpop_nonces=True)
    async with open_person(authorization) as person:

        def proof(nonce: str | None = None, url: str = f"{ISSUER}/token") -> dict[str, str]:
            return {"DPoP": key.prove("POST", url, now=time.time(), nonce=nonce)}

        async def redeem(headers: dict[str, str]) -> Any:
            return await person.redeem((await person.authorize()).sent_back["code"], headers)

        assert (await redeem({})).json["error"] == "invalid_dpop_proof"
        asked = await redeem(proof())
        assert asked.json["error"] == "use_dpop_nonce"
        nonce = asked.headers["dpop-nonce"]
        good = proof(nonce)
        said = await redeem(good)
        assert said.json["token_type"] == "DPoP"
        assert claims_of(said.json["access_token"])["cnf"] == {"jkt": key.thumbprint}
        assert (await redeem(good)).json["error"] == "invalid_dpop_proof", "it was used before"
        assert (await redeem(proof(nonce, f"{ISSUER}/other"))).json["error"] == "invalid_dpop_proof"
        form = {"grant_type": "refresh_token", "refresh_token": said.json["refresh_token"], "client_id": "app"}
        other = {"DPoP": DpopKey().prove("POST", f"{ISSUER}/token", now=time.time(), nonce=nonce)}
        assert (await person.post("/token", other, **form)).status == 400
        assert (await person.post("/token", proof(nonce), **form)).status == 200


async def test_it_misbehaves_on_demand(subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock) -> None:
    """Each of them is seen by somebody who looks."""

    async def check(wrong: Misbehaviour) -> None:
        authorization = Misbehaving(issuer=ISSUER)
        async with open_person(authorization) as person:

            async def look() -> list[object]:
                seen: list[object] = []
                for step in (
                    lambda: person.get("/.well-known/oauth-authorization-server"),
                    person.authorize,
                    log_in,
                    lambda: person.send("POST", "/register", b'{"redirect_uris": ["http://127.0.0.1/"]}', {}),
                ):
                    with trio.move_on_after(0.05):
                        said = await step()
                        body = re.sub(
                            rb'"(client_id|client_secret)":"[^"]+"|"client_id_issued_at":\d+', b"", said.body
                        )
                        seen.append(
                            (said.status, re.sub("code=[^&]+", "", said.headers.get("location", "")), body)
                        )
                return seen

            async def log_in() -> Any:
                code = (await person.authorize()).sent_back["code"]
                first = await person.redeem(code)
                token = first.json.get("refresh_token", "") if first.status == 200 else ""
                form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "app"}
                second = await person.post("/token", None, **form)
                steps: list[object] = [first.status, second.status]
                for answer in (first, second):
                    tokens: dict[str, Any] = answer.json if answer.status in (200, 400) else {}
                    claims = claims_of(tokens["access_token"]) if "access_token" in tokens else {}
                    steps += [tokens.get("token_type"), claims.get("aud"), claims.get("exp", 0) > time.time()]
                    steps += [sorted(tokens), tokens.get("refresh_token") == token]
                from logging_in import Said

                return Said(0, {}, repr(steps).encode())

            before = await look()
            authorization.misbehaviours.add(wrong)
            assert await look() != before
            authorization.misbehaviours.discard(wrong)
            assert await look() == before

    for wrong in get_args(Misbehaviour):
        with subtests.test(wrong=wrong):
            await check(wrong)


def test_mistakes_are_told_when_it_is_made() -> None:
    """One string would be as many scopes as it has letters, and an unknown word would be as good as the default."""
    with pytest.raises(TypeError, match=r"scopes are several strings, as \['orders:write'\], not one string"):
        AuthorizationServer().issue(scopes="orders:write")
    with pytest.raises(TypeError, match="scopes are several strings"):
        AuthorizationServer(scopes="orders:write")
    options: list[dict[str, Any]] = [{"consent": "ask"}, {"dpop": "never"}, {"algorithm": "none"}]
    for option in options:
        with pytest.raises(ValueError, match=f"'{next(iter(option))}' must be in"):
            AuthorizationServer(**option)


def test_it_shows_no_secrets() -> None:
    """Neither clients' secrets nor tokens are in what is printed."""
    authorization = AuthorizationServer(issuer=ISSUER)
    client = authorization.add_client("app", secret="s3cret")
    assert "s3cret" not in repr(client) + repr(authorization)
