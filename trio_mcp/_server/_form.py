"""From a Python type to the form that asks for a value of it, and from what was filled in to the value.

A form is flat, and its fields are text, numbers, yes or no, and choices of text. What a type says beyond that is
refused when the form is made, with the name of the field: a question that loses its conditions on the way gets
wrong answers. Knows nothing of asking.

Spec: 2026-07-28, client/elicitation, "Requested Schema"; SEP-1034 (defaults), SEP-1330 (choices).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs

from .. import types
from .._codec._json import is_array
from .._core._forms import FormProblem, form_problems
from .._schema import InvalidValue, JsonType
from .._schema._hints import read_hint
from .._schema._shapes import Foreign, Record, Shape, core
from ._choices import CHOICE_KEYWORDS, Options, as_text, options_of, titles_of

__all__ = ["VALUE", "Form", "form_for"]

VALUE: Final = "value"
"""The name of the field where a form asks for a single value that has no name."""

_Schema: TypeAlias = Mapping[str, Any]

_ABOUT_ALL: Final = frozenset({"title", "description", "default", "type"})
# They tell a reader something, and allow or forbid nothing. A set is one by its Python type.
_SILENT: Final = frozenset({"examples", "deprecated", "readOnly", "$comment", "uniqueItems"})
_FORMATS: Final = ("email", "uri", "date", "date-time")


@final
@attrs.frozen
class Form:
    """A form and the reading of it.

    Attributes:
        schema: What is shown, in the newest terms.
    """

    schema: types.RequestedSchema
    _restored: Callable[[dict[str, Any]], dict[str, Any]]
    _decode: Callable[[dict[str, Any]], Any]

    def read(self, content: Mapping[str, Any]) -> tuple[Any, Sequence[FormProblem]]:
        """Read what was filled in. Members that are no fields are ignored; so is a field that is null.

        Returns:
            The value, and no problems; or anything, and the problems.
        """
        known = {
            name: value for name, value in content.items() if name in self.schema.properties and value is not None
        }
        problems = form_problems(self.schema, known)
        if problems:
            return None, problems
        try:
            return self._decode(self._restored(known)), ()
        except InvalidValue as error:
            return None, error.problems


def form_for(wanted: Any) -> Form:
    """Make the form that asks for a value.

    Args:
        wanted: A class whose members are the fields; or a type of one field, which is called ``value``; or the
            form's own schema, whose value is a dictionary.

    Raises:
        TypeError: The type has no form in JSON, or none in a form. The message names the field.
    """
    if isinstance(wanted, types.RequestedSchema):
        return Form(wanted, dict, dict)
    kind = JsonType(wanted)
    shape = core(read_hint(wanted, "input"))
    schema = _Definitions(kind.schema).flat(kind.schema)[0]
    if schema.get("type") == "object":
        if "properties" not in schema and not isinstance(shape, (Record, Foreign)):
            raise TypeError("a form has named fields, and this type has members of any name")
        members = {member.name: member.shape for member in shape.members} if isinstance(shape, Record) else {}
        return _form_of_class(kind, schema, members)
    field = _Field.read(VALUE, kind.schema, _Definitions(kind.schema), shape)
    requested = types.RequestedSchema(
        properties={VALUE: field.schema}, required=None if field.nullable else (VALUE,)
    )
    return Form(requested, field.restore_in, lambda content: _decode_value(kind, content))


def _decode_value(kind: JsonType, content: Mapping[str, Any]) -> Any:
    try:
        return kind.decode(content.get(VALUE))
    except InvalidValue as error:
        raise InvalidValue([(VALUE, reason) for _, reason in error.problems]) from error


def _form_of_class(kind: JsonType, schema: _Schema, members: Mapping[str, Shape]) -> Form:
    definitions = _Definitions(kind.schema)
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = frozenset(cast("Sequence[str]", schema.get("required", ())))
    fields = [_Field.read(name, one, definitions, members.get(name)) for name, one in properties.items()]
    needed = tuple(field.name for field in fields if field.name in required and not field.nullable)
    # What may be null is left out in a form, and where the class demands it, it is null all the same.
    nulls = {field.name: None for field in fields if field.name in required and field.nullable}

    def restored(content: dict[str, Any]) -> dict[str, Any]:
        for field in fields:
            content = field.restore_in(content)
        return {**nulls, **content}

    requested = types.RequestedSchema(
        properties={field.name: field.schema for field in fields}, required=needed or None
    )
    return Form(requested, restored, kind.decode)


@final
class _Definitions:
    """Looks things up in a schema, and takes "or null" from them."""

    def __init__(self, root: _Schema) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs", {})

    def flat(self, schema: _Schema) -> tuple[dict[str, Any], bool]:
        """Return a schema without reference and null, and whether it allowed null."""
        nullable = False
        flat = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
        while "$ref" in flat or "anyOf" in flat:
            if "$ref" in flat:
                name = str(flat.pop("$ref")).removeprefix("#/$defs/")
                flat = {**self._definitions.get(name, {"type": "object", "properties": {}}), **flat}
                continue
            branches = [branch for branch in flat["anyOf"] if branch != {"type": "null"}]
            if len(branches) != 1:
                break
            nullable = True
            del flat["anyOf"]
            flat = {**branches[0], **flat}
        types = flat.get("type")
        if isinstance(types, list):
            others = [one for one in cast("list[str]", types) if one != "null"]
            nullable = nullable or len(others) < len(cast("list[str]", types))
            flat["type"] = others[0] if len(others) == 1 else others
        if None in flat.get("enum", ()):
            flat["enum"] = [value for value in flat["enum"] if value is not None]
        if flat.get("default", ...) is None:
            del flat["default"]
        return flat, nullable


@final
@attrs.frozen
class _Field:
    """One field.

    Attributes:
        name: Its name.
        schema: What is shown.
        nullable: Whether the type takes null, which a form cannot give: it is left out.
        values: What each choice means in JSON, if it is not the text itself.
    """

    name: str
    schema: types.PrimitiveSchemaDefinition
    nullable: bool
    values: Mapping[str, object] | None

    @classmethod
    def read(cls, name: str, schema: _Schema, definitions: _Definitions, shape: Shape | None) -> _Field:
        """Read a field from its JSON Schema, and what its choices are called from its shape.

        Raises:
            TypeError: A form cannot say it.
        """
        flat, nullable = definitions.flat(schema)
        options = options_of(name, flat, titles_of(shape))
        if options is not None:
            return cls(name, _single_choice(name, flat, options), nullable, options.values)
        match flat.get("type"):
            case "string":
                return cls(name, _text(name, flat), nullable, None)
            case "integer" | "number" as kind:
                return cls(name, _number(name, flat, kind), nullable, None)
            case "boolean":
                _refuse_other(name, flat, frozenset())
                return cls(name, types.BooleanSchema(**_remarks(flat), **_default(flat)), nullable, None)
            case "array":
                items = definitions.flat(flat.get("items", {}))[0]
                options = options_of(name, items, titles_of(shape))
                if options is None:
                    raise TypeError(f"{name}: a form has lists of choices only")
                return cls(name, _multiple_choice(name, flat, items, options), nullable, options.values)
            case "object":
                raise TypeError(f"{name}: a form is flat, and this would be a form in a form")
            case _:
                raise TypeError(f"{name}: a field of a form is text, a number, yes or no, or a choice of them")

    def restore_in(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with the values that this field's choices stand for."""
        if self.values is None or self.name not in content:
            return content
        values, chosen = self.values, content[self.name]
        restored = [values[one] for one in chosen] if is_array(chosen) else values[chosen]
        return {**content, self.name: restored}


# Choices.


def _single_choice(name: str, schema: _Schema, options: Options) -> types.PrimitiveSchemaDefinition:
    _refuse_other(name, schema, CHOICE_KEYWORDS)
    said: dict[str, Any] = _remarks(schema)
    if "default" in schema:
        said["default"] = as_text(schema["default"])
    if options.titles is None:
        return types.UntitledSingleSelectEnumSchema(enum=options.texts, **said)
    return types.TitledSingleSelectEnumSchema(one_of=options.titled, **said)


def _multiple_choice(
    name: str, schema: _Schema, items: _Schema, options: Options
) -> types.PrimitiveSchemaDefinition:
    _refuse_other(name, schema, frozenset({"items", "minItems", "maxItems"}))
    _refuse_other(name, items, CHOICE_KEYWORDS)
    said: dict[str, Any] = {
        **_remarks(schema),
        "min_items": schema.get("minItems"),
        "max_items": schema.get("maxItems"),
    }
    if "default" in schema:
        said["default"] = tuple(map(as_text, schema["default"]))
    if options.titles is None:
        return types.UntitledMultiSelectEnumSchema(items=types.EnumItems(enum=options.texts), **said)
    return types.TitledMultiSelectEnumSchema(items=types.TitledEnumItems(any_of=options.titled), **said)


# Text and numbers.


def _text(name: str, schema: _Schema) -> types.StringSchema:
    form = schema.get("format")
    if form == "password":
        raise TypeError(f"{name}: nothing secret may be asked for in a form; send the user to a URL for it")
    if form is not None and form not in _FORMATS:
        raise TypeError(f"{name}: a form has no format {form!r}, only {', '.join(_FORMATS)}")
    _refuse_other(name, schema, frozenset({"minLength", "maxLength", "format"}))
    return types.StringSchema(
        **_remarks(schema),
        **_default(schema),
        min_length=schema.get("minLength"),
        max_length=schema.get("maxLength"),
        format=form,
    )


def _number(name: str, schema: _Schema, kind: Literal["integer", "number"]) -> types.NumberSchema:
    limits = {"minimum", "maximum"}
    least, most = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":  # where "greater than 4" is "at least 5"
        limits |= {"exclusiveMinimum", "exclusiveMaximum"}
        if "exclusiveMinimum" in schema:
            above = math.floor(schema["exclusiveMinimum"]) + 1
            least = above if least is None else max(least, above)
        if "exclusiveMaximum" in schema:
            below = math.ceil(schema["exclusiveMaximum"]) - 1
            most = below if most is None else min(most, below)
    _refuse_other(name, schema, frozenset(limits))
    return types.NumberSchema(type=kind, **_remarks(schema), **_default(schema), minimum=least, maximum=most)


def _remarks(schema: _Schema) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in ("title", "description") if keyword in schema}


def _default(schema: _Schema) -> dict[str, Any]:
    return {"default": schema["default"]} if "default" in schema else {}


def _refuse_other(name: str, schema: _Schema, known: frozenset[str]) -> None:
    """Refuse what a form cannot say.

    Raises:
        TypeError: It says such a thing.
    """
    for keyword in schema:
        if keyword not in known and keyword not in _ABOUT_ALL and keyword not in _SILENT:
            raise TypeError(f"{name}: a form has no {keyword}")
