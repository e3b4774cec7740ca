"""``key=value``, read by a tool's schema."""

from __future__ import annotations

from typing import Any

import pytest
from inside_cli import Exit, Failure, read_arguments

POINT: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}, "name": {"type": "string"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "whole": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "several": {"type": ["integer", "string", "boolean"]},
        "texts": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "number"}},
        "point": {"$ref": "#/$defs/Point"},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
        "perhaps": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        "choice": {"enum": ["a", "1"]},
        "count": {"enum": [1, 2]},
        "dotted.name": {"type": "integer"},
        "anything": {},
        "open": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "$defs": {"Point": POINT},
}


def test_a_value_is_what_the_schema_says(subtests: pytest.Subtests) -> None:
    """A string stays as it was typed; everything else is JSON."""
    rows: list[tuple[list[str], dict[str, object]]] = [
        (["text=5"], {"text": "5"}),
        (['text="5"'], {"text": '"5"'}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=null"], {"text": "null"}),
        (["maybe=null"], {"maybe": "null"}),
        (["maybe=7"], {"maybe": "7"}),
        (["whole=-7"], {"whole": -7}),
        (["whole=7.0"], {"whole": 7.0}),
        (["ratio=7"], {"ratio": 7}),
        (["ratio=1e3"], {"ratio": 1000.0}),
        (["flag=true"], {"flag": True}),
        (["nothing=null"], {"nothing": None}),
        (["several=5"], {"several": 5}),
        (["several=true"], {"several": True}),
        (["several=five"], {"several": "five"}),
        (['several="5"'], {"several": "5"}),
        (["texts=a"], {"texts": ["a"]}),
        (["texts=a", "texts=[b"], {"texts": ["a", "[b"]}),
        (['texts=["a", "b"]'], {"texts": ["a", "b"]}),
        (["numbers=1", "numbers=2.5"], {"numbers": [1, 2.5]}),
        (["numbers=1"], {"numbers": [1]}),
        (['point={"x": 1}'], {"point": {"x": 1}}),
        (["point.x=1", "point.name=2"], {"point": {"x": 1, "name": "2"}}),
        (["perhaps.x=1"], {"perhaps": {"x": 1}}),
        (["perhaps=null"], {"perhaps": None}),
        (['places={"x": 1}'], {"places": [{"x": 1}]}),
        (["choice=1"], {"choice": "1"}),
        (["count=1"], {"count": 1}),
        (["dotted.name=1"], {"dotted.name": 1}),
        (["anything=1"], {"anything": 1}),
        (["anything=one"], {"anything": "one"}),
        (["anything=1", "anything=b"], {"anything": [1, "b"]}),
        (["open.a=1", "open.b=2"], {"open": {"a": 1, "b": 2}}),
        (["unknown=1"], {"unknown": 1}),
        (["un.known=x"], {"un.known": "x"}),
    ]
    for pairs, expected in rows:
        with subtests.test(pairs=pairs, expected=expected):
            found = read_arguments(pairs, SCHEMA)
            assert found == expected
            assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


def test_what_cannot_be_read_is_the_users_mistake(subtests: pytest.Subtests) -> None:
    """It says which argument, and what was expected; nothing is sent."""
    rows: list[tuple[list[str], str]] = [
        (["text"], "'text' must be key=value"),
        (["=5"], "'=5' must be key=value"),
        (["whole=five"], "whole: expected integer, not 'five'"),
        (["whole=7.5"], "whole: expected integer, not '7.5'"),
        (["whole=true"], "whole: expected integer, not 'true'"),
        (["flag=yes"], "flag: expected true or false, not 'yes'"),
        (["flag=True"], "flag: expected true or false, not 'True'"),
        (["ratio=NaN"], "ratio: expected number, not 'NaN'"),
        (["ratio="], "ratio: expected number, not ''"),
        (["ratio=1e400"], "ratio: expected number, not '1e400'"),
        (['point={"x": -1e999}'], """point: expected object, not '{"x": -1e999}'"""),
        (['point={"name": "\\ud800"}'], "point.name: has half a surrogate pair, which is no text in UTF-8"),
        (["text=\udcff"], "text: has half a surrogate pair, which is no text in UTF-8"),
        (["texts=a", "texts=\udcff"], "texts[1]: has half a surrogate pair, which is no text in UTF-8"),
        (["numbers=one"], "numbers: expected number, not 'one'"),
        (["point=5"], "point: expected object, not '5'"),
        (["point.x=a"], "point.x: expected integer, not 'a'"),
        (["whole=1", "whole=2"], "whole is given 2 times, and is no array"),
        (['point={"x": 1}', "point=2", "point.x=2"], "point is given 2 times, and is no array"),
        (["point=null", "point.x=2"], "point: expected object, not 'null'"),
        (["perhaps=null", "perhaps.x=2"], "perhaps.x: perhaps is given as a whole as well"),
        (["point.x=2", "point={}"], "point is given as a whole and in parts"),
        (["count=one"], "count: expected 1 | 2, not 'one'"),
        (
            [".".join(["point"] * 3000) + "=1"],
            f"{('point.' * 10)}… names a member 3000 levels deep, and at most 64 are",
        ),
        (["whole=" + "[" * 100_000], f"whole: expected integer, not {'[' * 100_000!r}"),
    ]
    for pairs, message in rows:
        with subtests.test(pairs=pairs, message=message):
            with pytest.raises(Failure) as raised:
                read_arguments(pairs, SCHEMA)
            assert (raised.value.status, raised.value.message) == (Exit.USAGE, message)


def test_a_parameter_that_the_tool_forbids_is_not_sent() -> None:
    """A misspelt name is found at once, where the schema is closed."""
    with pytest.raises(Failure, match="the tool has no parameter 'copy'; it has title, copies"):
        read_arguments(
            ["copy=1"],
            {"properties": {"title": {}, "copies": {}}, "additionalProperties": False, "type": "object"},
        )


RECURSIVE: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}


def test_no_schema_of_a_server_does_harm(subtests: pytest.Subtests) -> None:
    """What makes no sense says nothing about the value."""
    schemas: list[dict[str, Any]] = [
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"$ref": "https://elsewhere.example/"}}},
        {"properties": {"a": RECURSIVE}, "$defs": {"A": RECURSIVE}},
        {"properties": {"a": True}},
        {"properties": {"a": {"enum": "no list"}}},
        {"properties": {"a": {"type": 5}}},
        {"properties": []},
        {"properties": {"a": {"anyOf": {"type": "integer"}}}},
    ]
    for schema in schemas:
        with subtests.test(schema=schema):
            assert read_arguments(["a=5"], schema) == {"a": 5}
            assert (
                read_arguments(["a=five", "a.b=6"], schema)["a"] == "five" if schema["properties"] == [] else True
            )


def test_an_array_of_itself_is_not_read_for_ever() -> None:
    """What a text for it would be, nobody can say."""
    schema = {
        "properties": {"x": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
    }
    assert read_arguments(["x=[[]]"], schema) == {"x": [[]]}
    with pytest.raises(Failure, match="x: expected array of") as failed:
        read_arguments(["x=abc"], schema)
    assert failed.value.status == Exit.USAGE
