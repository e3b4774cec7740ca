"""How things look: harmless, and within the width of the terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from costs import steps_of
from hypothesis import given
from hypothesis import strategies as st
from inside_cli import (
    cells,
    columns,
    cut,
    first_sentence,
    json_text,
    short_numbers,
    shown_text,
    type_name,
    wrapped,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.text())
def test_nothing_is_shown_that_a_terminal_obeys(text: str) -> None:
    """But line feeds and tabs."""
    assert shown_text(text).replace("\n", "").replace("\t", "").isprintable()


@given(st.text(alphabet="abc äß漢\n\t"))
def test_what_is_harmless_is_shown_as_it_is(text: str) -> None:
    """Of whatever length."""
    assert shown_text(text * 1000) == text * 1000


@given(VALUES)
def test_json_stays_what_it_was(value: object) -> None:
    """All that is not printable is inside of strings, where JSON has escapes for it."""
    text = json_text(value)
    assert json.loads(text) == value
    assert text.replace("\n", "").isprintable()
    assert json.loads(json_text(value, indent=None)) == value
    assert "\n" not in json_text(value, indent=None)


@given(VALUES)
def test_short_numbers_are_the_same_numbers(value: object) -> None:
    """Python compares 42 and 42.0 as JSON does."""
    assert short_numbers(value) == value


def test_whole_floats_are_shown_short() -> None:
    """But not where a float stands for many numbers."""
    assert (
        json_text(short_numbers({"a": [42.0, -0.5, 1e300, True]}), indent=None)
        == '{"a": [42, -0.5, 1e+300, true]}'
    )


@given(st.text(alphabet="ab 漢\n", max_size=200), st.integers(4, 60))
def test_lines_fit(text: str, width: int) -> None:
    """Unless a word is longer; and no word is lost."""
    lines = list(wrapped(text, width))
    assert " ".join(lines).split() == text.split()
    for line in lines:
        assert cells(line) <= width or " " not in line


@given(st.text(alphabet="ab漢é", max_size=80), st.integers(2, 40))
def test_what_is_cut_fits(text: str, width: int) -> None:
    """Wide characters take two columns."""
    shown = cut(text, width)
    assert cells(shown) <= width
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


def test_columns_are_beside_each_other() -> None:
    """A long name has a line of its own; a long text is indented."""
    rows = [
        ("a", "first"),
        ("b" * 30, "second"),
        ("c", "many words that do not fit into one line"),
        ("d\x1b", ""),
    ]
    assert list(columns(rows, 40)) == [
        "  a                 first",
        f"  {'b' * 30}",
        "                    second",
        "  c                 many words that do",
        "                    not fit into one",
        "                    line",
        "  d\\x1b",
    ]


def test_what_people_copy_is_not_folded() -> None:
    """A command in one line, with its blanks as they are."""
    command = "python  -m trio_mcp run /a/path/that/does/not/fit/into/one/line.py"
    assert list(columns([("a", command)], 40, folded=False)) == [f"  a  {command}"]


def test_types_are_a_few_words(subtests: pytest.Subtests) -> None:
    """As one would say them."""
    rows: list[tuple[object, str]] = [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": {"type": "integer"}}, "array of integer"),
        ({"anyOf": [{"type": "integer"}, {"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"const": None}, "null"),
        ({"properties": {}}, "object"),
        ({"$ref": "#/$defs/A~1b"}, "boolean"),
        ({"$ref": "#"}, "any"),
        (True, "any"),
    ]
    for schema, name in rows:
        with subtests.test(schema=schema, name=name):
            assert type_name(schema, {"$defs": {"A/b": {"type": "boolean"}}}) == name


def test_a_schema_within_itself_has_a_name() -> None:
    """It is not followed for ever."""
    endless = {"type": "array", "items": {"$ref": "#"}}
    assert type_name(endless, endless).endswith("array of …")


@pytest.mark.parametrize("alternatives", [2, 30, 100_000])
def test_a_schema_that_refers_to_itself_many_times_is_shown_at_once(alternatives: int) -> None:
    """Thirty of them twelve levels deep were more than anybody could wait for."""
    schema = {"anyOf": [{"$ref": "#"}] * alternatives}
    assert steps_of(lambda: type_name(schema, schema)) < 1_000_000
    assert type_name(schema, schema) == "…"
    each = {str(number): {"anyOf": [{"$ref": f"#/$defs/{number + 1}"}] * 3} for number in range(20)}
    deep = {"$ref": "#/$defs/0", "$defs": each}
    assert type_name(deep, deep) == "…"


def test_values_of_any_depth_are_shown() -> None:
    """A value that could be read can be shown; on several lines, half as many levels can be."""
    value: Any = 1.0
    for _ in range(700):
        value = [value]
    assert json_text(short_numbers(value)).replace(" ", "").replace("\n", "") in {
        "[" * 700 + one + "]" * 700 for one in ("1", "1.0")
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Add two numbers. Then rest.", "Add two numbers."),
        ("Version 2.5 of\nit all.", "Version 2.5 of it all."),
        ("One\n\nTwo.", "One"),
        ("", ""),
    ],
)
def test_lists_have_first_sentences(text: str, sentence: str) -> None:
    """The rest is for `describe`."""
    assert first_sentence(text) == sentence
