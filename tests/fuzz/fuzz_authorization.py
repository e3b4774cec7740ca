"""Tokens, proofs, keys, and the documents and answers of authorization servers."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any, Final, Self, cast
from unittest.mock import patch

import trio
from fuzzing import ending, target, text_of
from inside_oauth import (
    Asked,
    AuthorizationServerMetadata,
    Discovered,
    DpopKey,
    Fetch,
    Fetched,
    InvalidProof,
    OAuthClient,
    TokenSet,
    basic_credentials,
    begin_login,
    canonical_resource,
    check_metadata_url,
    choose_method,
    content_digest,
    discover,
    is_public_address,
    is_resource_of,
    metadata_document,
    read_exchanged,
    read_proof,
    read_registration,
    read_token,
    registration_body,
    scopes_to_request,
    server_metadata_urls,
    thumbprint,
    token_request,
)
from inside_parsers import check_digest, read_authorization_server, read_protected_resource
from inside_protection import (
    JwtRules,
    Pool,
    ProofRefused,
    ProofRules,
    TokenRefused,
    TokenRules,
    VerificationKeys,
    verifiers_module,
)
from inside_protection import read_token as read_jwt
from inside_wire import cost_of, decode, is_array, is_object
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from trio_mcp import AuthorizationFailed, HttpRefused, IntrospectionVerifier

NOW: Final = 1_800_000_000.0
SERVER: Final = "https://mcp.example.com/mcp"
ISSUER: Final = "https://as.example.com"

EC: Final = ECKey.import_key(
    {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
    }
)
"""The key of RFC 7515, appendix A.3."""
PUBLIC: Final[dict[str, Any]] = {name: EC.as_dict()[name] for name in ("kty", "crv", "x", "y")}


MODULUS: Final = (
    "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3"
    "oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdA"
    "ZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-"
    "kEgU8awapJzKnqDKgw"
)
"""Of the key of RFC 7517, appendix A.1."""


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _signed(header: object, claims: object) -> str:
    """Return a token of any two JSON values, signed by our key whatever its header says."""
    signed = f"{_base64url(json.dumps(header).encode())}.{_base64url(json.dumps(claims).encode())}"
    by_us = jws.serialize_compact({"alg": "ES256"}, b"x", EC)
    signature = by_us.rpartition(".")[2]
    with contextlib.suppress(JoseError, ValueError, TypeError, AttributeError, KeyError):
        algorithm = jws.JWSRegistry(algorithms=["ES256"]).get_alg("ES256")
        signature = _base64url(algorithm.sign(signed.encode(), EC))
    return f"{signed}.{signature}"


CLAIMS: Final = (
    "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "client_id", "azp", "cnf", "jkt", "x5t#S256", ISSUER, SERVER,
    "htm", "htu", "ath", "nonce", "content_digest", "POST", "alg", "ES256", "RS256", "HS256", "none", "EdDSA", "typ", "at+jwt",
    "dpop+jwt", "jwk", "jku", "x5c", "kid", "k1", "crit", "b64", "kty", "EC", "RSA", "OKP", "oct", "crv", "P-256", "Ed25519", "x", "y",
    "n", "e", "d", "k", "use", "sig", "key_ops", "verify", "AQAB", "AA", "keys",
)  # fmt: skip

KEYS: Final = VerificationKeys({"keys": [{**PUBLIC, "kid": "k1"}]})
RULES: Final = TokenRules(audiences=[SERVER], issuers=frozenset({ISSUER}), implies={"a": {"b"}}, leeway=10.0)


def tokens() -> Iterator[str]:
    claims = {"iss": ISSUER, "sub": "me", "aud": SERVER, "exp": NOW + 60, "scope": "a b"}
    yield json.dumps([{"alg": "ES256", "kid": "k1", "typ": "at+jwt"}, claims])
    yield json.dumps([{"alg": "ES256"}, {**claims, "aud": [SERVER], "cnf": {"jkt": "x"}, "nbf": NOW}])
    yield json.dumps([{"alg": "none"}, claims])
    yield json.dumps([["alg"], claims])
    yield _signed({"alg": "ES256"}, claims)


@target(
    "tokens",
    TokenRefused,
    shape="json",
    tokens=CLAIMS,
    hard=("a", ".", ("e30.", "a", ".a"), ('[{"alg":"ES256"},{"aud":[', '"a",', '"b"]}]'), ('[{"alg":"ES256"},{"scope":"', "a ", '"}]')),
    seeds=tokens,
)  # fmt: skip
def read_tokens(data: bytes) -> None:
    given = ending(lambda: decode(data), ValueError, RecursionError)
    token = _signed(*given) if is_array(given) and len(given) == 2 else text_of(data)
    read = read_jwt(token)
    if read is None:
        return
    with contextlib.suppress(TokenRefused):
        JwtRules().verify(read, KEYS.find(read.header.get("kid"), read.header["alg"]))
    accepted = RULES.accept(read.claims, NOW)
    principal = accepted.principal
    assert principal.issuer in {None, ISSUER}
    assert accepted.until > NOW - 10
    assert str(principal)
    assert all(isinstance(scope, str) for scope in principal.scopes)


def proofs() -> Iterator[str]:
    key = DpopKey(EC.as_dict(private=True))
    yield key.prove("POST", SERVER, now=NOW, access_token="a", body=b"{}")
    header = {"alg": "ES256", "typ": "dpop+jwt", "jwk": PUBLIC}
    claims = {
        "htm": "POST",
        "htu": SERVER,
        "iat": NOW,
        "jti": "1",
        "ath": "ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs",
    }
    yield json.dumps([header, claims])
    yield json.dumps([["alg", "typ", "jwk"], claims])
    yield json.dumps([{**header, "jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}, "alg": "RS256"}, claims])
    yield json.dumps([{**header, "jwk": {"kty": "OKP", "crv": "Ed25519", "x": "AA"}, "alg": "EdDSA"}, []])


@target(
    "proofs",
    InvalidProof,
    ProofRefused,
    shape="json",
    tokens=CLAIMS,
    hard=(
        "a",
        ".",
        ("e30.", "a", ".a"),
        ('[{"alg":"ES256","typ":"dpop+jwt","jwk":{"kty":"EC","x":"', "A", '"}},{}]'),
    ),
    seeds=proofs,
)
def read_proofs(data: bytes) -> None:
    given = ending(lambda: decode(data), ValueError, RecursionError)
    text = _signed(*given) if is_array(given) and len(given) == 2 else text_of(data)
    rules = ProofRules(SERVER, None, Pool("memory", 1 << 20))
    key = thumbprint(PUBLIC)

    def check() -> Any:
        return rules.check([text], client="me", method="POST", path="/mcp", token="a", key=key, now=NOW)

    with contextlib.suppress(ProofRefused):
        claims = check()
        assert ending(check, ProofRefused) is ProofRefused, "it was good twice"
        with contextlib.suppress(ProofRefused):
            check_digest(claims, b"{}")
            assert claims.get("content_digest") in {None, content_digest(b"{}")}
    proof = read_proof(text)
    assert isinstance(proof.thumbprint, str)


def jwks() -> Iterator[str]:
    for key in (
        PUBLIC,
        {"kty": "RSA", "e": "AQAB", "n": MODULUS},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"kty": "oct", "k": "AAAA"},
    ):
        yield json.dumps({"keys": [{**key, "kid": "k1", "use": "sig", "alg": "ES256"}]})
    yield json.dumps({"keys": [PUBLIC, {"kty": "EC"}, 5, {"kty": "RSA", "n": "AQAB", "e": "AA"}]})


@target(
    "keys",
    ValueError,
    shape="json",
    tokens=CLAIMS,
    hard=(
        ('{"keys":[', "{},", "1]}"),
        ('{"keys":[{"kty":"RSA","e":"AQAB","n":"', "A", '"}]}'),
        ('{"keys":[{"kty":"', "E", '"}]}'),
    ),
    seeds=jwks,
)
def read_keys(data: bytes) -> None:
    try:
        document = decode(data)
    except RecursionError:
        return
    keys = VerificationKeys(document)
    assert len(keys) <= 100
    for algorithm in ("ES256", "RS256", "EdDSA"):
        read = read_jwt(_signed({"alg": algorithm, "kid": "k1"}, {"sub": "me"}))
        assert read is not None
        for kid in ("k1", None, 5):
            with contextlib.suppress(TokenRefused):
                JwtRules().verify(read, keys.find(kid, algorithm))
    for each in document["keys"] if is_array(document["keys"]) else ():
        if is_object(each):
            with contextlib.suppress(InvalidProof):
                thumbprint(each)


# What servers say of themselves.

METADATA: Final = (
    "resource", "authorization_servers", "scopes_supported", "dpop_bound_access_tokens_required", "issuer", "token_endpoint",
    "authorization_endpoint", "registration_endpoint", "jwks_uri", "code_challenge_methods_supported", "S256",
    "token_endpoint_auth_methods_supported", "client_secret_basic", "private_key_jwt", "none", "grant_types_supported",
    "client_id_metadata_document_supported", "authorization_response_iss_parameter_supported", SERVER, ISSUER, f"{ISSUER}/a",
    "http://[", "http://[::1", "https://a:99999/", "https://a@b/", "javascript:x", "file:///x", "https://", "//a", "offline_access",
)  # fmt: skip
RESOURCE_DOCUMENT: Final = {"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["a"]}
SERVER_DOCUMENT: Final = {
    "issuer": ISSUER,
    "token_endpoint": f"{ISSUER}/token",
    "authorization_endpoint": f"{ISSUER}/authorize?a=b",
    "registration_endpoint": f"{ISSUER}/register",
    "code_challenge_methods_supported": ["S256"],
    "scopes_supported": ["offline_access"],
}


@target(
    "metadata",
    AuthorizationFailed,
    shape="json",
    tokens=METADATA,
    hard=(
        ('[{"resource":"', "a", '"},{}]'), ('[{"resource":"https://mcp.example.com","authorization_servers":[', '"a",', '"b"]},{}]'),
        ('[{"resource":"https://mcp.example.com/', "../", '"},{}]'), ('[{},{"issuer":"https://as.example.com","token_endpoint":"https://', "a.", '"}]'),
    ),
    seeds=lambda: [
        json.dumps([RESOURCE_DOCUMENT, SERVER_DOCUMENT]), json.dumps([None, SERVER_DOCUMENT]), json.dumps([RESOURCE_DOCUMENT, None]),
        json.dumps([{**RESOURCE_DOCUMENT, "authorization_servers": ["http://[", "https://a@b", ISSUER]}, SERVER_DOCUMENT, "2"]),
    ],
)  # fmt: skip
def read_metadata(data: bytes) -> None:
    try:
        given = decode(data)
    except (ValueError, RecursionError):
        return
    if not is_array(given) or len(given) < 2:
        return
    for document in given[:2]:
        if is_object(document):
            with contextlib.suppress(AuthorizationFailed):
                protected = read_protected_resource(document, f"{SERVER}/x", SERVER)
                assert is_resource_of(protected.resource, SERVER)
            with contextlib.suppress(AuthorizationFailed):
                assert read_authorization_server(document, ISSUER, [ISSUER]).issuer == ISSUER
    for text in filter(lambda each: isinstance(each, str), given):
        assert canonical_resource(canonical_resource(text)) == canonical_resource(text)
        is_public_address(text)
        with contextlib.suppress(ValueError):
            assert all(url.startswith(("http://", "https://")) for url in server_metadata_urls(text))
    # Whatever it finds, finding out ends, and asks nobody but where a URL of http leads.
    walk = discover(SERVER)
    fetch: Fetch = next(walk)
    for _ in range(100):
        assert fetch.url.lower().startswith(("http://", "https://"))
        is_of_resource = "oauth-protected-resource" in fetch.url
        try:
            fetch = walk.send(Fetched(200, given[0] if is_of_resource else given[1]))
        except StopIteration as stop:
            found: Discovered = stop.value
            break
    else:
        raise AssertionError("it does not end")
    scopes = scopes_to_request(None, found)
    body = registration_body(found.server, name="a", redirect_uri="http://127.0.0.1/", scope="a")
    json.dumps(body)
    attempt = begin_login(found, client_id="a", redirect_uri="http://127.0.0.1:1/callback", scopes=scopes)
    assert attempt.url.lower().startswith(("http://", "https://"))
    assert attempt.url.isprintable()


ASKED: Final = Asked(issuer=ISSUER, name="the issuer", resource=SERVER, client_id="a", scopes=frozenset({"a"}))
FOUND: Final = AuthorizationServerMetadata(issuer=ISSUER, token_endpoint=f"{ISSUER}/token")


@target(
    "token answers",
    AuthorizationFailed,
    shape="json",
    tokens=("access_token", "token_type", "Bearer", "DPoP", "expires_in", "3600", "scope", "refresh_token", "error", "error_description",
            "client_id", "client_secret", "issued_token_type", "urn:ietf:params:oauth:token-type:id-jag", "token_endpoint_auth_method",
            "client_secret_basic", "none", "\u00b2", "1e3", "a\n"),
    hard=(
        ('[200,{"access_token":"', "a", '"}]'), ('[200,{"access_token":"a","token_type":"', "B", '"}]'), ('[400,{"error":"', "a", '"}]'),
        ('[200,{"access_token":"a","token_type":"bearer","scope":"', "a ", '"}]'), ('[200,{"access_token":"a","token_type":"bearer","expires_in":"', "9", '"}]'),
        ('[200,{"token_type":', "[", ""),
    ),
    seeds=lambda: [
        '[200,{"access_token":"a","token_type":"Bearer","expires_in":3600,"scope":"a b","refresh_token":"r"}]',
        '[200,{"access_token":"a","token_type":"DPoP","expires_in":"60"}]', '[400,{"error":"invalid_grant","error_description":"no"}]',
        '[201,{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_basic"}]',
        '[200,{"access_token":"a","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag","token_type":"N_A"}]',
    ],
)  # fmt: skip
def read_token_answers(data: bytes) -> None:
    try:
        given = decode(data)
    except (ValueError, RecursionError):
        return
    if not is_array(given) or len(given) != 2 or type(given[0]) is not int:
        return
    status, document = given
    with contextlib.suppress(AuthorizationFailed):
        assert isinstance(read_exchanged(status, document, "it", ISSUER), str)
    with contextlib.suppress(AuthorizationFailed):
        client = read_registration(status, document, FOUND, "http://127.0.0.1/")
        assert OAuthClient.from_json(json.loads(json.dumps(client.to_json()))) == client
        token_request(FOUND.token_endpoint, client, {"grant_type": "a"}, audience=ISSUER, now=NOW)
    for bound in (False, True):
        token = read_token(status, document, ASKED, now=NOW, bound=bound)
        assert token.access_token.isascii()
        assert token.access_token.isprintable()
        assert token.expires_at is None or NOW <= token.expires_at < 1e13
        assert TokenSet.from_json(json.loads(json.dumps(token.to_json()))) == token


@target(
    "stored tokens",
    KeyError,
    TypeError,
    ValueError,
    shape="json",
    tokens=("access_token", "token_type", "resource", "issuer", "client_id", "requested", "granted", "expires_at", "refresh_token",
            "client_secret", "method", "redirect_uri", "none", "client_secret_basic", "kty", "crv", "x", "y", "d", "nan", "inf"),
    hard=(('{"granted":[', '"a",', '"b"]}'), ('{"access_token":"', "a", '"}')),
    seeds=lambda: [
        json.dumps(TokenSet(access_token="a", resource=SERVER, issuer=ISSUER, granted=frozenset("ab"), expires_at=NOW, refresh_token="r").to_json()),
        json.dumps(OAuthClient(client_id="a", client_secret="s", method="client_secret_basic").to_json()),
        json.dumps(EC.as_dict(private=True)),
    ],
)  # fmt: skip
def read_stored_tokens(data: bytes) -> None:
    document: Any = json.loads(data)
    if not is_object(document):
        return
    with contextlib.suppress(KeyError, TypeError, ValueError):
        client = OAuthClient.from_json(document)
        request = token_request(FOUND.token_endpoint, client, {"grant_type": "a"}, audience=ISSUER, now=NOW)
        assert isinstance(request.body, bytes)
    with contextlib.suppress(KeyError, TypeError, ValueError):
        key = DpopKey(document)
        assert read_proof(key.prove("GET", SERVER, now=NOW)).thumbprint == key.thumbprint
    token = TokenSet.from_json(document)
    # It is used as what it says it is.
    assert token.expires_at is None or -1e300 < token.expires_at - NOW < 1e300
    assert token.refresh_token is None or isinstance(token.refresh_token, str)
    assert token.client_id is None or isinstance(token.client_id, str)
    assert TokenSet.from_json(json.loads(json.dumps(token.to_json()))) == token


@target(
    "answers to logins",
    AuthorizationFailed,
    shape="text",
    tokens=("http://127.0.0.1:1/callback?", "state=STATE", "&", "code=a", "iss=", "error=access_denied", "error_description=", "%", "[", ";", "#", "\ud800", "%ED%A0%80"),
    hard=(("?state=STATE&", "a&", ""), ("?state=STATE&", "a=b&", ""), ("?", "%41", ""), "a", "&", ("//[", ":", "]")),
    seeds=lambda: [
        f"http://127.0.0.1:1/callback?state=STATE&code=a&iss={ISSUER}", "?state=STATE&error=access_denied&error_description=no", "http://[", "?state=",
        "?state=\u00e9", "?state=STATE&code=a&code=b",
    ],
)  # fmt: skip
def read_answers_to_logins(data: bytes) -> None:
    metadata = AuthorizationServerMetadata(
        issuer=ISSUER,
        token_endpoint=f"{ISSUER}/token",
        authorization_endpoint=f"{ISSUER}/authorize",
        code_challenge_methods_supported=("S256",),
    )
    found = Discovered(resource=SERVER, server=metadata)
    attempt = begin_login(found, client_id="a", redirect_uri="http://127.0.0.1:1/callback", scopes=None)
    state = attempt.url.partition("&state=")[2].partition("&")[0]
    answer = text_of(data).replace("STATE", state)
    attempt.is_for(answer)
    code = attempt.take(answer)
    assert isinstance(code, str)
    assert code


@target(
    "client metadata urls",
    ValueError,
    shape="text",
    tokens=("https://", "http://", "a.example", "/", "..", ".", "?", "#", "@", "[", "%2e", ":0"),
    hard=(("https://a/", "a/", ""), ("https://a/", "../", ""), "a", ("https://", "[", "")),
    seeds=lambda: ["https://client.example.com/client.json", "https://a/../b", "http://a/b"],
)
def read_client_metadata_urls(data: bytes) -> None:
    text = text_of(data)
    choose_method(None, has_secret=True, has_key=False)
    assert basic_credentials(text.encode("utf-8", "replace").decode(), "s").startswith("Basic ")
    assert check_metadata_url(text) == text
    assert metadata_document(text, "a", ["http://127.0.0.1/"])["client_id"] == text


# What an authorization server says of a token (RFC 7662).


class _Answered:
    """A client of HTTP that gets one answer."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    async def send(self, request: object) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def read(self, most: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass


ACTIVE: Final[dict[str, Any]] = {"active": True, "sub": "me", "aud": SERVER, "exp": NOW + 60, "scope": "a b"}


@target(
    "introspections",
    HttpRefused,
    TokenRefused,
    shape="json",
    tokens=("active", "token_type", "Bearer", "access_token", "refresh_token", "1e999", *CLAIMS),
    hard=(('{"active":true,"aud":[', '"a",', '"b"]}'), ('{"active":true,"scope":"', "a ", '"}'), ('{"active":true,"a":', "[", "")),
    seeds=lambda: [
        json.dumps(ACTIVE), json.dumps({**ACTIVE, "iss": ISSUER, "token_type": "bearer", "aud": [SERVER]}), json.dumps({**ACTIVE, "iss": "https://other.example"}),
        json.dumps({**ACTIVE, "active": "true"}), json.dumps({**ACTIVE, "token_type": "refresh_token"}), json.dumps({**ACTIVE, "cnf": {"jkt": "x"}}), '{"active":false}', "[]", "",
    ],
)  # fmt: skip
def read_introspections(data: bytes) -> None:
    for issuer in (None, ISSUER):
        with patch.object(verifiers_module, "_log"):  # which says each time what is wrong
            claims = trio.run(_introspected, issuer, data)
        if claims is None:
            continue
        said = decode(data)
        assert said["active"] is True
        assert issuer is None or said.get("iss") in (None, ISSUER)
        accepted = RULES.accept(claims, NOW)
        assert accepted.principal.issuer in {None, ISSUER}
        assert str(accepted.principal)
        assert accepted.until > NOW - 10
        assert cost_of(dict(claims)) > 0  # what is kept of it


async def _introspected(issuer: str | None, data: bytes) -> Any:
    verifier = IntrospectionVerifier(f"{ISSUER}/introspect", client_id="a", client_secret="b", issuer=issuer)
    async with trio.open_nursery() as nursery:
        asked = verifiers_module._Introspection(verifier, cast("Any", _Answered(200, data)), nursery)
        try:
            said: Any = await asked.verify("token")
        except HttpRefused as error:  # not through the nursery, which would wrap it
            said = error
    if isinstance(said, HttpRefused):
        raise said
    return said
