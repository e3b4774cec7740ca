"""What may be filled into a form: each kind of field, its bounds and its default."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inside_client import fill_in
from inside_wire import from_wire

from trio_mcp import LocalProtocolError
from trio_mcp.types import RequestedSchema

TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
TEXT = {"type": "string"}
ENUM = {"type": "string", "enum": ["r", "g"]}
LEGACY_ENUM = {**ENUM, "enumNames": ["Red", "Green"]}
TITLED_ENUM = {"type": "string", "oneOf": TITLED}
MANY = {"type": "array", "items": {"type": "string", "enum": ["r", "g"]}, "minItems": 1, "maxItems": 2}
TITLED_MANY = {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1, "maxItems": 2}


def fill(field: dict[str, Any], content: dict[str, object], *, required: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"f": field}, "required": ["f"] if required else []}
    return dict(fill_in(content, from_wire(schema, RequestedSchema)))


# 2025-11-25, client/elicitation, "Requested Schema": every kind of field.
FITTING: list[tuple[dict[str, Any], object, object]] = [
    (TEXT, "any", "any"),
    (TEXT, "", ""),
    ({**TEXT, "minLength": 2, "maxLength": 2}, "ab", "ab"),
    ({**TEXT, "format": "email"}, "a@b.test", "a@b.test"),
    ({**TEXT, "format": "uri"}, "urn:x", "urn:x"),
    ({**TEXT, "format": "date"}, "2026-02-28", "2026-02-28"),
    ({**TEXT, "format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
    ({**TEXT, "format": "date-time"}, "2026-02-28t10:00:00.5+01:00", "2026-02-28t10:00:00.5+01:00"),
    ({"type": "number"}, 1.5, 1.5),
    ({"type": "number", "minimum": 1, "maximum": 1}, 1, 1),
    ({"type": "integer"}, 3, 3),
    ({"type": "integer"}, 3.0, 3),
    ({"type": "boolean"}, False, False),
    (ENUM, "r", "r"),
    (LEGACY_ENUM, "g", "g"),
    (TITLED_ENUM, "r", "r"),
    (MANY, ["r", "g"], ("r", "g")),
    (MANY, {"r"}, ("r",)),
    (TITLED_MANY, ("g",), ("g",)),
]


def test_what_fits_is_sent(subtests: pytest.Subtests) -> None:
    for field, value, sent in FITTING:
        with subtests.test(field=field, value=value, sent=sent):
            filled = fill(field, {"f": value}, required=True)
            assert filled == {"f": sent}
            assert type(filled["f"]) is type(sent)


UNFITTING: list[tuple[dict[str, Any], object, str]] = [
    (TEXT, 5, "expected a string"),
    ({**TEXT, "minLength": 2}, "a", "at least 2 characters"),
    ({**TEXT, "maxLength": 2}, "abc", "at most 2 characters"),
    ({**TEXT, "format": "email"}, "a b", "expected an email address"),
    ({**TEXT, "format": "uri"}, "no scheme", "expected a URI"),
    ({**TEXT, "format": "uri"}, "x:a b", "expected a URI"),
    ({**TEXT, "format": "uri"}, "http://[", "expected a URI"),
    ({**TEXT, "format": "date"}, "28.2.2026", "expected a date such as"),
    ({**TEXT, "format": "date"}, "2026-02-30", "expected a date such as"),
    ({**TEXT, "format": "date-time"}, "2026-02-28", "expected a date and time"),
    ({**TEXT, "format": "date-time"}, "2026-02-28T25:00:00Z", "expected a date and time"),
    ({"type": "number"}, "1", "expected a number"),
    ({"type": "number"}, True, "expected a number"),
    ({"type": "number"}, float("nan"), "expected a number"),
    ({"type": "number", "minimum": 1}, 0.5, "at least 1"),
    ({"type": "number", "maximum": 1}, 1.5, "at most 1"),
    ({"type": "integer"}, 1.5, "expected an integer"),
    ({"type": "boolean"}, 1, "expected a boolean"),
    (ENUM, "b", "expected one of"),
    (ENUM, 5, "expected one of"),
    (LEGACY_ENUM, "Red", "expected one of"),
    (TITLED_ENUM, "Red", "expected one of"),
    (MANY, "r", "expected an array"),
    (MANY, [], "at least 1 of the options"),
    (MANY, ["r", "g", "r"], "at most 2 of the options"),
    (MANY, ["b"], "expected one of"),
    (TITLED_MANY, ["Red"], "expected one of"),
]


def test_what_does_not_fit_is_reported_by_field_and_rule(subtests: pytest.Subtests) -> None:
    for field, value, reason in UNFITTING:
        with (
            subtests.test(field=field, value=value, reason=reason),
            pytest.raises(LocalProtocolError, match=f"f: .*{reason}"),
        ):
            fill(field, {"f": value})


@pytest.mark.parametrize(
    "field", [{**TEXT, "maxLength": 2}, {**TEXT, "format": "email"}, {"type": "number"}, ENUM, MANY]
)
def test_the_values_of_a_form_are_not_reported(field: dict[str, Any]) -> None:
    """It is somebody's, and errors end in logs."""
    with pytest.raises(LocalProtocolError) as caught:
        fill(field, {"f": "secret"})
    assert "secret" not in str(caught.value)


def test_a_field_left_empty_has_its_default(subtests: pytest.Subtests) -> None:
    """2025-11-25, client/elicitation, "Requested Schema": all kinds of fields have defaults."""
    rows: list[tuple[dict[str, Any], object]] = [
        (TEXT, "x"),
        ({"type": "number"}, 1.5),
        ({"type": "integer"}, 0),
        ({"type": "boolean"}, False),
        (ENUM, "r"),
        (LEGACY_ENUM, "r"),
        (TITLED_ENUM, "g"),
        (MANY, ("r",)),
        (TITLED_MANY, ("g",)),
    ]
    contents: list[tuple[str, dict[str, object]]] = [
        ("missing", {}),
        ("None", {"f": None}),
    ]
    for field, default in rows:
        for name, content in contents:
            with subtests.test(name, field=field, default=default):
                wire: object = json.loads(json.dumps(default))
                assert fill({**field, "default": wire}, content, required=True) == {"f": default}


def test_a_default_that_does_not_fit_is_reported() -> None:
    with pytest.raises(LocalProtocolError, match='f: expected one of "r", "g"'):
        fill({**ENUM, "default": "b"}, {})


def test_an_optional_field_may_stay_empty() -> None:
    assert fill(TEXT, {}) == {}


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(LocalProtocolError, match="g: the form has no such field; f: is missing"):
        fill(TEXT, {"g": 1}, required=True)
