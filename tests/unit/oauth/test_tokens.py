"""Clients at token endpoints, registrations, answers with tokens, and proofs."""

from __future__ import annotations

import base64
import json
from typing import Any, Final
from urllib.parse import parse_qs

import attrs
import pytest
from authorization_pages import shows
from inside_oauth import (
    Asked,
    AuthorizationServerMetadata,
    DpopKey,
    InvalidProof,
    OAuthClient,
    TokenSet,
    basic_credentials,
    check_metadata_url,
    choose_method,
    client_assertion,
    content_digest,
    metadata_document,
    read_exchanged,
    read_proof,
    read_registration,
    read_token,
    registration_body,
    thumbprint,
    token_request,
)
from joserfc import jwt
from joserfc.jwk import ECKey

from trio_mcp import AuthorizationFailed, ClientUnknown, PrivateKeyJwt

ISSUER: Final = "https://auth.example.com"
SERVER: Final = AuthorizationServerMetadata(
    issuer=ISSUER, token_endpoint=f"{ISSUER}/token", registration_endpoint=f"{ISSUER}/register"
)
ASKED: Final = Asked(
    issuer=ISSUER, name="the server", resource="https://mcp", client_id="me", scopes=frozenset({"a"})
)


def test_how_a_client_authenticates(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, bool, bool, Any, str | None]] = [
        (None, True, False, None, "client_secret_basic"),
        (None, False, False, None, "none"),
        (None, True, True, None, "private_key_jwt"),
        (["none"], True, False, None, "none"),
        (["client_secret_post"], True, False, None, "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], True, False, None, "client_secret_basic"),
        (["client_secret_basic"], True, False, "client_secret_post", "client_secret_post"),
        (["private_key_jwt", "client_secret_basic"], False, True, None, "private_key_jwt"),
        (["client_secret_basic"], False, False, None, "none"),
        (["client_secret_basic"], False, True, None, None),
        (["tls_client_auth"], True, False, None, None),
        (["none"], False, True, None, None),
        (["none"], False, False, "client_secret_basic", None),
    ]
    for offered, secret, key, wanted, method in cases:
        with subtests.test(offered=offered, secret=secret, key=key):
            if method is None:
                with pytest.raises(AuthorizationFailed):
                    choose_method(offered, has_secret=secret, has_key=key, wanted=wanted)
            else:
                assert choose_method(offered, has_secret=secret, has_key=key, wanted=wanted) == method


def test_credentials_are_encoded_before_they_are_joined() -> None:
    """RFC 6749, section 2.3.1: a colon in an id would end it."""
    text = basic_credentials("a:b", "c d%é").removeprefix("Basic ")
    assert base64.b64decode(text).decode() == "a%3Ab:c+d%25%C3%A9"


def form_of(client: OAuthClient | None, **grant: Any) -> tuple[dict[str, str], dict[str, str]]:
    request = token_request(f"{ISSUER}/token", client, grant, audience=ISSUER, now=1_000)
    assert "s3cret" not in repr(request)
    return {name: values[0] for name, values in parse_qs(request.body.decode()).items()}, dict(request.headers)


def test_where_a_secret_is_sent() -> None:
    form, headers = form_of(
        OAuthClient(client_id="me", client_secret="s3cret", method="client_secret_basic"), a=None
    )
    assert form == {"client_id": "me"}
    assert headers["Authorization"] == basic_credentials("me", "s3cret")
    form, headers = form_of(OAuthClient(client_id="me", client_secret="s3cret", method="client_secret_post"))
    assert form == {"client_id": "me", "client_secret": "s3cret"}
    assert "Authorization" not in headers
    assert form_of(OAuthClient(client_id="me", client_secret="s3cret"))[0] == {"client_id": "me"}
    assert form_of(None)[0] == {}


def test_a_key_signs_who_the_client_is_and_for_whom() -> None:
    key = ECKey.generate_key("P-256", private=True)
    given = PrivateKeyJwt(key=key.as_pem(private=True), key_id="k1")
    form, _ = form_of(OAuthClient(client_id="me", key=given, method="private_key_jwt"))
    token = jwt.decode(form["client_assertion"], key, algorithms=["ES256"])
    assert token.header["kid"] == "k1"
    claims = token.claims
    assert (claims["iss"], claims["sub"], claims["aud"], claims["iat"], claims["exp"]) == (
        "me",
        "me",
        ISSUER,
        1_000,
        1_060,
    )
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert "BEGIN" not in repr(given)


def test_a_key_that_cannot_be_used_is_not_shown() -> None:
    with pytest.raises(AuthorizationFailed) as failed:
        client_assertion("me", PrivateKeyJwt(key="-----BEGIN s3cret"), ISSUER, now=0)
    assert "s3cret" not in str(failed.value)
    assert failed.value.__cause__ is None


@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        ("http://127.0.0.1:8000/callback", "native"),
        ("http://localhost:3000/x", "native"),
        ("com.example.app:/callback", "native"),
        ("https://app.example.com/callback", "web"),
    ],
)
@shows(
    "Application Type and Redirect URI Constraints",
    "Dynamic Client Registration",
    "Local clients as Public OAuth 2.1 Clients",
)
def test_what_kind_of_application_registers(redirect_uri: str, kind: str) -> None:
    body = registration_body(SERVER, name="x", redirect_uri=redirect_uri, scope="a b")
    assert body["application_type"] == kind
    assert body["scope"] == "a b"
    assert body["token_endpoint_auth_method"] == "none"


@pytest.mark.parametrize(
    ("status", "document", "error"),
    [
        (400, {"error": "invalid_redirect_uri", "error_description": "no"}, ClientUnknown),
        (403, None, ClientUnknown),
        (201, {}, AuthorizationFailed),
        (201, {"client_id": 5}, AuthorizationFailed),
        (201, {"client_id": "x", "client_secret": 5}, AuthorizationFailed),
        (201, {"client_id": "x", "token_endpoint_auth_method": "tls_client_auth"}, AuthorizationFailed),
    ],
)
def test_registrations_that_are_none(status: int, document: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_registration(status, document, SERVER, "http://127.0.0.1/")


def test_a_registration_says_how_to_authenticate() -> None:
    answer = {"client_id": "x", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}
    client = read_registration(201, answer, SERVER, "http://127.0.0.1/")
    assert client.method == "client_secret_post"
    assert OAuthClient.from_json(json.loads(json.dumps(client.to_json()))) == client


@pytest.mark.parametrize("url", ["http://a.example/x", "https://a.example", "https://a.example/", "https://a.example/x#y",
                                 "https://u@a.example/x", "https://a.example/../x", "x"])  # fmt: skip
@shows("Client ID Metadata Documents")
def test_which_urls_are_no_client_ids(url: str) -> None:
    with pytest.raises(ValueError, match="client_metadata_url"):
        check_metadata_url(url)


@shows("Client ID Metadata Documents", "Example Metadata Document")
def test_the_document_at_a_client_id_names_it() -> None:
    url = "https://a.example/client.json"
    document = metadata_document(url, "A", ["http://127.0.0.1/callback"])
    assert document["client_id"] == url
    assert (document["client_name"], document["redirect_uris"]) == ("A", ["http://127.0.0.1/callback"])
    assert document["grant_types"] == ["authorization_code", "refresh_token"]


def answer(**members: Any) -> TokenSet:
    document = {"access_token": "t0ken", "token_type": "Bearer", **members}
    return read_token(200, document, ASKED, now=1_000, bound=False)


def test_what_an_answer_says_and_leaves_out() -> None:
    assert answer(expires_in=60).expires_at == 1_060
    assert answer(expires_in="60").expires_at == 1_060
    assert answer().expires_at is None
    assert answer(expires_in="soon").expires_at is None
    assert answer(expires_in=True).expires_at is None
    assert answer().granted == frozenset({"a"})
    assert answer(scope="a b").granted == frozenset({"a", "b"})
    assert answer(token_type="BEARER").token_type == "Bearer"
    assert "t0ken" not in repr(answer(refresh_token="t0ken"))
    assert TokenSet.from_json(json.loads(json.dumps(answer().to_json()))) == answer()


def test_a_refresh_token_goes_on_being_good() -> None:
    asked = attrs.evolve(ASKED, refresh_token="old")
    document = {"access_token": "t", "token_type": "Bearer"}
    assert read_token(200, document, asked, now=0, bound=False).refresh_token == "old"
    assert read_token(200, {**document, "refresh_token": "new"}, asked, now=0, bound=False).refresh_token == "new"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"token_type": "mac"}, "mac"),
        ({"token_type": None}, "type"),
        ({"access_token": None}, "cannot be sent"),
        ({"access_token": "two words"}, "cannot be sent"),
        ({"access_token": "line\r\nX: y"}, "cannot be sent"),
        ({"access_token": "x" * 40_000}, "cannot be sent"),
        ({"token_type": "DPoP"}, "dpop=True"),
    ],
)
def test_tokens_that_cannot_be_used_are_refused_and_not_shown(members: Any, problem: str) -> None:
    with pytest.raises(AuthorizationFailed, match=problem) as failed:
        answer(**members)
    assert "words" not in str(failed.value)


def test_a_refusal_says_why() -> None:
    with pytest.raises(AuthorizationFailed, match="invalid_grant: too old") as failed:
        read_token(400, {"error": "invalid_grant", "error_description": "too old"}, ASKED, now=0, bound=False)
    assert (failed.value.error, failed.value.issuer) == ("invalid_grant", ISSUER)
    with pytest.raises(AuthorizationFailed, match="HTTP status 404"):
        read_token(404, None, ASKED, now=0, bound=False)


def test_what_may_be_answered_later_is_no_refusal(subtests: pytest.Subtests) -> None:
    """A refresh token is not given up for it."""
    busy = [None, {"error": "temporarily_unavailable"}, {"error": "too_many_requests", "message": "busy"}]
    for status in (408, 429, 500, 503):
        for document in busy:
            with (
                subtests.test(status=status, document=document),
                pytest.raises(AuthorizationFailed, match=f"could not answer .*HTTP status {status}") as failed,
            ):
                read_token(status, document, ASKED, now=0, bound=False)
            assert (failed.value.error, failed.value.may_pass) == (None, True)


REFUSED: list[tuple[int, object, str | None, str]] = [
    (400, {"error": "invalid_grant", "error_description": "too old"}, "invalid_grant", "invalid_grant: too old"),
    (500, {"error": "invalid_grant"}, "invalid_grant", "invalid_grant"),
    (200, {"error": "bad_refresh_token", "error_description": "expired"}, "bad_refresh_token", "expired"),
    (401, None, None, "HTTP status 401"),
    (404, "not found", None, "HTTP status 404"),
    (422, {"message": "the refresh token is unknown"}, None, "the refresh token is unknown"),
    (302, None, None, "HTTP status 302"),
]


def test_servers_refuse_in_many_ways(subtests: pytest.Subtests) -> None:
    """What is no trouble of the moment is a refusal, in whatever words, and an error counts with every status."""
    for status, document, error, says in REFUSED:
        with (
            subtests.test(status=status, document=document),
            pytest.raises(AuthorizationFailed, match=f"refused a token .*{says}") as failed,
        ):
            read_token(status, document, ASKED, now=0, bound=False)
        assert (failed.value.error, failed.value.may_pass) == (error, False)


def test_only_an_assertion_for_another_server_is_one() -> None:
    kind = "urn:ietf:params:oauth:token-type:id-jag"
    assert read_exchanged(200, {"access_token": "x", "issued_token_type": kind}, "idp", ISSUER) == "x"
    for document in ({"access_token": "x"}, {"issued_token_type": kind}, None):
        with pytest.raises(AuthorizationFailed, match="ID-JAG"):
            read_exchanged(200, document, "idp", ISSUER)


# Proofs.


def test_a_proof_says_what_it_is_for() -> None:
    key = DpopKey()
    url = "https://mcp.example.com/mcp"
    proof = read_proof(key.prove("POST", f"{url}?a#b", now=5.5, access_token="t", nonce="n", body=b"{}"))
    assert proof.thumbprint == key.thumbprint == DpopKey(key.private_jwk()).thumbprint
    claims = proof.claims
    assert (claims["htm"], claims["htu"], claims["iat"], claims["nonce"]) == ("POST", url, 5, "n")
    assert claims["content_digest"] == content_digest(b"{}")
    assert key.private_jwk()["d"] not in repr(key)


def test_no_two_proofs_are_the_same() -> None:
    key = DpopKey()
    assert len({key.prove("GET", "https://x/", now=1) for _ in range(5)}) == 5


def test_the_thumbprint_is_that_of_the_rfc() -> None:
    """RFC 9449, section 4: the key of its examples, and the thumbprint that section 6.1 binds a token to."""
    jwk = {
        "kty": "EC",
        "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
        "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
        "crv": "P-256",
    }
    assert thumbprint(jwk) == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"


def _forge(header: dict[str, Any], key: Any) -> str:
    return jwt.encode(header, {"jti": "x"}, key, algorithms=["ES256", "HS256"])


def test_proofs_that_prove_nothing_are_refused() -> None:
    key = ECKey.generate_key("P-256", private=True)
    public, private = key.as_dict(private=False), key.as_dict(private=True)
    good = {"alg": "ES256", "typ": "dpop+jwt", "jwk": public}
    read_proof(_forge(good, key))
    other = ECKey.generate_key("P-256", private=True)
    for bad in (
        _forge({**good, "typ": "JWT"}, key),
        _forge({**good, "jwk": private}, key),
        _forge({"alg": "ES256", "typ": "dpop+jwt"}, key),
        _forge({**good, "jwk": other.as_dict(private=False)}, key),
        "a.b.c",
        "",
        "x" * 10_000,
        "é.é.é",
        "WyJhbGciXQ.e30.AA",  # ["alg"]
        "ImFsZyI.e30.AA",  # "alg"
    ):
        with pytest.raises(InvalidProof):
            read_proof(bad)


def test_what_is_stored_and_no_token_is_refused(subtests: pytest.Subtests) -> None:
    """It is asked for anew; whatever else it did would keep the client from its server until somebody finds the file."""
    cases: list[dict[str, Any]] = [
        {"expires_at": 10**400}, {"expires_at": "soon"}, {"expires_at": True}, {"expires_at": float("nan")}, {"expires_at": 1e300},
        {"client_id": 5}, {"refresh_token": ["r"]}, {"access_token": "a b"}, {"access_token": 5}, {"issuer": None}, {"granted": 5},
    ]  # fmt: skip
    for change in cases:
        with subtests.test(change=change):
            stored = TokenSet(access_token="a", resource="https://mcp", issuer=ISSUER, expires_at=5.0).to_json()
            assert TokenSet.from_json(stored).expires_at == 5.0
            with pytest.raises((KeyError, TypeError, ValueError)):
                TokenSet.from_json({**stored, **change})


@pytest.mark.parametrize(
    "change", [{"client_secret": 5}, {"redirect_uri": []}, {"method": "magic"}, {"client_id": None}]
)
def test_what_is_stored_and_no_registration_is_refused(change: dict[str, Any]) -> None:
    stored = OAuthClient(client_id="me", client_secret="s", method="client_secret_basic").to_json()
    assert OAuthClient.from_json(stored).client_secret == "s"
    with pytest.raises((KeyError, TypeError, ValueError)):
        OAuthClient.from_json({**stored, **change})


@pytest.mark.parametrize(
    "jwk",
    [{}, {"kty": "EC"}, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": 5, "y": [], "d": None}, {"kty": 7}],
)
def test_what_is_stored_and_no_key_is_refused(jwk: dict[str, Any]) -> None:
    """By the error that is documented, which makes the client use a new one; and nothing of it is shown."""
    with pytest.raises(ValueError, match="key"):
        DpopKey(jwk)
