"""What a browser is sent with, and which answers are believed."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import pytest
from authorization_pages import shows
from inside_oauth import (
    AuthorizationServerMetadata,
    Discovered,
    begin_login,
    code_challenge,
    scopes_to_request,
)

from trio_mcp import AuthorizationFailed

ISSUER: Final = "https://auth.example.com"
CALLBACK: Final = "http://127.0.0.1:1/callback"
SERVER: Final = AuthorizationServerMetadata(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/authorize?tenant=1",
    token_endpoint=f"{ISSUER}/token",
    code_challenge_methods_supported=("S256",),
)
FOUND: Final = Discovered(resource="https://mcp.example.com", server=SERVER)


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@shows("Resource Parameter Implementation", "Authorization Code Protection")
def test_the_browser_is_sent_with_everything_that_is_demanded() -> None:
    attempt = begin_login(FOUND, "me", CALLBACK, {"b", "a"})
    query = query_of(attempt.url)
    assert query["tenant"] == "1"
    assert query["scope"] == "a b"
    assert query["resource"] == FOUND.resource
    assert query["code_challenge"] == code_challenge(attempt.verifier)
    assert 43 <= len(attempt.verifier) <= 128
    assert len(query["state"]) >= 22
    for secret in (attempt.verifier, query["state"]):
        assert secret not in repr(attempt)


def test_the_challenge_is_that_of_the_rfc() -> None:
    """RFC 7636, appendix B."""
    assert (
        code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def test_every_attempt_has_secrets_of_its_own() -> None:
    urls = {begin_login(FOUND, "me", CALLBACK, None).url for _ in range(10)}
    assert len({query_of(url)["state"] for url in urls}) == 10
    assert len({query_of(url)["code_challenge"] for url in urls}) == 10
    assert "scope" not in query_of(urls.pop())


@shows("Authorization Response Validation", "Mix-Up Attacks")
def test_which_answers_are_believed(subtests: pytest.Subtests) -> None:
    """RFC 9207, section 2.4, by plain comparison of strings: with its own name, and that by which the server calls it."""
    cases: list[tuple[bool, dict[str, Any], str | None]] = [
        (True, {}, None),
        (False, {}, None),
        (False, {"iss": None}, None),
        (True, {"iss": None}, "does not say"),
        (True, {"iss": "https://evil.example"}, "not from"),
        (False, {"iss": "https://evil.example"}, "not from"),
        (True, {"iss": f"{ISSUER}/"}, "not from"),
        (True, {"iss": f"{ISSUER}?"}, None),
        (True, {"iss": f"{ISSUER}//"}, "not from"),
        (True, {"iss": f"{ISSUER}/x"}, "not from"),
        (True, {"iss": ISSUER.upper()}, "not from"),
        (True, {"iss": f"{ISSUER}:443"}, "not from"),
        (True, {"iss": ""}, "not from"),
        (True, {"state": "other"}, "state"),
        (True, {"state": None}, "state"),
        (True, {"code": None}, "no code"),
        (True, {"code": ""}, "no code"),
        (True, {"error": "access_denied", "code": None}, "access_denied"),
    ]
    for advertised, change, problem in cases:
        with subtests.test(advertised=advertised, change=change):
            server = attrs.evolve(
                SERVER, authorization_response_iss_parameter_supported=advertised, named=f"{ISSUER}?"
            )
            attempt = begin_login(attrs.evolve(FOUND, server=server), "me", CALLBACK, None)
            fields = {"code": "c0de", "state": query_of(attempt.url)["state"], "iss": ISSUER, **change}
            answer = (
                f"{CALLBACK}?{urlencode({name: value for name, value in fields.items() if value is not None})}"
            )
            if problem is None:
                assert attempt.take(answer) == "c0de"
                continue
            with pytest.raises(AuthorizationFailed, match=problem) as failed:
                attempt.take(answer)
            assert "c0de" not in str(failed.value)


@shows("Authorization Response Validation")
def test_an_error_from_somebody_else_is_not_shown() -> None:
    attempt = begin_login(FOUND, "me", CALLBACK, None)
    state = query_of(attempt.url)["state"]
    fields = {"error": "call_this_number", "error_description": "0900", "state": state, "iss": "https://evil"}
    with pytest.raises(AuthorizationFailed) as failed:
        attempt.take(f"{CALLBACK}?{urlencode(fields)}")
    assert failed.value.error is None
    assert "0900" not in str(failed.value)
    assert "call_this_number" not in str(failed.value)


@pytest.mark.parametrize(
    "answer", ["http://[", "", "?state=\ud800", "?state=%ED%A0%80", "\udcff", "//[::1", "?" + "a&" * 3_000]
)
def test_what_is_no_answer_is_refused(answer: str) -> None:
    """A person may have copied anything."""
    attempt = begin_login(FOUND, "me", CALLBACK, None)
    assert not attempt.is_for(answer)
    with pytest.raises(AuthorizationFailed, match="to another one"):
        attempt.take(answer)


@pytest.mark.parametrize("extra", ["&state=x", "&code=x", "&iss=x"])
def test_what_comes_twice_is_refused(extra: str) -> None:
    attempt = begin_login(FOUND, "me", CALLBACK, None)
    state = query_of(attempt.url)["state"]
    with pytest.raises(AuthorizationFailed):
        attempt.take(f"{CALLBACK}?{urlencode({'code': 'c', 'state': state, 'iss': ISSUER})}{extra}")


@shows("Scope Selection Strategy")
def test_which_scopes_are_asked_for(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, Any, Any, Any, Any]] = [
        ({"a"}, ("b",), (), None, {"a"}),
        (None, ("b", "c"), (), None, {"b", "c"}),
        (None, None, (), None, None),
        (None, (), (), None, set[str]()),
        ({"a"}, None, ("b",), None, {"a", "b"}),
        ({"a"}, None, (), ("offline_access",), {"a", "offline_access"}),
        (None, None, (), ("offline_access",), {"offline_access"}),
        (None, None, (), ("other",), None),
    ]
    for challenged, supported, before, offline, scopes in cases:
        with subtests.test(challenged=challenged, supported=supported, before=before, offline=offline):
            server = attrs.evolve(SERVER, scopes_supported=offline)
            found = attrs.evolve(FOUND, server=server, scopes_supported=supported)
            assert scopes_to_request(challenged, found, before=before) == scopes
