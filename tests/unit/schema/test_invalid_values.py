"""How a wrong value is described: all problems at once, in wire terms, and never more than fits on a screen."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import pickle
from typing import Annotated, Any, Literal

import attrs
import pytest
from inside_schema import InvalidValue, JsonType
from schema_models import (
    ByHandA,
    ByHandB,
    Cat,
    Circle,
    Colour,
    Dog,
    HasA,
    Json,
    Line,
    Node,
    OnlyText,
    Order,
    Plus,
    Positive,
    Square,
)

from trio_mcp import Field


def problems(hint: Any, value: object, **options: Any) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidValue) as caught:
        JsonType(hint, **options).decode(value)
    return caught.value.problems


def test_all_problems_are_reported_at_once() -> None:
    """A model that hears of one mistake at a time needs a round trip for each."""
    value = {"lines": [{"copies": "2"}, {"sku": "a", "copies": 0, "colour": 1}], "tags": "a", "made": "now"}
    assert problems(Order, value) == (
        ("lines[0].sku", "is missing"),
        ("lines[0].copies", 'expected an integer, got "2"'),
        ("lines[1].copies", "must be at least 1, got 0"),
        ("lines[1].colour", "is not known; known are sku, copies"),
        ("tags", 'expected an array, got "a"'),
        ("made", 'expected a date and time such as 2026-07-28T12:30:00Z, got "now"'),
    )


def test_message_lists_paths_and_reasons() -> None:
    """It is what the caller of a tool reads."""
    with pytest.raises(InvalidValue, match=r"^sku: is missing; copies: expected an integer, got null$"):
        JsonType(Line).decode({"copies": None})
    with pytest.raises(InvalidValue, match=r"^expected an object, got 5$"):
        JsonType(Line).decode(5)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (list[int], ["x"] * 1_000_000),
        (dict[str, int], {str(n): "x" for n in range(100_000)}),
        (Line, {f"unknown{n}": 1 for n in range(100_000)}),
        (list[tuple[int, int]], [["x", "y"]] * 100_000),
    ],
    ids=["array", "dictionary", "record", "nested"],
)
def test_at_most_ten_problems_are_reported(hint: Any, value: object) -> None:
    """A hostile value must cost neither memory nor time nor the reader's patience."""
    found = problems(hint, value)
    assert len(found) == 10
    assert str(InvalidValue(found)).endswith("; and perhaps more")


def test_long_values_are_cut() -> None:
    """A message must not carry sixteen megabytes back."""
    ((_, reason),) = problems(int, "é" * 100_000)
    assert reason == f'expected an integer, got "{"é" * 60}…"'
    ((_, reason),) = problems(str, 10**100_000)
    assert reason == "expected a string, got an integer of 332193 bits"
    ((path, _),) = problems(dict[str, int], {"k" * 100_000: "x"})
    assert path == f'["{"k" * 60}…"]'


def test_values_are_shown_as_json() -> None:
    """The reader knows JSON, not Python."""
    cases: list[tuple[object, str]] = [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (-5, "-5"),
        (0.5, "0.5"),
        ('a"b', r'"a\"b"'),
        ([1], "an array"),
        ({"a": 1}, "an object"),
        ((1,), "a Python object of type tuple"),
    ]
    for value, said in cases:
        assert problems(Literal["x"], value) == (("", f'expected "x", got {said}'),)


def test_odd_member_names_are_quoted_in_paths() -> None:
    """A path must be readable whatever the peer calls its members."""
    assert problems(dict[str, dict[str, int]], {"a b": {"c.d": "x"}}) == (
        ('["a b"]["c.d"]', 'expected an integer, got "x"'),
    )


def test_choices_are_listed_but_not_all_of_many() -> None:
    """A model picks from the list; a list of thousands helps nobody."""
    assert problems(Colour, "green") == (("", 'expected one of "red", "blue", got "green"'),)
    many = Literal[tuple(range(100))]  # type: ignore[valid-type]  # made at run time
    ((_, reason),) = problems(many, 100)
    assert reason == f"expected one of {', '.join(map(str, range(20)))}, ..., got 100"


def test_known_members_are_listed() -> None:
    """A misspelt argument is the commonest mistake of a model."""
    assert problems(HasA, {"a": 1, "A": 1}) == (("A", "is not known; known are a"),)
    assert problems(attrs.make_class("Empty", []), {"a": 1}) == (("a", "is not known; no members are"),)


def test_length_problems_say_the_length() -> None:
    """What the limit is and what was sent."""
    assert problems(Annotated[str, Field(min_length=1)], "") == (("", "must have at least 1 character, has 0"),)
    assert problems(Annotated[list[int], Field(max_length=2)], [1, 2, 3]) == (
        ("", "must have at most 2 items, has 3"),
    )
    assert problems(tuple[int], []) == (("", "must have exactly 1 item, has 0"),)


def test_bounds_are_told_as_the_peer_would_write_them() -> None:
    """It knows ISO 8601, not how Python prints durations."""
    hint = Annotated[dt.timedelta, Field(ge=dt.timedelta(minutes=90))]
    assert problems(hint, "PT5M") == (("", "must be at least PT1H30M"),)
    assert problems(Annotated[bytes, Field(min_length=3)], "aGk=") == (("", "must be at least 3 bytes long"),)
    assert problems(Annotated[dt.time, Field(lt=dt.time(12))], "11:00Z") == (
        ("", "cannot be compared with 12:00:00"),
    )


def test_a_number_of_too_many_digits_is_a_problem_of_the_number() -> None:
    """Python keeps 28 digits when it divides decimals; what it cannot divide must not be a bug of the tool."""
    hint = Annotated[decimal.Decimal, Field(multiple_of=decimal.Decimal("0.01"))]
    assert problems(hint, "9" * 50) == (("", "has too many digits to be compared with 0.01"),)


def test_several_bounds_are_told_together() -> None:
    """All problems at once, also those of one value."""
    assert problems(Annotated[str, Field(max_length=2, pattern="^[a-z]+$")], "ABC") == (
        ("", "must have at most 2 characters, has 3"),
        ("", 'must match ^[a-z]+$, got "ABC"'),
    )


def test_too_long_array_is_not_converted() -> None:
    """The limit is there to save that work."""
    assert problems(Annotated[list[int], Field(max_length=2)], ["a", "b", "c"]) == (
        ("", "must have at most 2 items, has 3"),
    )


def test_problem_of_a_name_says_so() -> None:
    """The path alone would read as if the value were wrong."""
    assert problems(dict[int, str], {"x": "a"}) == (
        ("x", 'is not a name that is allowed here: expected an integer in decimal digits, got "x"'),
    )


def test_constructor_errors_are_problems() -> None:
    """Validators are written for exactly this; attrs adds arguments that only Python understands."""
    assert problems(list[Positive], [{"number": 1}, {"number": 0}]) == (("[1]", "must be above zero"),)
    ((path, reason),) = problems(OnlyText, {"text": 5})
    assert path == ""
    assert reason.startswith("'text' must be <class 'str'>")


def test_constructor_may_tell_problems_itself() -> None:
    """A class that checks its members against each other knows their paths."""
    assert problems(list[Span], [{"start": 2, "end": 1}]) == (("[0].end", "is before the start"),)


@attrs.frozen
class Span:
    start: int
    end: int

    def __attrs_post_init__(self) -> None:
        if self.end < self.start:
            raise InvalidValue([("end", "is before the start")])


def test_long_message_of_a_constructor_is_cut() -> None:
    """It may repeat what was sent."""
    ((_, reason),) = problems(
        attrs.make_class("Loud", {"a": attrs.field(type=str, converter=shout)}), {"a": "x" * 1000}
    )
    assert reason == f"{'x' * 200}…"


def shout(text: str) -> str:
    raise ValueError(text)


def test_tagged_union_tells_of_one_branch() -> None:
    """Problems of branches that were not meant only confuse."""
    assert problems(Cat | Dog, {"kind": "dog", "barks": 1}) == (
        ("name", "is missing"),
        ("barks", "expected a boolean, got 1"),
    )
    assert problems(Cat | Dog, {"kind": "cow"}) == (("kind", 'expected one of "cat", "dog", got "cow"'),)
    assert problems(Cat | Dog, {"name": "Tom"}) == (("kind", 'is missing; expected one of "cat", "dog"'),)


def test_union_without_fitting_branch_names_them_all() -> None:
    """The reader has to choose one."""
    assert problems(int | list[str] | None, "a") == (("", 'expected an integer or an array or null, got "a"'),)
    assert problems(Circle | Square, {"size": 1}) == (
        ("", "expected an object with the members (radius) or (side)"),
    )
    assert problems(list[int] | list[str], [None]) == (
        ("", "[0]: expected an integer, got null, or [0]: expected a string, got null"),
    )


def test_deep_values_are_refused() -> None:
    """A recursive type invites values that overflow the stack."""
    value: dict[str, Any] = {"value": 1}
    for _ in range(100_000):
        value = {"value": 1, "children": [value]}
    assert problems(Node, value) == (("", "is nested too deeply"),)
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    assert problems(Json, nested) == (("", "is nested too deeply"),)


def test_wrong_leaf_of_a_deep_union_is_found_at_once() -> None:
    """Trying each branch at each level would take longer than the universe has."""
    value: dict[str, Any] = {"op": "leaf", "value": "wrong"}
    for _ in range(80):
        value = {"op": "plus", "left": value, "right": {"op": "leaf", "value": 1}}
    ((path, _),) = problems(Plus, value)
    assert path == ".".join(["left"] * 80 + ["value"])


@pytest.mark.parametrize("direction", ["input", "output"])
def test_wrong_leaf_of_a_deep_untagged_union_is_found_at_once(direction: Literal["input", "output"]) -> None:
    """The same where only the names of the members tell branches apart, and a peer sends both."""
    value: dict[str, Any] = {"inside": None, "a": "wrong"}
    for _ in range(80):
        value = {"inside": value, "b": 1}
    ((path, _),) = problems(ByHandA | ByHandB, value, direction=direction)
    assert path == ".".join(["inside"] * 80 + ["a"])
    for _ in range(80):
        value = {"inside": value, "a": 1, "b": 1}
    found = problems(ByHandA | ByHandB, value, direction=direction)
    assert found[-1][1].startswith("is not known" if direction == "input" else "expected an integer")


def test_error_survives_copying() -> None:
    """Errors cross threads and processes in test runners."""
    error = InvalidValue([("a", "is missing")])
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert twin.problems == error.problems
        assert str(twin) == "a: is missing"
