"""Tokens that attackers make, key servers and authorization servers that mean harm: what each of them gets."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import trio
from inside_oauth import Fetched
from inside_protection import VerificationKeys, access_tokens_module, verifiers_module
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from shared.http_server_forged_tokens import (
    EDWARDS,
    ISSUER,
    JWKS,
    KEY,
    RESOURCE,
    ask,
    claims,
    protected,
    signed,
    signed_text,
)

from trio_mcp import HttpRefused, JwtVerifier

ATTACKER = ECKey.generate_key("P-256", {"kid": "theirs"})


PUBLIC = ATTACKER.as_dict(private=False)
DUPLICATES = f'{{"iss":"{ISSUER}","aud":"{RESOURCE}","exp":4e9,"sub":"ann","aud":"https://other.test"}}'


async def test_what_is_not_as_it_must_be_is_refused(subtests: pytest.Subtests) -> None:
    """RFC 7515, 7519, 8725, 9068: by the same sentence the second time, when it may be remembered."""
    rows: list[tuple[Callable[[], str], str]] = [
        (lambda: signed(exp=...), "does not say when it expires"),
        (lambda: signed(exp=None), "does not say when it expires"),
        (lambda: signed(exp=10**400), "exp of the token is no time"),
        (lambda: signed(exp=True), "exp of the token is no time"),
        (lambda: signed(exp=-(2**40)), "has expired"),
        (lambda: signed(exp=time.time() - 61), "has expired"),
        (lambda: signed(nbf=time.time() + 70), "not valid yet"),
        (lambda: signed(nbf=[]), "nbf of the token is no time"),
        (lambda: signed(iat=time.time() + 70), "issued in the future"),
        (lambda: signed(iat="now"), "iat of the token is no time"),
        (lambda: signed(aud=[]), "for another resource"),
        (lambda: signed(aud={RESOURCE: 1}), "for another resource"),
        (lambda: signed(aud=[[RESOURCE]]), "for another resource"),
        (lambda: signed(aud=f"{RESOURCE} x"), "for another resource"),
        (lambda: signed(aud=["x"] * 1_000), "for another resource"),
        (lambda: signed({"typ": "logout+jwt"}), "of another type"),
        (lambda: signed({"typ": ["at+jwt"]}), "not valid"),
        (lambda: signed({"crit": ["exp"], "exp": 1}), "critical"),
        (lambda: signed({"crit": []}), "critical"),
        (lambda: signed({"crit": ["b64"], "b64": False}), "not valid"),
        (lambda: signed({"b64": False}), "not valid"),
        (lambda: signed({"kid": "theirs"}, ATTACKER), "a key that is not known"),
        (lambda: signed({"kid": "theirs", "jwk": PUBLIC}, ATTACKER), "a key that is not known"),
        (lambda: signed({"jwk": PUBLIC}, ATTACKER), "signature of the token is wrong"),
        (lambda: signed({"jku": "https://evil.test/jwks", "x5u": "https://evil.test/x"}, ATTACKER), "signature"),
        (lambda: signed({"kid": ["ours"]}), "not valid"),
        (lambda: signed({"kid": None}), "not valid"),
        (lambda: signed({"alg": "HS256"}), "an algorithm that is not accepted"),
        (lambda: signed({"alg": "none"}), "an algorithm that is not accepted"),
        (lambda: signed({"alg": "ES384"}), "signature"),
        (lambda: signed({"alg": "RS256"}), "signature"),
        (lambda: signed({"kid": "edwards"}), "signature"),
        (lambda: signed({"alg": ["ES256"]}), "not valid"),
        (lambda: signed_text('{"kid":"ours"}', KEY, claims()), "not valid"),
        (lambda: signed_text('{"alg":"none","alg":"ES256","kid":"theirs"}', KEY, claims()), "not known"),
        (lambda: signed_text("[" * 3_000 + "]" * 3_000, KEY, claims()), "not valid"),
        (lambda: signed_text('{"alg":"ES256","kid":"ours"}', KEY, DUPLICATES), "for another resource"),
        (lambda: signed_text('{"alg":"ES256","kid":"ours"}', KEY, "[" * 3_000 + "]" * 3_000), "not valid"),
        (lambda: signed() + "=", "not valid"),
        (lambda: signed() + "A", "signature"),
        (lambda: "." + signed(), "not valid"),
        (lambda: signed().replace(".", ".."), "not valid"),
    ]
    async with protected() as raw:
        for number, (make, reason) in enumerate(rows):
            with subtests.test(number=number, reason=reason):
                assert (await ask(raw, signed()))[0] == 200
                for _ in range(2):
                    status, challenge = await ask(raw, make())
                    assert status == 401
                    assert reason in challenge
                assert (await ask(raw, signed()))[0] == 200


async def test_clocks_may_differ_a_little(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        {"iat": time.time() + 50},
        {"nbf": time.time() + 50},
        {"exp": 1e15},
        {"iat": ...},
    ]
    async with protected() as raw:
        for changes in rows:
            with subtests.test(changes=changes):
                assert (await ask(raw, signed(**changes)))[0] == 200


async def test_a_token_that_names_no_key_is_tried_by_those_that_fit() -> None:
    """Of several of an issuer: the right one may be the last."""
    others = [ECKey.generate_key("P-256").as_dict(private=False) for _ in range(3)]
    async with protected(JwtVerifier(ISSUER, jwks={"keys": [*others, *JWKS["keys"]]})) as raw:
        token = signed_text('{"alg":"ES256"}', KEY, claims())
        assert (await ask(raw, token))[0] == 200
        status, challenge = await ask(raw, signed_text('{"alg":"ES256"}', ATTACKER, claims()))
        assert (status, "signature" in challenge) == (401, True)
        status, challenge = await ask(raw, signed_text('{"alg":"ES384"}', KEY, claims()))
        assert (status, "not known" in challenge) == (401, True)


async def test_a_verifier_that_cannot_be_asked_does_not_hide_the_next() -> None:
    async def is_down(token: str) -> None:
        await trio.lowlevel.checkpoint()
        raise HttpRefused(503, "the authorization server cannot be asked; try again")

    async def refuses(token: str) -> None:
        await trio.lowlevel.checkpoint()
        raise HttpRefused(403, "not you")

    verifier = JwtVerifier(ISSUER, jwks=JWKS)
    stranger = signed(iss="https://other.test")
    async with protected([is_down, verifier]) as raw:
        assert (await ask(raw, signed()))[0] == 200
        assert (await ask(raw, stranger))[0] == 503, "it may be that one's"
    async with protected([refuses, verifier]) as raw:
        assert (await ask(raw, signed()))[0] == 403


async def test_a_slash_in_place_of_no_path_makes_no_other_issuer(subtests: pytest.Subtests) -> None:
    """So it is with the tokens of some identity providers."""
    for issuer, said, status in (
        (ISSUER, f"{ISSUER}/", 200),
        (f"{ISSUER}/", ISSUER, 200),
        (ISSUER, f"{ISSUER}//", 401),
        (f"{ISSUER}/x", f"{ISSUER}/x/", 401),
    ):
        with subtests.test(issuer=issuer, said=said):
            async with protected(JwtVerifier(issuer, jwks=JWKS), authorization_servers=[issuer]) as raw:
                assert (await ask(raw, signed(iss=said)))[0] == status


async def test_tokens_without_an_end_are_accepted_if_that_is_said() -> None:
    async with protected(JwtVerifier(ISSUER, jwks=JWKS, requires_exp=False)) as raw:
        assert (await ask(raw, signed(exp=...)))[0] == 200
        assert (await ask(raw, signed(exp=1)))[0] == 401


@pytest.mark.parametrize("algorithm", ["EdDSA", "Ed25519"])
async def test_keys_on_an_edwards_curve(algorithm: str) -> None:
    """By both of their names (RFC 9864), and without a warning, which here is an error."""
    token = signed({"alg": algorithm, "kid": "edwards"}, EDWARDS)
    async with protected() as raw:
        assert (await ask(raw, token))[0] == 200


def test_weak_keys_and_slow_ones_are_not_used() -> None:
    """RFC 7518, section 3.3; and verifying takes time with the size of modulus and exponent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = RSAKey.generate_key(1024).as_dict(private=False)
    fair = RSAKey.generate_key(2048).as_dict(private=False)
    slow = {**fair, "n": "w" + "_" * 2_000}
    long = {**fair, "e": "_" * 341 + "8"}
    listed: list[Any] = [{**each, "kid": str(number)} for number, each in enumerate((weak, slow, long, fair))]
    keys = VerificationKeys({"keys": [*listed, {**fair, "n": 7}, {**fair, "use": "enc"}, {**fair, "use": []}]})
    assert len(keys) == 1
    assert keys.find("3", "RS256") == keys.find(None, "RS256") != []


def test_a_set_of_thousands_of_keys_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that can be used; who signs with them is known by their ids, whatever else is listed before."""
    public = KEY.as_dict(private=False)
    listed: list[Any] = [{"kty": "oct", "k": "AA"}] * 5_000 + [{**public, "kid": f"k{n}"} for n in range(150)]
    keys = VerificationKeys({"keys": listed})
    assert (len(keys), keys.left_out) == (access_tokens_module.MAX_KEYS, 50)
    assert keys.find("k99", "ES256")
    assert not keys.find("k100", "ES256")
    assert len(keys.find(None, "ES256")) == access_tokens_module.MAX_TRIED


async def test_a_public_issuer_names_no_address_of_this_machine() -> None:
    """As where its keys are: what is there may answer anybody who comes from here."""
    verifier = JwtVerifier(ISSUER)
    asked: list[str] = []

    async def fetched(http: object, url: str) -> Any:
        await trio.lowlevel.checkpoint()
        asked.append(url)
        document: dict[str, Any] = {
            "issuer": ISSUER,
            "jwks_uri": "http://127.0.0.1:1/keys",
            "token_endpoint": f"{ISSUER}/t",
        }
        document |= {"authorization_endpoint": f"{ISSUER}/a", "response_types_supported": ["code"]}
        document["code_challenge_methods_supported"] = ["S256"]
        return Fetched(200, document), 300.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifiers_module, "_fetched", fetched)
        async with protected(verifier) as raw:
            assert (await ask(raw, signed()))[0] == 503
    assert asked
    assert not [url for url in asked if "127.0.0.1" in url]


async def test_a_jwt_is_the_same_to_the_library_that_made_it() -> None:
    """What is written here by hand is what joserfc writes."""
    token = jwt.encode({"alg": "ES256", "kid": "ours"}, claims(), KEY)
    async with protected() as raw:
        assert (await ask(raw, token))[0] == 200
