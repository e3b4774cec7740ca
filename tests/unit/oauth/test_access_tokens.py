"""What a token must say, and how it must be signed: tables, without a server."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from inside_protection import (
    JwtRules,
    TokenRefused,
    TokenRules,
    VerificationKeys,
    challenge,
    metadata_url,
    read_token,
    scopes_in,
    with_implied,
)
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

RULES = TokenRules(
    audiences=frozenset({"https://mcp.test/mcp"}),
    issuers=frozenset({"https://login.test"}),
    implies={"write": {"read"}},
    leeway=60.0,
)
SAID = {"iss": "https://login.test", "sub": "ann", "aud": "https://mcp.test/mcp", "exp": 1_000.0}


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": ""}, set[str]()),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": ["a b", "c"]}, {"a", "b", "c"}),
        ({"scope": 7}, set[str]()),
        ({}, set[str]()),
    ],
)
def test_scopes_are_where_servers_write_them(claims: dict[str, Any], scopes: set[str]) -> None:
    """RFC 8693, section 4.2, and what identity providers do instead."""
    assert scopes_in(claims) == scopes


def test_a_hierarchy_ends() -> None:
    """Also where scopes include each other."""
    assert with_implied(["a"], {"a": ["b"], "b": ["c", "a"]}) == {"a", "b", "c"}


def test_what_a_token_must_say(subtests: pytest.Subtests) -> None:
    """RFC 7519, section 4.1; RFC 9068, section 4; with sixty seconds of leeway."""
    cases: list[tuple[dict[str, Any], float, str | None]] = [
        ({}, 1_059.9, None),
        ({}, 1_060.0, "expired"),
        ({"exp": None}, 5e9, None),
        ({"exp": True}, 0.0, "exp"),
        ({"exp": float("nan")}, 0.0, "exp"),
        ({"exp": 10**400}, 0.0, "exp"),
        ({"nbf": 10**400}, 0.0, "nbf"),
        ({"nbf": 100}, 40.0, None),
        ({"nbf": 100}, 39.9, "not valid yet"),
        ({"iss": "https://login.test/"}, 0.0, None),
        ({"iss": "https://login.test//"}, 0.0, "another issuer"),
        ({"iss": "https://login.test/x"}, 0.0, "another issuer"),
        ({"iss": "https://LOGIN.test"}, 0.0, "another issuer"),
        ({"iss": ["https://login.test"]}, 0.0, "another issuer"),
        ({"iss": None}, 0.0, None),
        ({"aud": ["x", "https://MCP.test/mcp"]}, 0.0, None),
        ({"aud": "https://mcp.test/mcp/other"}, 0.0, "another resource"),
        ({"aud": ["https://x.test"] * 50_000 + ["https://mcp.test/mcp"]}, 0.0, None),
        ({"aud": ["https://x.test"] * 50_000 + ["https://MCP.test/mcp"]}, 0.0, "another resource"),
        ({"aud": ["http://[", "https://MCP.test/mcp"]}, 0.0, None),
        ({"iat": 100}, 40.0, None),
        ({"iat": 100}, 39.9, "in the future"),
        ({"iat": "now"}, 0.0, "iat"),
        ({"aud": None}, 0.0, "another resource"),
        ({"sub": None}, 0.0, "whose"),
        ({"sub": 7}, 0.0, "whose"),
        ({"sub": ""}, 0.0, "whose"),
        ({"sub": None, "client_id": "job"}, 0.0, None),
        ({"sub": None, "client_id": ""}, 0.0, "whose"),
        ({"sub": "client_id=job"}, 0.0, "client's id"),
        ({"cnf": {}}, 0.0, "bound"),
        ({"cnf": {"jkt": 7}}, 0.0, "bound"),
        ({"cnf": "x"}, 0.0, "bound"),
        ({"cnf": {"jkt": None}}, 0.0, "bound"),
    ]
    for changes, now, reason in cases:
        with subtests.test(changes=changes, now=now):
            claims = {name: value for name, value in {**SAID, **changes}.items() if value is not None}
            if reason is None:
                accepted = RULES.accept(claims, now)
                assert accepted.principal.issuer == "https://login.test"
                assert accepted.principal.subject == claims.get("sub", "client_id=job")
            else:
                with pytest.raises(TokenRefused, match=reason):
                    RULES.accept(claims, now)


@pytest.mark.parametrize("name", ["client_id", "azp"])
def test_a_client_is_no_user_of_the_same_name(name: str) -> None:
    """RFC 9068, section 5: clients may influence their id, and must not become a user by that."""
    ann = RULES.accept({**SAID, "sub": "ann"}, 0.0).principal
    said = {key: value for key, value in SAID.items() if key not in ("sub", "client_id", "azp")}
    for subject in ({}, {"sub": "ann"}):
        client = RULES.accept({**said, **subject, name: "ann"}, 0.0).principal
        assert client != ann
        assert (client.client_id, client.subject) == ("ann", "client_id=ann")
    assert RULES.accept({**SAID, "sub": "ann", name: "reader"}, 0.0).principal == ann


def test_only_keys_that_verify_are_used() -> None:
    """Shared secrets, keys for encryption, and what is not known here are left out."""
    ours, secret = ECKey.generate_key("P-256", {"kid": "ours"}), OctKey.generate_key(256, {"kid": "secret"})
    listed: list[Any] = [
        ours.as_dict(private=False),
        secret.as_dict(),
        {**ours.as_dict(private=False), "kid": "enc", "use": "enc"},
        {"kty": "new", "kid": "new"},
        {"kty": "EC"},
        "nonsense",
    ]
    keys = VerificationKeys({"keys": listed})
    assert len(keys) == 1
    assert len(keys.find(None, "ES256")) == len(keys.find("ours", "ES256")) == 1
    assert [keys.find(kid, "ES256") for kid in ("secret", "enc", "new", 7, ["ours"])] == [[]] * 5
    several: list[Any] = [None, [], {}, {"keys": {}}]
    for wrong in several:
        with pytest.raises(ValueError, match="keys"):
            VerificationKeys(wrong)


def test_which_keys_fit_a_token_that_names_none(subtests: pytest.Subtests) -> None:
    """Their type, their curve, and what they say of themselves must be those of its algorithm."""
    keys: dict[str, Any] = {
        "P-256": ECKey.generate_key("P-256"),
        "P-384": ECKey.generate_key("P-384"),
        "RSA": RSAKey.generate_key(2048),
        "Ed25519": OKPKey.generate_key("Ed25519"),
        "Ed448": OKPKey.generate_key("Ed448"),
    }
    listed = [{**key.as_dict(private=False), "kid": name} for name, key in keys.items()]
    listed.append({**keys["RSA"].as_dict(private=False), "kid": "RS512 alone", "alg": "RS512"})
    listed.append({**keys["Ed25519"].as_dict(private=False), "kid": "old name", "alg": "EdDSA"})
    found = VerificationKeys({"keys": listed})
    for algorithm, names in (
        ("ES256", ["P-256"]),
        ("ES384", ["P-384"]),
        ("ES512", []),
        ("RS256", ["RSA"]),
        ("PS256", ["RSA"]),
        ("RS512", ["RSA", "RS512 alone"]),
        ("EdDSA", ["Ed25519", "Ed448", "old name"]),
        ("Ed25519", ["Ed25519", "old name"]),
        ("HS256", []),
        ("none", []),
        (7, []),
    ):
        with subtests.test(algorithm=algorithm):
            expected = [found.find(name, algorithm)[0] for name in names]
            assert found.find(None, algorithm) == expected


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ({"alg": "ES256"}, True),
        ({"alg": "ES256", "typ": "at+jwt"}, True),
        ({"alg": "ES256", "typ": "application/AT+JWT"}, True),
        ({"alg": "ES256", "typ": "dpop+jwt"}, False),
        ({"alg": "ES256", "typ": "oauth-id-jag+jwt"}, False),
    ],
)
def test_how_a_token_must_be_signed(header: dict[str, str], accepted: bool) -> None:
    """Of its own type, by an algorithm that is allowed, with the key's own kind."""
    key, other = ECKey.generate_key("P-256"), RSAKey.generate_key(2048)
    token = read_token(jwt.encode(header, SAID, key, default_type=None))
    assert token is not None
    assert (token.claims["iss"], "kid" in token.header) == ("https://login.test", False)

    def is_accepted(rules: JwtRules, by: object) -> bool:
        try:
            rules.verify(token, [by])
        except TokenRefused:
            return False
        return True

    assert is_accepted(JwtRules(), key) is accepted
    assert not is_accepted(JwtRules(["RS256"]), key)
    assert not is_accepted(JwtRules(), other)
    assert not is_accepted(JwtRules(), ECKey.generate_key("P-256"))


def test_what_is_no_token_is_none() -> None:
    """Whatever comes."""
    for text in ("", "a", "a.b", "a.b.c", "..", "ä.b.c", "x" * 20_000, "e30.W10.", "e30.bm8.x"):
        assert read_token(text) is None


@pytest.mark.parametrize("header", ['["alg"]', '"alg"', '"alg and more"', '[[],"alg"]'])
def test_a_header_that_is_no_object_is_that_of_no_token(header: str) -> None:
    """Anybody could make a server fail with one, for joserfc takes whatever has "alg" in it."""
    text = base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")
    assert read_token(f"{text}.e30.AA") is None


def test_challenges_say_what_is_needed() -> None:
    """RFC 6750, section 3; RFC 9728, section 5.1: quoted, and in an order that does not change."""
    url = metadata_url("https://mcp.test/a/")
    assert url == "https://mcp.test/.well-known/oauth-protected-resource/a"
    assert metadata_url("https://mcp.test") == "https://mcp.test/.well-known/oauth-protected-resource"
    assert challenge("Bearer", url, {"b", "a"}, "invalid_token", 'a "reason"') == (
        'Bearer error="invalid_token", error_description="a \\"reason\\"", '
        f'resource_metadata="{url}", scope="a b"'
    )
    assert challenge("Bearer", url, ()) == f'Bearer resource_metadata="{url}"'
    assert challenge("DPoP", url, ()).startswith(f'DPoP resource_metadata="{url}", algs="ES256 ')


def test_a_subject_imitates_nobody() -> None:
    """A principal is its string: without an issuer of its own, a subject must not be the string of another."""
    issuers = frozenset({"https://login.test", "https://other.test"})
    rules = TokenRules(audiences=RULES.audiences, issuers=issuers, implies={}, leeway=0.0)
    said = {"sub": "https://other.test ann", "aud": SAID["aud"]}
    with pytest.raises(TokenRefused, match="issued"):
        rules.accept(said, 0.0)
    assert rules.accept({**said, "iss": "https://login.test"}, 0.0).principal.subject == said["sub"]
    assert rules.accept({**said, "sub": "Ann Smith"}, 0.0).principal == "Ann Smith"
