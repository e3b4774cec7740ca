"""Python functions and types, read once, for calls with JSON: schemas, arguments, results.

`inspect_callable` reads a function's signature and docstring into a `CallSpec`, `JsonType` is one type. Arguments
come as JSON, as strings (of prompts) or as the variables of URIs. Nothing here calls the function or knows of
servers; hints are read, schemas written and values converted by the modules beside this one.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast, final

import attrs
import typing_extensions
from typing_extensions import is_protocol, is_typeddict

from .._absent import ABSENT
from .._codec import _json
from .._printable import shown
from ._decode import Decoder, decoder
from ._docstrings import parse_docstring
from ._encode import Encoder, encoder, result_encoder, showing_encoder
from ._generate import Schema, schema_of, without_references
from ._hints import ENDLESS, Direction, HintReader, described, read_hint, refuse_ambiguous
from ._lenient import has_foreign_class, read_leniently
from ._members import UNRESOLVED, MemberHint, UnsupportedHint, in_own_terms, unresolved
from ._shapes import (
    AnyOf,
    Anything,
    Array,
    Choice,
    FixedArray,
    Foreign,
    InvalidValue,
    Member,
    Plain,
    Problems,
    Record,
    Scalar,
    Shape,
    core,
    expected,
    kinds,
    noun,
    problem,
)

HintTest: TypeAlias = Callable[[Any], bool]
"""Tests a hint. A parameter's annotation is tested as it is, and then without `Annotated`."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_ONLY
_UNSTRUCTURED: Final = (
    inspect.Signature.empty,
    None,
    types.NoneType,
    str,
    Any,
    object,
    typing.NoReturn,
    typing.Never,
)

_EXACT: Final[Mapping[str, type]] = MappingProxyType({"integer": int, "boolean": bool})
_LONG: Final = 1 << 64
"""Integers beyond this are looked at before they are written."""
"""The types whose values are their own JSON, by the kind of the shape; subclasses may not be."""


@final
@attrs.frozen(kw_only=True)
class CallSpec:
    """How a function is called with JSON.

    Attributes:
        name: The function's own name.
        description: Its docstring without the sections, or `None`.
        input_schema: An object schema of its parameters. Do not change it.
        output_schema: The schema of its result as it is, which need not be an object; `None` if its result is
            not structured. Do not change it.
        is_async: Whether calling it gives an awaitable.
        injected: The parameters that its caller provides, by name, with their hints.
    """

    name: str
    description: str | None
    input_schema: Schema
    output_schema: Schema | None
    is_async: bool
    injected: Mapping[str, Any]
    _decode: Decoder = attrs.field(alias="decode", repr=False)
    _encode: Encoder | None = attrs.field(alias="encode", repr=False)
    _show: Encoder | None = attrs.field(alias="show", default=None, repr=False)
    # Values of this type are their own JSON.
    _exact: type | None = attrs.field(alias="exact", default=None, repr=False)
    # Names and defaults of the parameters that only take positional arguments.
    _positional: tuple[tuple[str, Any], ...] = attrs.field(alias="positional", repr=False)
    _members: tuple[Member, ...] = attrs.field(alias="members", default=(), repr=False)
    _returns: Any = attrs.field(alias="returns", default=inspect.Signature.empty, repr=False)
    # What makes the defaults that Python does not know, by parameter.
    _made: Mapping[str, Callable[[], Any]] = attrs.field(alias="made", default=_NOTHING, repr=False)
    # What `isinstance` takes; `None` for anything.
    _classes: Any = attrs.field(alias="classes", default=None, repr=False)

    def without_references(self) -> CallSpec:
        """Return it with schemas that are written out.

        Raises:
            TypeError: A class contains itself.
        """
        returned = _bare(self._returns)
        output = self.output_schema
        try:
            return attrs.evolve(
                self,
                input_schema=without_references(self.input_schema, self.name),
                output_schema=output
                and without_references(output, getattr(returned, "__name__", repr(returned))),
            )
        except UnsupportedHint as error:
            raise TypeError(f"{self.name}(): {error}") from error

    def decode(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Convert the arguments of a call, and do no more: `arrange` does the rest.

        Args:
            arguments: The members of the JSON object, by their names in the schema.

        Raises:
            InvalidValue: The arguments do not fit the schema. The paths begin with the argument's name.
        """
        values: dict[str, Any] = self._decode(arguments if isinstance(arguments, dict) else dict(arguments))
        return values

    def decode_leniently(
        self, arguments: Mapping[str, object], most: int, *, leaves_out: bool
    ) -> tuple[dict[str, Any], list[str]] | None:
        """Convert the arguments of a call as they were probably meant, where `decode` has refused them.

        Args:
            arguments: The members of the JSON object.
            most: How many bytes of memory the JSON in strings may take.
            leaves_out: Whether members that the schema does not know are left out if nothing fits with them.

        Returns:
            What `decode` returns, and the names that were left out. None if they were meant as they are.

        Raises:
            InvalidValue: As `decode`.
        """
        left_out: list[str] = []
        read = read_leniently(arguments, self.input_schema, most, None, ())
        if read is not arguments:
            try:
                return self.decode(read), left_out
            except InvalidValue:
                if not leaves_out:
                    raise
        elif not leaves_out:
            return None
        del read  # not to be kept beside what is read again
        strict = {member.name for member in self._members if has_foreign_class(member.shape)}
        read = read_leniently(arguments, self.input_schema, most, left_out, strict)
        return None if read is arguments else (self.decode(read), left_out)

    def decode_strings(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Convert the arguments of a call that a person wrote: text, or JSON where a parameter takes no text.

        Raises:
            InvalidValue: As `decode`.
        """
        shapes = {member.name: member.shape for member in self._members}
        values: dict[str, Any] = {}
        problems = Problems()
        for name, text in arguments.items():
            try:
                # The decoder refuses unknown names.
                values[name] = _from_string(shapes[name], text) if name in shapes else text
            except InvalidValue as error:
                problems.add(name, error)
        problems.raise_any()
        return self.decode(values)

    def decode_variables(self, found: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
        """Convert the arguments of a call that are variables of a URI, decoded: each a text or a list of texts.

        Raises:
            InvalidValue: As `decode`.
        """
        shapes = {member.name: member.shape for member in self._members}
        return self.decode(
            {name: _from_variable(shapes[name], text) if name in shapes else text for name, text in found.items()}
        )

    def arguments_as_strings(self) -> tuple[StringArgument, ...]:
        """Return the parameters, without the injected ones, for callers that can only send text."""
        return tuple(map(_described_as_text, self._members))

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, object] = _NOTHING
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return converted arguments as positional and keyword arguments, which may be `values` itself."""
        if injected:
            values.update(injected)
        if self._made:
            values.update({name: make() for name, make in self._made.items() if name not in values})
        if not self._positional:
            return (), values
        positional = [
            values.pop(name) if default is inspect.Parameter.empty else values.pop(name, default)
            for name, default in self._positional
        ]
        return tuple(positional), values

    def encode_result(self, result: Any) -> Any:
        """Convert what the function returned to plain JSON that fits `output_schema`.

        Raises:
            InvalidValue: It does not fit what the function is annotated with.
            TypeError: The function's result is not structured.
        """
        kind: type = result.__class__
        if kind is self._exact and -_LONG < result < _LONG:
            return result
        if self._encode is None:
            raise TypeError(f"{self.name}() has no output schema")
        return self._encode(result)

    def show_result(self, result: Any) -> Any:
        """Convert what the function returned to plain JSON that need not fit `output_schema`, to be read as text.

        No more of it is disclosed than by `encode_result`.

        Raises:
            InvalidValue: It is not what the function is annotated with, or has no form in JSON; or the schema was
                not made from an annotation.
        """
        if self._show is None:
            raise InvalidValue([("", "only the schema says what may be disclosed")])
        return self._show(result)

    def may_return(self, kind: type) -> bool:
        """Whether its return annotation is satisfied by values of a class, as far as classes can tell."""
        return self._classes is None or issubclass(kind, self._classes)

    def check_returned(self, result: object) -> None:
        """Check that what the function returned is of the class that its annotation says.

        This is for results without a schema. It does not look into lists and other containers.

        Raises:
            InvalidValue: It is not.
        """
        if not self.may_return(result.__class__):
            said = inspect.formatannotation(self._returns).replace("NoneType", "None")
            raise problem(f"{self.name}() returned {shown(result):.60}, and is annotated with -> {said}")


_INSTEAD: Final[Mapping[Any, Any]] = MappingProxyType(
    {int: Integral, float: Real, bytes: bytes | bytearray, list: list | tuple, tuple: list | tuple, dict: Mapping}
)
"""Which classes do as well, by the one that an annotation names."""


def _classes_of(hint: Any) -> Any:
    """Return what `isinstance` takes for an annotation; `None` where anything will do, or no class tells."""
    bare = _bare(hint)
    origin = typing.get_origin(bare)
    if origin in {typing.Union, types.UnionType}:
        branches = tuple(map(_classes_of, typing.get_args(bare)))
        return None if None in branches else branches
    named = types.NoneType if bare is None else origin if origin in _INSTEAD else bare
    if not isinstance(named, type) or named is object or is_typeddict(named) or is_protocol(named):
        return None
    # Nothing, or `Any`; and what a prompt iterates over is read before it is looked at.
    return None if named.__module__ in {"inspect", "typing", "collections.abc"} else _INSTEAD.get(named, named)


def _show(shape: Shape, result: object) -> Any:
    """Compile only when it is needed, which is seldom."""
    return showing_encoder(shape)(result)


def is_unstructured(hint: Any) -> bool:
    """Whether a return annotation promises nothing that a schema could say: none, `None`, `str`, `Any`."""
    return any(hint is nothing for nothing in _UNSTRUCTURED)


def _never(_hint: Any) -> bool:
    return False


def inspect_callable(
    function: Callable[..., object],
    *,
    injected: HintTest = _never,
    unstructured: HintTest = is_unstructured,
    aside: HintTest = _never,
) -> CallSpec:
    """Read a function's signature, hints and docstring.

    Parameters that a `functools.partial` has bound by name are not part of it. ``**kwargs`` lets unknown members
    in.

    Args:
        function: A function, bound method, `functools.partial`, or object with ``__call__``.
        injected: Whether a parameter with this hint, or with a union that contains it, is provided by the
            caller, and therefore not in the schema.
        unstructured: Whether results with this return annotation have no output schema; called with
            `inspect.Signature.empty` if there is no annotation.
        aside: Whether results of this type are for the caller alone; in a union with others it is ignored.

    Raises:
        TypeError: A hint has no form in JSON or cannot be resolved, or the function takes ``*args``. The message
            names the function, the parameter and the hint.
    """
    plain, bound = _without_partials(function)
    name = getattr(plain, "__name__", type(plain).__name__)
    try:
        return _Reader(function, plain, bound, name).spec(injected, unstructured, aside)
    except UnsupportedHint as error:
        raise TypeError(f"{name}(): {error}") from error
    except RecursionError:
        raise TypeError(f"{name}(): {ENDLESS}") from None


@final
class _Reader:
    """Reads one function."""

    def __init__(self, function: Any, plain: Any, bound: frozenset[str], name: str) -> None:
        if isinstance(plain, type):
            raise UnsupportedHint("it is a class; give a function that makes the object")
        self._name = name
        self._plain = plain
        self._bound = bound
        self._function = function
        # The object itself, or the method of its class, has the annotations and the docstring.
        is_function = inspect.isroutine(plain) or hasattr(plain, "__wrapped__")
        self._annotated = plain if is_function else type(plain).__call__
        text = self._annotated.__doc__ or (None if is_function else type(plain).__doc__)
        self._docstring = parse_docstring(text)
        self._made: dict[str, Callable[[], Any]] = {}

    def spec(self, injected: HintTest, unstructured: HintTest, aside: HintTest) -> CallSpec:
        try:
            signature = inspect.signature(self._function)
        except ValueError as error:
            raise UnsupportedHint(f"its signature cannot be read: {error}") from error
        hints = self._hints()
        parameters = {name: found for name, found in signature.parameters.items() if name not in self._bound}
        provided = {
            name: hints[name] for name in parameters if name in hints and _is_injected(hints[name], injected)
        }
        record = self._record(parameters.values(), hints, provided)
        returned = _without(hints.get("return", inspect.Signature.empty), aside)
        output = None
        if not unstructured(_bare(returned)):
            try:
                output = described(read_hint(returned, "output"), self._docstring.returns)
            except UnsupportedHint as error:
                raise UnsupportedHint(f"return value: {error}") from error
        return CallSpec(
            name=self._name,
            description=self._docstring.summary or None,
            # Some clients need `properties`, even if there are none.
            input_schema={"type": "object", "properties": dict[str, Any](), **schema_of(record)},
            output_schema=None if output is None else schema_of(output),
            is_async=_is_async(self._function),
            injected=MappingProxyType(provided),
            decode=decoder(record),
            encode=None if output is None else result_encoder(output),
            show=None if output is None else functools.partial(_show, output),
            exact=_EXACT.get(output.kind) if isinstance(output, Plain) else None,
            positional=tuple(
                (name, found.default) for name, found in parameters.items() if found.kind is _POSITIONAL
            ),
            members=record.members,
            made=self._made,
            returns=returned,
            classes=_classes_of(returned),
        )

    def _hints(self) -> dict[str, Any]:
        try:
            return typing_extensions.get_type_hints(self._annotated, include_extras=True)
        except UNRESOLVED as error:
            raise UnsupportedHint(unresolved(error)) from error

    def _record(
        self, parameters: Collection[inspect.Parameter], hints: Mapping[str, Any], provided: Mapping[str, Any]
    ) -> Record:
        reader = HintReader("input")
        record = Record(self._name, dict, dict, closed=True)
        members: list[tuple[MemberHint, str | None]] = []
        for found in parameters:
            hint = hints.get(found.name, Any)
            if found.kind is inspect.Parameter.VAR_POSITIONAL:
                raise UnsupportedHint(
                    f"*{found.name} has no place in a JSON object; list the parameters one by one, "
                    "and if this is a decorator's, use functools.wraps"
                )
            if found.kind is inspect.Parameter.VAR_KEYWORD:
                record.extra = reader.read_at(f"parameter {found.name!r}", hint)
            elif found.name not in provided:
                member = self._member(found, hint)
                members.append((member, self._docstring.arguments.get(found.name)))
        record.members = reader.read_members(members, "parameter {!r}")
        # **kwargs must not reach other parameters under their Python names: renamed, injected or bound ones.
        record.reserved = self._bound | inspect.signature(self._plain).parameters.keys()
        refuse_ambiguous(record)
        return record

    def _member(self, found: inspect.Parameter, hint: Any) -> MemberHint:
        given = ABSENT if found.default is inspect.Parameter.empty else found.default
        try:
            hint, default, make = in_own_terms(hint, given)
        except UnsupportedHint as error:
            raise UnsupportedHint(f"parameter {found.name!r}: {error}") from error
        if make is not None:
            self._made[found.name] = make
        optional = make is not None or default is not ABSENT
        return MemberHint(found.name, found.name, hint, optional=optional, default=default)


def _without_partials(function: Any) -> tuple[Any, frozenset[str]]:
    """Return the function below any `functools.partial`, and the names they have bound."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = cast("Any", function.func)
    return function, frozenset(bound)


def _is_injected(hint: Any, injected: HintTest) -> bool:
    if injected(hint):
        return True
    bare = _bare(hint)
    if typing.get_origin(bare) in {typing.Union, types.UnionType}:
        return any(_is_injected(branch, injected) for branch in typing.get_args(bare))
    return bare is not hint and injected(bare)


def _without(hint: Any, aside: HintTest) -> Any:
    """Return a hint without the branches that are ignored."""
    bare = _bare(hint)
    if typing.get_origin(bare) in {typing.Union, types.UnionType}:
        branches = tuple(branch for branch in typing.get_args(bare) if not aside(_bare(branch)))
        return hint if len(branches) == len(typing.get_args(bare)) else typing.Union[branches]  # noqa: UP007
    return inspect.Signature.empty if aside(bare) else hint


def _is_async(function: Any) -> bool:
    function, _ = _without_partials(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _bare(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


# Arguments that are text.
#
# Two callers have only text to give, and mean different things by it. Arguments of prompts are written by
# people: a parameter that takes text gets it as it is, any other is written in JSON (``5``, ``["a", "b"]``), and
# where both would do, text comes first. Variables of URIs are never JSON: text that looks like a number or a
# truth value becomes one if the parameter allows it, even if it allows text, too; a list has a text for each
# item.

# Arguments of tools are JSON, but some clients write them as text in a form, and some models write an array or an
# object into a string. That is read where nothing else could be meant: the schema takes no string there. It is
# done once decoding has failed, so arguments that are as they must be cost nothing.

_STRING: Final = frozenset({"string"})

# One spelling for each number, and no more digits than Python reads quickly.
_NUMBERS: Final[Mapping[str, tuple[re.Pattern[str], Callable[[str], object]]]] = {
    "integer": (re.compile(r"0|-?[1-9][0-9]{0,99}"), int),
    "number": (re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?"), float),
    "boolean": (re.compile(r"true|false"), "true".__eq__),
}


@final
@attrs.frozen
class StringArgument:
    """A parameter, for callers that can only send text.

    Attributes:
        name: Its name in JSON.
        schema: The schema of its value, by itself. Do not change it.
        required: Whether it must be given.
        choices: All texts it can be, if it can be only a few; else empty.
        kinds: The kinds of JSON value it accepts; none if its type does not say.
        is_json: Whether it takes nothing but arrays and objects, so that only JSON will do.
    """

    name: str
    schema: Schema
    required: bool
    choices: tuple[str, ...]
    kinds: frozenset[str]
    is_json: bool


def _described_as_text(member: Member) -> StringArgument:
    return StringArgument(
        name=member.name,
        schema=schema_of(member.shape),
        required=member.required,
        choices=tuple(dict.fromkeys(_choices(member.shape) or ())),
        kinds=frozenset[str]().union(*map(_kinds, _branches(member.shape))),
        is_json=kinds(member.shape) <= {"array", "object", "null"},
    )


def _choices(shape: Shape) -> Sequence[str] | None:
    """Return what may be written for a value that is one of a few, without null; `None` if there is more."""
    found: list[str] = []
    for branch in _branches(shape):
        match branch:
            case Choice(options=options):
                found += [_written(value) for value, _ in options if value is not None]
            case Plain(kind="boolean"):
                found += ["true", "false"]
            case Plain(kind="null"):
                pass
            case _:
                return None
    return found


def _branches(shape: Shape) -> list[Shape]:
    """Return the branches of a union, in order, without remarks and aliases; of any other shape itself."""
    shape = core(shape)
    if isinstance(shape, AnyOf):
        return [inner for branch in shape.branches for inner in _branches(branch)]
    return [shape]


def _written(value: Scalar) -> str:
    return value if isinstance(value, str) else _json.encode(value).decode()


def _from_string(shape: Shape, text: str) -> Any:
    """Return plain JSON for an argument that a person wrote.

    Raises:
        InvalidValue: The text is not the JSON that the parameter needs.
    """
    possible = kinds(shape)
    if possible == _STRING or (possible >= _STRING and _fits(shape, text)):
        return text
    try:
        return _json.decode(text.encode())
    except (ValueError, RecursionError):
        if possible >= _STRING:
            return text  # the decoder says what is wrong with it
    if possible <= {"array", "object", "null"}:
        raise problem(f"expected {noun(shape)}, written in JSON")
    raise expected(noun(shape), text)


def _fits(shape: Shape, text: str) -> bool:
    try:
        decoder(shape)(text)
    except InvalidValue:
        return False
    return True


def _from_variable(shape: Shape, found: str | Sequence[str]) -> object:
    """Return plain JSON for a variable of a URI, or for the texts of a list."""
    branches = _branches(shape)
    if not isinstance(found, str):
        return [_from_variable(_item(branches, n), text) for n, text in enumerate(found)]
    for branch in branches:
        if isinstance(branch, Choice):
            for value, _ in branch.options:
                if value is not None and _written(value) == found:
                    return value
            continue
        for kind, (pattern, read) in _NUMBERS.items():
            if kind in _kinds(branch) and pattern.fullmatch(found) is not None:
                return read(found)
    return found


def _kinds(branch: Shape) -> frozenset[str]:
    """Return the kinds that a shape promises: a class of pydantic or msgspec in its schema, any value none."""
    if isinstance(branch, Foreign):
        kind: str | Sequence[str] = schema_of(branch).get("type", ())
        return frozenset((kind,) if isinstance(kind, str) else kind)
    if isinstance(branch, Plain):
        return frozenset((branch.kind,))
    return frozenset() if isinstance(branch, Anything) else kinds(branch)


def _item(branches: Sequence[Shape], index: int) -> Shape:
    """Return the shape of one item of a list."""
    for branch in branches:
        if isinstance(branch, Array):
            return branch.items
        if isinstance(branch, FixedArray):
            return branch.items[index] if index < len(branch.items) else Anything()
    return Anything()


@final
class JsonType:
    """A type hint, compiled. Compile once, use often.

    Args:
        hint: Anything that a parameter can be annotated with: scalars, dates, enumerations, collections, unions,
            attrs classes, dataclasses, `TypedDict`, `NamedTuple`, pydantic models, msgspec structs, and
            `Annotated` with `Field`.
        direction: `input` if others send values to this program: members with a default may be left out,
            unknown members are refused. `output` if this program sends them, or reads what such a program sent:
            all members are there, unknown ones are ignored.
        description: What the schema says about the value, unless `Annotated` says it.

    Attributes:
        schema: The JSON Schema (2020-12). Do not change it. References in it begin at its own root (``#`` for a
            class that contains itself, ``#/$defs/...``), so it cannot be put inside another schema as it is.

    Raises:
        TypeError: The hint has no form in JSON.
    """

    def __init__(self, hint: Any, *, direction: Direction = "input", description: str | None = None) -> None:
        shape = described(read_hint(hint, direction), description)
        self.schema: Final = schema_of(shape)
        self._decode = decoder(shape)
        self._encode = encoder(shape)

    def decode(self, value: object) -> Any:
        """Convert plain JSON to the Python value, strictly.

        Raises:
            InvalidValue: The value does not fit. All problems are named at once, at most 10.
        """
        return self._decode(value)

    def encode(self, value: Any) -> Any:
        """Convert a Python value to plain JSON that fits the schema.

        Raises:
            InvalidValue: The value is not of the type, or contains NaN or an infinity.
        """
        return self._encode(value)
