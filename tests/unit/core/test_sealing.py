"""Sealed state: what a client carries for the server, and cannot read, change, keep for long or use elsewhere.

Spec: 2026-07-28, basic/patterns/mrtr, "Server Requirements (Basic Workflow)", 4 and 5.
"""

from __future__ import annotations

import base64
import hashlib
import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_base import INVALID_PARAMS
from inside_core import MAX_KEYS, MAX_PAYLOAD, REFUSAL, Sealer, StateRefused, binding_of

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))
HERE = b"this request"
NOW = 1_000.0

payloads = st.binary(max_size=200)


def seal(payload: bytes = b"where we were", *, keys: list[bytes] | None = None, ttl: float = 60) -> str:
    return Sealer(keys or [KEY]).seal(payload, binding=HERE, now=NOW, ttl=ttl)


def refused(
    state: Any, *, keys: list[bytes] | None = None, binding: bytes = HERE, now: float = NOW
) -> StateRefused:
    """Check that a state is refused, without a word about why."""
    with pytest.raises(StateRefused) as caught:
        Sealer(keys or [KEY]).open(state, binding=binding, now=now)
    error = caught.value
    assert (error.code, error.message, str(error)) == (INVALID_PARAMS, REFUSAL, f"{REFUSAL} [{INVALID_PARAMS}]")
    assert error.__cause__ is None
    assert error.__context__ is None, "the reason would be in every log that shows the answer"
    return error


@given(payloads, st.binary(max_size=40), st.floats(-1e12, 1e12), st.floats(1e-3, 1e9))
def test_what_was_sealed_can_be_opened(payload: bytes, binding: bytes, now: float, ttl: float) -> None:
    """Any bytes, for any request, at any time."""
    sealer = Sealer()
    state = sealer.seal(payload, binding=binding, now=now, ttl=ttl)
    assert state.isascii()
    assert set(state) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert sealer.open(state, binding=binding, now=now) == payload


@given(payloads)
def test_the_client_can_read_nothing(payload: bytes) -> None:
    """Neither what is sealed nor what it is bound to is in the state."""
    state = seal(b"the secret: " + payload)
    raw = base64.urlsafe_b64decode(state.removeprefix("1.") + "==")
    assert b"the secret" not in raw
    assert HERE not in raw


@pytest.mark.spec("basic/patterns/mrtr", "Security Considerations", revisions="2026-07-28")
def test_any_changed_bit_is_refused() -> None:
    """Every bit of the bytes, and every other letter in every place of the text."""
    state = seal()
    text = state.removeprefix("1.")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for position in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[position // 8] ^= 1 << position % 8
        refused("1." + base64.urlsafe_b64encode(changed).rstrip(b"=").decode())
    for place in range(len(state)):
        for letter in "A_.9=\u00e9":
            if state[place] != letter:
                refused(state[:place] + letter + state[place + 1 :])


@pytest.mark.parametrize("size", range(6))
def test_a_state_has_one_spelling(size: int) -> None:
    """The last letter of base64 may have bits that mean nothing: they may not be used to pass for a new state."""
    state = seal(bytes(size))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for letter in set(alphabet) - {state[-1]}:
        refused(state[:-1] + letter)


@given(payloads, st.data())
def test_any_shorter_or_longer_state_is_refused(payload: bytes, data: st.DataObject) -> None:
    """From nothing up to all but a letter; and with anything before, after or in between."""
    state = seal(payload)
    refused(state[: data.draw(st.integers(0, len(state) - 1))])
    refused(state[data.draw(st.integers(1, len(state))) :])
    more = data.draw(st.text(min_size=1, max_size=8))
    place = data.draw(st.integers(0, len(state)))
    refused(state[:place] + more + state[place:])


@given(st.one_of(st.text(max_size=200), st.from_regex(r"\A1\.[A-Za-z0-9_-]{0,200}\Z")))
def test_what_was_never_sealed_is_refused(state: str) -> None:
    """A client may send anything."""
    refused(state)


@pytest.mark.parametrize("state", [None, 1, b"1.", ["1."], "1." + "A" * 10_000_000])
def test_what_is_not_even_a_state_is_refused(state: object) -> None:
    """Of whatever type, and however long: it is not looked at then."""
    refused(state)


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
@given(st.binary(max_size=40))
def test_a_state_of_another_request_is_refused(binding: bytes) -> None:
    """Another principal, method, target, argument or server."""
    if binding != HERE:
        refused(seal(), binding=binding)


def test_a_state_of_another_server_is_refused() -> None:
    """Sealed with a secret we do not have."""
    refused(seal(keys=[OTHER]))
    refused(Sealer().seal(b"", binding=HERE, now=NOW, ttl=1), keys=[KEY, OTHER])


@pytest.mark.spec("basic/patterns/mrtr", "Server Requirements (Basic Workflow)", revisions="2026-07-28")
@given(st.floats(0.001, 1e6))
def test_a_state_expires_to_the_instant(ttl: float) -> None:
    """Until then it can be opened, and then not any more."""
    state = seal(b"x", ttl=ttl)
    assert Sealer([KEY]).open(state, binding=HERE, now=math.nextafter(NOW + ttl, 0)) == b"x"
    refused(state, now=NOW + ttl)
    refused(state, now=NOW + ttl + 1)
    refused(state, now=math.inf)
    refused(state, now=math.nan)


def test_a_state_of_a_minute_lives_a_minute() -> None:
    """To the second, in numbers that a reader can check."""
    state = seal(b"x", ttl=60)
    assert Sealer([KEY]).open(state, binding=HERE, now=NOW + 59) == b"x"
    refused(state, now=NOW + 60)


# Keys.


def test_secrets_can_be_changed_without_losing_a_state() -> None:
    """The first seals, all open; a state outlives the change until its secret is dropped."""
    old = seal(b"old", keys=[KEY])
    both = Sealer([OTHER, KEY])
    new = both.seal(b"new", binding=HERE, now=NOW, ttl=60)
    assert both.open(old, binding=HERE, now=NOW) == b"old"
    assert both.open(new, binding=HERE, now=NOW) == b"new"
    assert Sealer([OTHER]).open(new, binding=HERE, now=NOW) == b"new"
    refused(new, keys=[KEY])
    refused(old, keys=[OTHER])


def test_replicas_with_the_same_secret_open_each_others_states() -> None:
    """Of 32 bytes, or of more; all of a long one count."""
    long = KEY * 100
    assert Sealer([long]).open(seal(keys=[long]), binding=HERE, now=NOW) == b"where we were"
    refused(seal(keys=[long]), keys=[long[:-1]])
    refused(seal(keys=[long]), keys=[long[:-1] + b"\xff"])


def test_without_secrets_each_sealer_has_its_own() -> None:
    """A random one, which dies with the process."""
    state = Sealer().seal(b"", binding=HERE, now=NOW, ttl=1)
    with pytest.raises(StateRefused):
        Sealer().open(state, binding=HERE, now=NOW)


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ([], ValueError, "1 to 16"),
        ([KEY] * (MAX_KEYS + 1), ValueError, "17"),
        ([KEY, KEY[:31]], ValueError, r"keys\[1\] has 31 bytes.* 32"),
        ([b""], ValueError, r"keys\[0\]"),
        (["k" * 32], TypeError, r"keys\[0\] must be bytes"),
        (KEY, TypeError, "sequence"),
        ("k" * 32, TypeError, "sequence"),
    ],
)
def test_secrets_that_are_none_are_refused(keys: Any, error: type[Exception], words: str) -> None:
    """At once, not when the first state is sealed."""
    with pytest.raises(error, match=words):
        Sealer(keys)


def test_a_sealer_does_not_show_its_secrets() -> None:
    """It may end up in a log."""
    assert repr(Sealer([b"k" * 32])) == "Sealer(1 keys)"


# Limits.


def test_what_is_too_long_is_not_sealed() -> None:
    """The error names the limit, and what just fits comes back."""
    with pytest.raises(ValueError, match=f"65537 bytes; max_payload is {MAX_PAYLOAD}"):
        seal(bytes(MAX_PAYLOAD + 1))
    assert Sealer([KEY]).open(seal(bytes(MAX_PAYLOAD)), binding=HERE, now=NOW) == bytes(MAX_PAYLOAD)


@pytest.mark.parametrize("size", range(5))
def test_the_limit_on_what_is_opened_is_the_one_on_what_is_sealed(size: int) -> None:
    """Whatever the rounding of base64."""
    sealer = Sealer([KEY], max_payload=size)
    assert sealer.open(sealer.seal(bytes(size), binding=HERE, now=NOW, ttl=1), binding=HERE, now=NOW) == bytes(
        size
    )
    longer = Sealer([KEY]).seal(bytes(size + 3), binding=HERE, now=NOW, ttl=1)
    with pytest.raises(StateRefused):
        sealer.open(longer, binding=HERE, now=NOW)


@pytest.mark.parametrize(
    ("now", "ttl"), [(0.0, 0.0), (0.0, -1.0), (0.0, math.nan), (math.nan, 1.0), (math.inf, 1.0)]
)
def test_a_state_needs_an_expiry(now: float, ttl: float) -> None:
    """One that is reached already, or is no time, is a mistake of the caller's."""
    with pytest.raises(ValueError, match="cannot be sealed"):
        Sealer([KEY]).seal(b"", binding=HERE, now=now, ttl=ttl)


# What a state belongs to.


def bound(**changes: Any) -> bytes:
    said: dict[str, Any] = {
        "principal": "alice",
        "method": "tools/call",
        "target": "reserve",
        "arguments": {"copies": 1},
        "server": "shelf",
        **changes,
    }
    return binding_of(**said)


def test_whatever_differs_gives_another_binding(subtests: pytest.Subtests) -> None:
    """Principal, method, target, arguments to the type of a number, server; nothing runs into its neighbour."""
    cases: list[dict[str, Any]] = [
        {"principal": "bob"},
        {"principal": None},
        {"principal": "None"},
        {"principal": "null"},
        {"method": "prompts/get"},
        {"target": "reserve2"},
        {"server": "shelf2"},
        {"arguments": None},
        {"arguments": {}},
        {"arguments": {"copies": 2}},
        {"arguments": {"copies": 1.0}},
        {"arguments": {"copies": "1"}},
        {"arguments": {"copies": True}},
        {"arguments": {"copies": [1]}},
        {"arguments": {"copies": None}},
        {"arguments": {"copies": 10**30}},
        {"arguments": {"copies": 10**30 + 1}},
        {"arguments": {"copies": 0.1}},
        {"arguments": {"copies": 0.1 + 2**-56}},
        {"arguments": {"copies": 0.0}},
        {"arguments": {"copies": -0.0}},
        {"arguments": {"copies": 1, "more": None}},
        {"arguments": {"copies": "\ud800"}},
        {"arguments": {"copies": "\\ud800"}},
        # What stands at the seams of two values.
        {"method": "tools/callreserve", "target": ""},
        {"principal": 'alice","tools/call'},
    ]
    for changes in cases:
        with subtests.test(changes=changes):
            assert bound(**changes) != bound()
            assert bound(**changes) == bound(**changes)


def test_all_of_those_differ_from_each_other() -> None:
    """1, 1.0, "1" and true are four values."""
    values: list[Any] = [
        1,
        1.0,
        "1",
        True,
        10**30,
        10**30 + 1,
        0.1,
        0.0,
        -0.0,
        None,
        [],
        {},
        "\ud800",
        "\\ud800",
        "null",
    ]
    assert len({bound(arguments={"copies": value}) for value in values}) == len(values)


def test_long_texts_differ_like_short_ones() -> None:
    """They are digested by themselves, each under its name."""
    text, other = "x" * 5_000, "x" * 4_999 + "y"
    digest = hashlib.sha256(text.encode()).hexdigest()
    many: list[dict[str, Any]] = [
        {"a": text},
        {"a": other},
        {"b": text},
        {"a": text, "b": ""},
        {"a": text, "b": other},
        {"a": other, "b": text},
        {"a": digest},
        {"a": [text]},
        {"a": "\ud800" + text},
        {},
    ]
    assert len({bound(arguments=arguments) for arguments in many}) == len(many)
    assert bound(arguments={"a": text, "b": 1}) == bound(arguments={"b": 1, "a": text})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: reordered(members[name]) for name in reversed(list(members))}
    if isinstance(value, list):
        return [reordered(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_the_order_of_members_makes_no_difference(arguments: dict[str, Any]) -> None:
    """A client may write the same object differently when it asks again."""
    assert bound(arguments=arguments) == bound(arguments=reordered(arguments))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_have_no_binding(number: float) -> None:
    """They cannot have come over the wire."""
    with pytest.raises(ValueError):
        bound(arguments={"copies": number})


def test_a_binding_is_short_whatever_it_is_of() -> None:
    """It stays on the server, with each parked handler."""
    assert len(bound(arguments={"text": "x" * 1_000_000})) == 32
