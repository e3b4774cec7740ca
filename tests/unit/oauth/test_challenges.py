"""What servers write into `WWW-Authenticate`, and what is read of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from inside_oauth import format_challenge, our_challenge, parse_challenges


def read(*fields: str) -> list[tuple[str, dict[str, str], str | None]]:
    return [(each.scheme, dict(each.parameters), each.token) for each in parse_challenges(fields)]


CHALLENGES: list[tuple[str, list[Any]]] = [
        ("Bearer", [("bearer", {}, None)]),
        ('BEARER Scope="a b"', [("bearer", {"scope": "a b"}, None)]),
        ("Bearer error=invalid_token", [("bearer", {"error": "invalid_token"}, None)]),
        ('Bearer realm = "x" , error="y"', [("bearer", {"realm": "x", "error": "y"}, None)]),
        (r'Bearer realm="a \"quoted\" \\ word"', [("bearer", {"realm": 'a "quoted" \\ word'}, None)]),
        ('Bearer realm="a, Basic b=c"', [("bearer", {"realm": "a, Basic b=c"}, None)]),
        ("Negotiate YWJj==", [("negotiate", {}, "YWJj==")]),
        (
            'Basic realm="x", Bearer resource_metadata="https://a/b", DPoP algs="ES256"',
            [("basic", {"realm": "x"}, None), ("bearer", {"resource_metadata": "https://a/b"}, None),
             ("dpop", {"algs": "ES256"}, None)],
        ),
        ("Bearer resource_metadata=https://a.example/b?c", [
            ("bearer", {"resource_metadata": "https://a.example/b?c"}, None)]),
        (", ,Bearer ,, error=x,", [("bearer", {"error": "x"}, None)]),
        ("Bearer error=first, error=second", [("bearer", {"error": "first"}, None)]),
        ('Bearer scope="', [("bearer", {}, None)]),
        ('scope="x"', []),
        ("", []),
        ("Digest", [("digest", {}, None)]),
]  # fmt: skip


def test_challenges_are_read() -> None:
    for field, challenges in CHALLENGES:
        assert read(field) == challenges


def test_several_fields_are_read() -> None:
    assert [each[0] for each in read("Basic", "Bearer")] == ["basic", "bearer"]


def test_what_two_challenges_for_tokens_say_is_put_together() -> None:
    found = our_challenge(parse_challenges(['Bearer scope="a"', 'DPoP error="use_dpop_nonce", algs="ES256"']))
    assert found is not None
    assert (found.scheme, found.get("error"), found.get("scope")) == ("dpop", "use_dpop_nonce", "a")
    assert our_challenge(parse_challenges(["Basic"])) is None


VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))


@given(st.dictionaries(st.sampled_from(["realm", "scope", "error", "resource_metadata"]), VALUES))
def test_what_is_written_is_read(parameters: dict[str, str]) -> None:
    assert read(format_challenge("Bearer", parameters)) == [("bearer", parameters, None)]


@given(st.text())
def test_whatever_comes_is_read_without_an_error(field: str) -> None:
    read(field)
