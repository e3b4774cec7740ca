"""Untrusted values that Python keeps in sets and dictionaries: a client must not be able to choose their hashes."""

from __future__ import annotations

import uuid
from typing import Annotated

import pytest
from inside_schema import InvalidValue, JsonType, keyword_checks, refuse
from shared.schema_colliding_keys import KINDS, MODULUS


@pytest.mark.parametrize("name", KINDS)
def test_a_set_of_numbers_with_the_same_hash_is_refused(name: str) -> None:
    """Each is compared with all before it: 4 MB of them would hold the event loop for minutes."""
    hint, make = KINDS[name]
    kind = JsonType(hint)
    assert len(kind.decode([make(number) for number in range(100)])) == 100
    with pytest.raises(InvalidValue, match="Python's tables"):
        kind.decode([make(number) for number in range(300)])


@pytest.mark.parametrize("name", KINDS)
def test_the_same_number_again_and_again_is_told_as_what_it_is(name: str) -> None:
    hint, make = KINDS[name]
    with pytest.raises(InvalidValue, match="the same item twice"):
        JsonType(hint).decode([make(number) for number in range(3)] * 1_000)


def test_a_set_of_other_numbers_may_be_large() -> None:
    assert len(JsonType(set[int]).decode(list(range(-5_000, 5_000)))) == 10_000
    assert len(JsonType(set[float]).decode([number / 8 for number in range(10_000)])) == 10_000


def test_dictionaries_are_looked_at_as_sets_are() -> None:
    names = {str(uuid.UUID(int=number * MODULUS)): number for number in range(300)}
    with pytest.raises(InvalidValue, match="Python's tables"):
        JsonType(dict[uuid.UUID, int]).decode(names)
    assert len(JsonType(dict[str, int]).decode(names)) == 300


def test_the_names_of_a_dictionary_of_integers_are_too_short_to_collide() -> None:
    """There are ten numbers of 19 digits for each hash, and a dictionary may hold them."""
    kind = JsonType(dict[int, int])
    many = {str(number * MODULUS + extra): 1 for number in range(-4, 5) for extra in range(100)}
    assert len(kind.decode(many)) == len(many)
    with pytest.raises(InvalidValue, match="decimal digits"):
        kind.decode({str(MODULUS * 10): 1})


def test_items_that_must_differ_are_looked_at_as_sets_are() -> None:
    checks = keyword_checks({"uniqueItems": True})
    refuse(checks, [number * MODULUS for number in range(100)])
    with pytest.raises(InvalidValue, match="Python's tables"):
        refuse(checks, [[number * MODULUS] for number in range(300)])
    refuse(checks, [[number] for number in range(10_000)])


Items = Annotated[list[int], "of any size"]


def test_lists_are_as_they_were() -> None:
    assert len(JsonType(Items).decode([number * MODULUS for number in range(300)])) == 300
