"""From shapes to JSON Schema 2020-12, kept flat and short because models read it.

A class is written where it is used; only one that is used twice, or contains itself, becomes a definition. There
are no titles except those that the user gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never, final

from .._absent import ABSENT
from .._core._output_schemas import with_changed_subschemas
from ._decode import INTEGER_NAME
from ._encode import encoder, to_json
from ._hints import branches_of_kind, find_tag, records_only
from ._members import UnsupportedHint
from ._shapes import (
    ASSERTIONS,
    Alias,
    AnyOf,
    Anything,
    Array,
    Choice,
    Dictionary,
    FixedArray,
    Foreign,
    InvalidValue,
    Kind,
    Member,
    Plain,
    Record,
    Refined,
    Scalar,
    Shape,
    Text,
    kind_of,
    kinds,
    parts,
    same_key,
)

Schema: TypeAlias = dict[str, Any]

_Named: TypeAlias = Record | Alias | Foreign

_REFERENCE: Final = "#/$defs/{}"
_REMARKS: Final = frozenset({"title", "description", "default", "examples"})


def schema_of(shape: Shape) -> Schema:
    """Write the schema of a shape. Equal hints give equal schemas, in the same order.

    Raises:
        UnsupportedHint: A keyword or example that `Annotated` gives is not JSON.
    """
    return _Writer(shape).write()


def without_references(schema: Schema, name: str) -> Schema:
    """Return a schema that was generated, with all it refers to written out, for hosts that follow no reference.

    Args:
        schema: The schema.
        name: What it is the schema of.

    Raises:
        UnsupportedHint: Something contains itself.
    """
    definitions: Mapping[str, Schema] = schema.get("$defs", {})

    def written_out(part: Mapping[str, Any], within: tuple[str, ...]) -> Schema:
        reference = str(part.get("$ref", ""))
        title = reference.removeprefix("#/$defs/")
        if reference == "#" or title in within:
            recursive = name if reference == "#" else title
            raise UnsupportedHint(
                f"{recursive} contains itself, which needs a reference: leave out inline_refs=True"
            )
        # A mapping of pydantic's refers to definitions, too, and only repeats what these say.
        left_out = ("$defs", "discriminator", *(("$ref",) if title in definitions else ()))
        own = {keyword: value for keyword, value in part.items() if keyword not in left_out}
        own = with_changed_subschemas(own, lambda inner, _: written_out(inner, within))
        if title not in definitions:
            return own
        target = written_out(definitions[title], (*within, title))
        if own.keys() & target.keys() <= _REMARKS:
            return {**target, **own}
        return {**own, "allOf": [target, *own.get("allOf", [])]}

    return written_out(schema, ())


@final
class _Writer:
    """Writes one schema, and the definitions it needs."""

    def __init__(self, root: Shape) -> None:
        self._root = root
        self._definitions: dict[str, Schema] = {}
        self._references: dict[Shape, str] = {}
        outermost = root
        while isinstance(outermost, Refined):
            outermost = outermost.inner
        for shape in _repeated(root):
            # A class that contains itself refers to the whole schema, so that its own type stays in sight.
            self._references[shape] = (
                "#" if shape is outermost and isinstance(shape, Record) else self._reserve(shape)
            )
        self._unwritten_root = outermost

    def write(self) -> Schema:
        schema = self._write(self._root)
        if self._definitions:
            schema["$defs"] = self._definitions
        return schema

    def _reserve(self, shape: _Named) -> str:
        title = _foreign_title(shape) if isinstance(shape, Foreign) else shape.title
        name, number = title, 1
        while name in self._definitions:
            number += 1
            name = f"{title}_{number}"
        self._definitions[name] = {}  # holds its place, in the order of appearance
        return _REFERENCE.format(name)

    def _write(self, shape: Shape) -> Schema:
        match shape:
            case Anything():
                return {}
            case Plain(kind=kind):
                return {"type": kind}
            case Text(form=form):
                return {"type": "string", **form.keywords}
            case Choice():
                return _choice(shape)
            case Array(items=items, unique=unique):
                return _array(self._write(items), unique=unique)
            case FixedArray(items=fixed):
                return _fixed_array([self._write(item) for item in fixed])
            case Dictionary():
                return self._dictionary(shape)
            case AnyOf():
                return self._any_of(shape)
            case Refined():
                return self._refined(shape)
            case Record() | Alias() | Foreign():
                return self._named(shape)
            case _:
                assert_never(shape)

    def _named(self, shape: _Named) -> Schema:
        reference = self._references.get(shape)
        if reference is None:
            return self._content(shape)
        if shape is self._unwritten_root and reference == "#":
            self._unwritten_root = Anything()
            return self._content(shape)
        name = reference.rpartition("/")[2]
        if reference != "#" and not self._definitions[name]:
            self._definitions[name] = {"type": "object"}  # not empty, while it is being written
            self._definitions[name] = self._content(shape)
        return {"$ref": reference}

    def _content(self, shape: _Named) -> Schema:
        match shape:
            case Record():
                return self._record(shape)
            case Alias(target=target):
                return self._write(target)
            case Foreign():
                return self._foreign(shape, is_root=shape is self._unwritten_root)
            case _:
                assert_never(shape)

    def _record(self, record: Record) -> Schema:
        schema: Schema = {"type": "object"}
        if record.description:
            schema["description"] = record.description
        if record.members:
            schema["properties"] = {member.name: self._member(member) for member in record.members}
        required = [member.name for member in record.members if member.required]
        if required:
            schema["required"] = required
        if record.extra is not None:
            schema["additionalProperties"] = self._write(record.extra) or True
        elif record.closed:
            schema["additionalProperties"] = False
        return schema

    def _member(self, member: Member) -> Schema:
        schema = self._write(member.shape)
        if member.default is ABSENT or "const" in schema:
            return schema
        try:
            return {**schema, "default": encoder(member.shape)(member.default)}
        except InvalidValue:  # a default that JSON cannot show is used all the same
            return schema

    def _dictionary(self, shape: Dictionary) -> Schema:
        schema: Schema = {"type": "object"}
        names = {"pattern": INTEGER_NAME} if "integer" in kinds(shape.keys) else self._write(shape.keys)
        names.pop("type", None)  # names are always strings
        if names:
            schema["propertyNames"] = names
        if values := self._write(shape.values):
            schema["additionalProperties"] = values
        return schema

    def _any_of(self, union: AnyOf) -> Schema:
        schema = _folded([self._write(branch) for branch in union.branches])
        records = records_only(branches_of_kind(union, "object"))
        if records is not None and len(records) > 1:
            tag = find_tag(records)
            if tag is not None and not tag.in_all:
                schema["required"] = [tag.name]
        return schema

    def _refined(self, shape: Refined) -> Schema:
        schema = self._write(shape.inner)
        try:
            keywords: Schema = to_json(shape.keywords)
            if shape.examples:
                keywords["examples"] = [encoder(shape.inner)(example) for example in shape.examples]
        except InvalidValue as error:
            raise UnsupportedHint(f"a keyword or example is wrong: {error}") from error
        # Both limits hold where one is given twice.
        twice = {
            keyword: keywords.pop(keyword)
            for keyword in ASSERTIONS
            if keyword in schema and keyword in keywords and schema[keyword] != keywords[keyword]
        }
        if twice:
            keywords["allOf"] = [*schema.get("allOf", []), twice, *keywords.get("allOf", [])]
        return {**schema, **keywords}

    def _foreign(self, shape: Foreign, *, is_root: bool) -> Schema:
        schema, definitions = shape.type.schema(_REFERENCE)
        if definitions.keys() & self._definitions.keys():
            prefix = _foreign_title(shape)
            schema, definitions = shape.type.schema(_REFERENCE.format(f"{prefix}.{{}}"))
            definitions = {f"{prefix}.{name}": definition for name, definition in definitions.items()}
        own = str(schema.get("$ref", "")).rpartition("/")[2]
        if own in definitions:
            if json.dumps(schema["$ref"]) not in json.dumps(definitions):
                schema = definitions.pop(own)
            elif is_root:
                schema = dict(definitions[own])
        self._definitions.update(definitions)
        return schema


def _foreign_title(shape: Foreign) -> str:
    return re.sub(r"\W+", "_", shape.type.python_type.__name__).strip("_")  # `Box[int]` is a class in pydantic


def _repeated(root: Shape) -> list[_Named]:
    """Return the named shapes that occur again, be it inside themselves, in the order of their appearance."""
    counts: dict[_Named, int] = {}

    def visit(shape: Shape) -> None:
        if isinstance(shape, Record | Alias | Foreign):
            counts[shape] = counts.get(shape, 0) + 1
            if counts[shape] > 1:
                return
        for part in parts(shape):
            visit(part)

    visit(root)
    return [shape for shape, count in counts.items() if count > 1]


def _choice(shape: Choice) -> Schema:
    schema = _options([value for value, _ in shape.options])
    if shape.description:
        schema["description"] = shape.description
    return schema


def _options(options: Sequence[Scalar]) -> Schema:
    of_kinds: dict[Kind | None, dict[object, Scalar]] = {}
    for value in options:
        of_kinds.setdefault(kind_of(value), {})[same_key(value)] = value
    branches = [_options_of_kind(kind, list(values.values())) for kind, values in of_kinds.items()]
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _options_of_kind(kind: Kind | None, values: list[Scalar]) -> Schema:
    if kind == "null":
        return {"type": kind}
    return {"type": kind, "enum": values} if len(values) > 1 else {"type": kind, "const": values[0]}


def _array(items: Schema, *, unique: bool) -> Schema:
    schema: Schema = {"type": "array"}
    if items:
        schema["items"] = items
    if unique:
        schema["uniqueItems"] = True
    return schema


def _fixed_array(items: list[Schema]) -> Schema:
    schema: Schema = {"type": "array"}
    if items and all(item == items[0] for item in items):
        schema.update(_array(items[0], unique=False))
    elif items:
        schema["prefixItems"] = items
    return {**schema, "minItems": len(items), "maxItems": len(items)}


# A union has a branch for each type. A list of types says the same in fewer words, but some readers take a type
# for one word, and then drop the tool or what it says of the type.


def _folded(branches: list[Schema]) -> Schema:
    """Write a union, on one level."""
    flat = [part for branch in branches for part in (branch["anyOf"] if branch.keys() == {"anyOf"} else [branch])]
    different = [branch for at, branch in enumerate(flat) if branch not in flat[:at]]
    if {} in different:
        return {}
    if {"type": "number"} in different and {"type": "integer"} in different:
        different.remove({"type": "integer"})
    return different[0] if len(different) == 1 else _one_enum(different) or {"anyOf": different}


def _one_enum(branches: list[Schema]) -> Schema | None:
    """Write a union of nothing but values as `_options` does; `None` if there is more to it."""
    values: list[Scalar] = []
    for branch in branches:
        match branch:
            case {"type": "null"} if len(branch) == 1:
                values.append(None)
            case {"type": _, "enum": several} if len(branch) == 2:
                values += several
            case {"type": _, "const": one} if len(branch) == 2:
                values.append(one)
            case _:
                return None
    return _options(values)
