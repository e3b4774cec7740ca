"""Classes with named members (attrs, dataclasses, `TypedDict`, `NamedTuple`), and the metadata in `Annotated`.

Type variables of generic classes are filled in. Metadata (`Field`, text, raw keywords, bounds of other libraries)
is read by its attributes, so that annotated-types, msgspec and pydantic are understood without being imported;
nor are they for their classes, which bring their own schema and conversion, in strict mode. What a hint means in
JSON is decided in `_hints`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast, final

import attrs
import typing_extensions

from .._absent import ABSENT, Absent
from .._codec._json import Problem
from .._core._http1 import HEADER_KEYWORD
from .._core._output_schemas import with_changed_subschemas
from ._docstrings import parse_docstring
from ._shapes import ForeignType, InvalidValue, place, problem

UNRESOLVED: Final = (AttributeError, NameError, SyntaxError, TypeError)
"""What evaluating a hint that was written as text may raise."""

_PLAIN_FACTORIES: Final[frozenset[object]] = frozenset({list, dict, set, frozenset, tuple})
"""Factories whose result is known without calling them. Others (`uuid4`, `datetime.now`) differ each time."""

_QUALIFIERS: Final[frozenset[object]] = frozenset(
    # typing has `ReadOnly` from Python 3.13 on.
    {typing.Required, typing.NotRequired, typing_extensions.ReadOnly, getattr(typing, "ReadOnly", None)} - {None}
)


class UnsupportedHint(TypeError):
    """A hint has no form in JSON. The message names the hint and the way to it."""


@final
@attrs.frozen
class MemberHint:
    """One member of a class.

    Attributes:
        attribute: Its name on objects, or its key in a `TypedDict`.
        argument: What the constructor calls it; `None` if it is not given to the constructor.
        hint: Its type.
        optional: Whether it may be left out when an object is built.
        always: Whether every object has it.
        default: Its default, where that is a constant.
    """

    attribute: str
    argument: str | None
    hint: Any
    optional: bool
    always: bool = True
    default: object | Absent = ABSENT


@final
@attrs.frozen
class ClassMembers:
    """A class with named members.

    Attributes:
        build: From the members, as keyword arguments, to the object.
        python_type: The class of the objects.
        members: The members, in the order of the class.
        description: The first paragraph of the class's docstring.
        texts: The descriptions of members in the docstrings of the class and its bases, by attribute.
    """

    build: Callable[..., Any]
    python_type: type
    members: tuple[MemberHint, ...]
    description: str
    texts: Mapping[str, str]


def read_class(cls: Any, arguments: Sequence[Any]) -> ClassMembers | None:
    """Read a class with named members.

    Args:
        cls: The class, without type arguments.
        arguments: Its type arguments, if it is generic.

    Returns:
        Its members, or `None` if it is another kind of class.

    Raises:
        UnsupportedHint: A hint cannot be resolved, or a constructor argument is not a member.
    """
    python_type = build = cls
    if attrs.has(cls):
        if cls.__module__ == "trio_mcp" and getattr(cls, "_is_content", False):
            instead = "return it alone or in a list (-> Any, if there may be something else)"
            raise UnsupportedHint(f"{cls.__name__} is content, not a part of JSON: {instead}")
        if cls.__module__ == "trio_mcp" and any(field.name[0] == "_" for field in attrs.fields(cast("Any", cls))):
            return None  # such as a context
        read = _attrs_members
    elif dataclasses.is_dataclass(cls):
        read = _dataclass_members
    elif typing_extensions.is_typeddict(cls):
        read = _typed_dict_members
        python_type = build = dict
    elif issubclass(cls, tuple) and hasattr(cast("Any", cls), "_fields"):
        read = _named_tuple_members
    else:
        return None
    lineage = list(_lineage(cls, arguments))
    description, texts = _texts(lineage)
    members = tuple(read(cls, _resolved_hints(cls, lineage)))
    return ClassMembers(build, python_type, members, description, texts)


def unresolved(error: Exception) -> str:
    """Return the error message for a hint that cannot be evaluated."""
    if not isinstance(error, NameError):
        return f"a hint cannot be evaluated: {error}"
    return (
        f"a hint names {error.name!r}, which is not defined at run time; "
        "is it imported under TYPE_CHECKING only, or defined inside a function?"
    )


def substitute(hint: Any, values: Mapping[Any, Any]) -> Any:
    """Return the hint with its type variables replaced."""
    if isinstance(hint, TypeVar):
        return values.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not values or not parameters or typing.get_origin(hint) is None:
        return hint
    return hint[tuple(values.get(parameter, parameter) for parameter in parameters)]


def alias_value(alias: Any) -> Any:
    """Return what a ``type`` statement or `TypeAliasType` stands for, with quoted names resolved.

    Raises:
        UnsupportedHint: It names something unknown.
    """
    try:
        holder: Any = types.SimpleNamespace(__annotations__={"value": alias.__value__})
        known = vars(sys.modules[alias.__module__])
        own = {alias.__name__: alias}  # which may be defined inside a function
        return typing_extensions.get_type_hints(holder, known, own, include_extras=True)["value"]
    except UNRESOLVED as error:
        raise UnsupportedHint(f"{alias.__name__}: {unresolved(error)}") from error


def _attrs_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(cls)
    for field in fields:
        default: Any = field.default
        if isinstance(default, cast("type[Any]", attrs.Factory)):  # a class, declared as a function
            default = ABSENT if default.takes_self else _made(default.factory)
        yield MemberHint(
            attribute=field.name,
            argument=field.alias if field.init else None,
            hint=hints.get(field.name, field.type if field.type is not None else Any),
            optional=field.default is not attrs.NOTHING,
            default=ABSENT if default is attrs.NOTHING else default,
        )


def _dataclass_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise UnsupportedHint(f"{cls.__qualname__}.{name} is an InitVar, which objects do not keep")
    for field in dataclasses.fields(cls):
        default: object | Absent = ABSENT
        if field.default is not dataclasses.MISSING:
            # A dataclass of pydantic's keeps its `Field` there, and fills in what that says itself.
            is_known = not (hasattr(cls, "__pydantic_fields__") and isinstance(field.default, _field_classes()))
            default = field.default if is_known else ABSENT
        elif field.default_factory is not dataclasses.MISSING:
            default = _made(field.default_factory)
        yield MemberHint(
            attribute=field.name,
            argument=field.name if field.init else None,
            hint=hints[field.name],
            optional=(
                field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            ),
            default=default,
        )


def _typed_dict_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    required: frozenset[str] = cls.__required_keys__
    for name, hint in hints.items():
        inner, always = hint, name in required
        # Where annotations are strings, __required_keys__ does not know of Required and NotRequired.
        while (qualifier := typing.get_origin(inner)) in _QUALIFIERS:
            if qualifier is typing.Required or qualifier is typing.NotRequired:
                always = qualifier is typing.Required
            inner = typing.get_args(inner)[0]
        yield MemberHint(name, name, inner, optional=not always, always=always)


def _named_tuple_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[MemberHint]:
    defaults: Mapping[str, object] = cls._field_defaults
    for name in cls._fields:
        yield MemberHint(
            attribute=name,
            argument=name,
            hint=hints.get(name, Any),
            optional=name in defaults,
            default=defaults.get(name, ABSENT),
        )


def _made(factory: Callable[[], object]) -> object | Absent:
    plain = typing.get_origin(factory) or factory  # `list[Line]` makes a list
    return factory() if plain in _PLAIN_FACTORIES else ABSENT


def _lineage(cls: Any, arguments: Sequence[Any]) -> Iterator[tuple[type, dict[Any, Any]]]:
    """Yield the class and its bases, bases first, each with the values of its type variables."""
    values = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    # `TypedDict` and `NamedTuple` classes forget their bases except here.
    bases: tuple[Any, ...] = cls.__dict__.get("__orig_bases__", cls.__bases__)
    for base in reversed(bases):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin is not object:
            yield from _lineage(origin, [substitute(part, values) for part in typing.get_args(base)])
    yield cls, values


def _resolved_hints(cls: Any, lineage: list[tuple[type, dict[Any, Any]]]) -> dict[str, Any]:
    try:
        hints = typing_extensions.get_type_hints(cls, include_extras=True)
    except UNRESOLVED as error:
        # Classes that moved to another module after `attrs.resolve_types()` carry their types themselves.
        hints = {field.name: field.type for field in attrs.fields(cls)} if attrs.has(cls) else {}
        if not hints or any(isinstance(hint, str) for hint in hints.values()):
            raise UnsupportedHint(f"{cls.__qualname__}: {unresolved(error)}") from error
    owners: dict[str, dict[Any, Any]] = {}
    for base, values in lineage:
        for name in inspect.get_annotations(base):
            if typing_extensions.is_typeddict(base):
                owners.setdefault(name, values)  # a TypedDict repeats what it inherits
            else:
                owners[name] = values
    return {name: substitute(hint, owners.get(name, {})) for name, hint in hints.items()}


def _texts(lineage: list[tuple[type, dict[Any, Any]]]) -> tuple[str, dict[str, str]]:
    description = ""
    texts: dict[str, str] = {}
    for cls, _ in lineage:
        if cls.__module__ in {"builtins", "typing"}:  # what is below a TypedDict, NamedTuple or Generic
            continue
        written = cls.__dict__.get("__doc__")
        # Dataclasses and named tuples without a docstring are given their signature for one.
        docstring = parse_docstring(
            None if not isinstance(written, str) or written.startswith(f"{cls.__name__}(") else written
        )
        description = docstring.first_paragraph
        texts.update(docstring.arguments)
    return description, texts


BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
"""Attributes of metadata objects that limit a value."""


@final
@attrs.frozen(eq=False, repr=False)
class Field:
    """What to tell about a parameter or attribute, inside `Annotated`.

    Example::

        def reserve(title: str, copies: Annotated[int, Field("How many.", ge=1)] = 1) -> None: ...

    Bounds are stated in the schema and enforced. A bound that does not apply to the type is an error when the
    function is registered.

    Attributes:
        description: One sentence or more for people and models; wins over the docstring.
        name: The name in JSON, where it is not the Python name (``from`` for ``from_``).
        title: A short name to display.
        examples: Values of the annotated type.
        ge: The least value.
        gt: What the value must be greater than.
        le: The greatest value.
        lt: What the value must be less than.
        multiple_of: What the value must be a multiple of; above 0.
        min_length: The least number of characters, items, members or bytes.
        max_length: The greatest number of characters, items, members or bytes.
        header: The name under which HTTP also carries the value, as ``Mcp-Param-<name>``, for proxies that route
            requests without reading them (2026-07-28, server/tools, "x-mcp-header"). Nothing secret; only text,
            whole numbers and booleans.
        pattern: A regular expression to be found in the text, in the part of the syntax that ECMA-262 and
            Python share. `$` matches at the very end only. It runs on whatever a peer sends: beware of
            repetitions inside repetitions.
        keywords: JSON Schema keywords to add to the schema as they are. Those that are assertions on
            numbers and sizes, or `pattern`, are enforced too.
    """

    description: str | None = None
    name: str | None = attrs.field(default=None, kw_only=True)
    title: str | None = attrs.field(default=None, kw_only=True)
    examples: Sequence[object] = attrs.field(default=(), kw_only=True)
    ge: Any = attrs.field(default=None, kw_only=True)
    gt: Any = attrs.field(default=None, kw_only=True)
    le: Any = attrs.field(default=None, kw_only=True)
    lt: Any = attrs.field(default=None, kw_only=True)
    multiple_of: Any = attrs.field(default=None, kw_only=True)
    min_length: int | None = attrs.field(default=None, kw_only=True)
    max_length: int | None = attrs.field(default=None, kw_only=True)
    pattern: str | None = attrs.field(default=None, kw_only=True)
    header: str | None = attrs.field(default=None, kw_only=True)
    keywords: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in attrs.fields(Field))
        return f"Field({', '.join(f'{name}={value!r}' for name, value in given if value not in (None, ()))})"


@final
@attrs.define(eq=False, repr=False)
class Remark:
    """One piece of metadata, read.

    Attributes:
        keywords: JSON Schema keywords: description, title and raw ones.
        bounds: Limits by their names in `BOUNDS`.
        examples: Values of the annotated type.
        name: The name in JSON.
    """

    keywords: dict[str, object] = attrs.field(factory=dict[str, object])
    bounds: dict[str, Any] = attrs.field(factory=dict[str, Any])
    examples: tuple[object, ...] = ()
    name: str | None = None


_MEMBERS_OF_CLASSES: Final = {
    ("dataclasses", "Field"): "dataclasses.field",
    ("msgspec._core", "Field"): "msgspec.field",
    ("attr._make", "_CountingAttr"): "attrs.field",
}
"""What describes a member of a class of theirs, and means nothing elsewhere."""


def misplaced_field(name: str, annotation: str, default: object) -> str | None:
    """Return what to write instead, if the default of a parameter or member is what describes one.

    Args:
        name: The parameter or member.
        annotation: How its type is written.
        default: Its default.
    """
    made_by = _MEMBERS_OF_CLASSES.get((type(default).__module__, type(default).__name__))
    if made_by is not None:
        return f"{made_by}(...) is no default here; write the default itself: {name}: {annotation} = ..."
    if not isinstance(default, _field_classes()):
        return None
    further = _default_in(default)
    after = "" if further is None else f" = {further}"
    return (
        f"Field(...) is no default; write it inside Annotated: {name}: Annotated[{annotation}, Field(...)]{after}"
    )


def _field_classes() -> tuple[type, ...]:
    fields = sys.modules.get("pydantic.fields")
    return (Field,) if fields is None else (Field, fields.FieldInfo)


def _default_in(item: object) -> str | None:
    """Return the default that pydantic's `Field` was given, as it is written; `None` if there is none."""
    if isinstance(item, Field) or not isinstance(item, _field_classes()):
        return None
    info: Any = item
    if info.default_factory is not None:
        return f"{getattr(info.default_factory, '__name__', '...')}()"
    return None if info.is_required() else f"{info.default!r:.40}"


_UNSUPPORTED: Final = (
    "validation_alias", "serialization_alias", "discriminator", "deprecated", "exclude", "exclude_if", "frozen",
    "validate_default", "field_title_generator", "init", "init_var", "kw_only", "repr",
)  # fmt: skip
"""Options of pydantic's `Field` that say nothing about a parameter, or what our `Field` cannot say."""


def in_own_terms(hint: Any, default: object) -> tuple[Any, object, Callable[[], object] | None]:
    """Return what pydantic's `Field` says of a parameter, as its default or inside `Annotated`, as we say it.

    Args:
        hint: Its type.
        default: Its default; `ABSENT` if it has none.

    Returns:
        The hint, with what describes it; its default as far as it is a constant, and what makes the default, if
        Python does not.

    Raises:
        UnsupportedHint: It says something that is not supported.
    """
    base, *remarks = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
    theirs: list[Any] = [item for item in (*remarks, default) if is_field_of_pydantic(item)]
    if not theirs:
        return hint, default, None
    make: Callable[[], object] | None = None
    constant = ABSENT if is_field_of_pydantic(default) else default
    described: list[object] = [item for item in remarks if not is_field_of_pydantic(item)]
    for info in theirs:
        _refuse_unsupported(info)
        keywords, examples = info.json_schema_extra, info.examples or ()
        described += info.metadata
        described.append(
            Field(info.description, name=info.alias, title=info.title, examples=examples, keywords=keywords)
        )
        if (constant is ABSENT or make is not None) and not info.is_required():
            make = partial(info.get_default, call_default_factory=True)
            constant = info.default if info.default_factory is None else _made(info.default_factory)
    return cast("Any", typing.Annotated)[(base, *described)], constant, make


def is_field_of_pydantic(item: object) -> bool:
    """Whether something is what pydantic's `Field` returns."""
    return isinstance(item, _field_classes()) and not isinstance(item, Field)


def _refuse_unsupported(info: Any) -> None:
    plain = type(info)()
    found = [
        name for name in _UNSUPPORTED if getattr(info, name, None) not in (getattr(plain, name, None), info.alias)
    ]
    found += [name for item in info.metadata for name in getattr(item, "__dict__", ()) if name not in BOUNDS]
    if callable(info.json_schema_extra):
        found.append("json_schema_extra")
    if getattr(info, "default_factory_takes_validated_data", None):
        found.append("default_factory")
    if found:
        raise UnsupportedHint(f"Field({found[0]}=...) of pydantic is not supported for a parameter; leave it out")


_MADE_BY_CALLS: Final = {
    ("trio_mcp", "Field"),
    ("trio_mcp", "Depends"),
    ("pydantic", "Field"),
    ("msgspec", "Meta"),
}


def refuse_uncalled(item: object) -> None:
    """Refuse metadata that says nothing, because what makes it was not called.

    Raises:
        UnsupportedHint: It is a class, or a function, that makes metadata.
    """
    root, name = str(getattr(item, "__module__", "")).partition(".")[0], getattr(item, "__name__", None)
    if (root, name) in _MADE_BY_CALLS or (root == "annotated_types" and isinstance(item, type)):
        raise UnsupportedHint(f"{name} inside Annotated is not called; write {name}(...) there")


def read_metadata(metadata: Iterable[object]) -> list[Remark]:
    """Read the metadata of `Annotated`, in order; what is not understood is left out.

    Raises:
        UnsupportedHint: Something was meant otherwise: the error says what to write.
    """
    remarks: list[Remark] = []
    for item in metadata:
        refuse_uncalled(item)
        if isinstance(item, str):
            remarks.append(Remark({"description": item}))
        elif isinstance(item, Mapping):
            remarks.append(Remark(dict(cast("Mapping[str, object]", item))))
        elif not isinstance(item, type):
            if (default := _default_in(item)) is not None:
                raise UnsupportedHint(f"a default belongs after the type: Annotated[..., Field(...)] = {default}")
            remarks.append(_read_object(item))
            # pydantic's FieldInfo keeps its bounds as a list of further metadata.
            further = getattr(item, "metadata", None)
            if isinstance(further, list):
                remarks += read_metadata(cast("list[object]", further))
    return remarks


def _read_object(item: object) -> Remark:
    remark = Remark()
    for source in ("keywords", "json_schema_extra", "extra_json_schema"):  # ours, pydantic's, msgspec's
        extra = getattr(item, source, None)
        if isinstance(extra, Mapping):
            remark.keywords.update(cast("Mapping[str, object]", extra))
    for source, keyword in (("documentation", "description"), ("description", "description"), ("title", "title")):
        text = getattr(item, source, None)
        if isinstance(text, str):
            remark.keywords[keyword] = text
    for bound in BOUNDS:
        limit = getattr(item, bound, None)
        if limit is not None and not callable(limit):
            remark.bounds[bound] = (
                cast("re.Pattern[str]", limit).pattern if isinstance(limit, re.Pattern) else limit
            )
    examples = getattr(item, "examples", None)
    if isinstance(examples, list | tuple):
        remark.examples = tuple(cast("Iterable[object]", examples))
    if isinstance(item, Field):
        remark.name = item.name
        if item.header is not None:
            remark.keywords[HEADER_KEYWORD] = item.header
    elif isinstance(item, _field_classes()):
        remark.name = cast("Any", item).alias
    return remark


_MSGSPEC_PLACE: Final = r" - at `\$\.?(?P<path>[^`]*)`$"


def foreign_type(hint: Any, cls: type, *, output: bool) -> ForeignType | None:
    """Return how a class converts itself, or `None` if it is none of those.

    Args:
        hint: The class, with type arguments if it is generic.
        cls: The class.
        output: Whether the schema is for what the class writes.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(cls, pydantic.BaseModel):
        return _pydantic_type(pydantic, cls, output=output)
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(cls, msgspec.Struct):
        return _msgspec_type(msgspec, hint, cls)
    return None


def _pydantic_type(pydantic: Any, cls: Any, *, output: bool) -> ForeignType:
    mode = "serialization" if output else "validation"

    def schema(reference: str) -> tuple[dict[str, Any], dict[str, Any]]:
        written = cls.model_json_schema(mode=mode, ref_template=reference.format("{model}"))
        definitions = written.pop("$defs", {})
        return _untitled(written, cls.__name__), _all_untitled(definitions)

    def decode(value: Any) -> Any:
        # From text, because only there strict mode takes "2026-07-28" for a date.
        try:
            text = json.dumps(value, allow_nan=False)
        except ValueError:
            raise problem("contains a number that JSON lacks") from None
        try:
            return cls.model_validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            raise InvalidValue(map(_pydantic_problem, error.errors(include_url=False))) from None

    return ForeignType(cls, schema, decode, lambda value: value.model_dump(mode="json", by_alias=True))


def _pydantic_problem(error: Mapping[str, Any]) -> Problem:
    return place(error["loc"]), str(error["msg"])


def _msgspec_type(msgspec: Any, hint: Any, cls: type) -> ForeignType:
    def schema(reference: str) -> tuple[dict[str, Any], dict[str, Any]]:
        (written,), definitions = msgspec.json.schema_components((hint,), ref_template=reference.format("{name}"))
        return written, _all_untitled(definitions)

    def decode(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            text = str(error)
            where = re.search(_MSGSPEC_PLACE, text)
            path = where["path"] if where else ""
            raise InvalidValue([(path, text[: where.start()] if where else text)]) from None

    return ForeignType(cls, schema, decode, msgspec.to_builtins)


def _all_untitled(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _untitled(schema, name) for name, schema in schemas.items()}


def _untitled(schema: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return a schema without the titles that only repeat the name of what they are the title of."""
    kept = with_changed_subschemas(schema, _untitled)
    title = kept.get("title", "")
    if title == name.replace("_", " ").title() or re.sub(r"\W", "_", title) == name:
        kept.pop("title", None)
    return kept
