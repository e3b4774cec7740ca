"""Validation of values against JSON Schemas that the peer or the user wrote. Nothing is fetched.

A schema is measured (`_schema_cost`) before it is compiled: its references must stay inside it, its size and the
time to check a value against it must be bounded. jsonschema-rs does the checking, or jsonschema where that has no
wheel; neither is imported before the first schema is compiled.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NoReturn, final

from .._codec._json import MAX_PROBLEMS, Problem
from ._schema_cost import MAX_BACKTRACKS, SchemaCost, UnusableSchema, measure, weight_of
from ._shapes import ASSERTIONS, InvalidValue, is_array, is_object, place, shown

Found = tuple[tuple[str | int, ...], str]
"""The members and items that lead to a part of the value, and what is wrong with it."""

# Why a large value does not fit. The libraries make all errors, each with copies of the value and the schema,
# before the first can be read. That is done for small values only. For others, `explain` walks the common
# keywords and stops at the tenth problem or after a bounded number of steps. What it reports is true. If it
# reports nothing, the value does not fit all the same: the library has decided that before.

MAX_STEPS: Final = 50_000
"""Parts of a value that are checked, each against one subschema: some hundredths of a second."""

MAX_REASONS: Final = 3
"""Alternatives whose problem is reported if no alternative fits."""

_KINDS: Final[Mapping[str, tuple[str, type | tuple[type, ...]]]] = {
    "null": ("null", type(None)),
    "boolean": ("a boolean", bool),
    "integer": ("an integer", int),
    "number": ("a number", (int, float)),
    "string": ("a string", str),
    "array": ("an array", list),
    "object": ("an object", dict),
}


class _EnoughError(Exception):
    """Enough problems were found, or enough steps taken."""


class _UnfitError(Exception):
    """The current alternative does not fit; the reason was found."""


def explain(schema: object, value: object, *, is_draft_07: bool) -> list[Found]:
    """Return what is wrong with a value that is known not to fit; perhaps nothing is found.

    Args:
        schema: A valid schema.
        value: Plain JSON.
        is_draft_07: Whether the schema is one of draft-07, or else of 2020-12.
    """
    look = _Look(schema, is_draft_07=is_draft_07)
    with suppress(_EnoughError, RecursionError):
        look.at(schema, value, (), look.found)
    return look.found[:MAX_PROBLEMS]


@final
class _Look:
    def __init__(self, root: object, *, is_draft_07: bool) -> None:
        self.found: list[Found] = []
        self._root = root
        self._is_draft_07 = is_draft_07
        self._steps = 0

    def at(self, schema: object, value: object, path: tuple[str | int, ...], found: list[Found]) -> None:
        """Check a part of the value.

        Args:
            schema: The subschema for it.
            value: The part.
            path: The members and items that lead to it.
            found: The list to which problems are added.
        """
        self._step()
        if schema is False:
            self._add(found, path, "is not allowed here")
        if not is_object(schema):
            return
        reference = schema.get("$ref")
        if reference is not None:
            self.at(self._target(reference), value, path, found)
            if self._is_draft_07:
                return  # the keywords beside it are ignored there
        kinds = schema.get("type")
        if kinds is not None and not _is_of(kinds, value):
            self._add(found, path, f"expected {_named(kinds)}, got {shown(value)}")
            return
        self._look_for_choices(schema, value, path, found)
        for wrong in _misfits(schema, value):
            self._add(found, path, wrong)
        if is_object(value):
            self._look_at_members(schema, value, path, found)
        elif is_array(value):
            self._look_at_items(schema, value, path, found)
        for inner in _several(schema.get("allOf")):
            self.at(inner, value, path, found)
        for keyword in ("anyOf", "oneOf"):
            self._look_at_alternatives(_several(schema.get(keyword)), value, path, found)

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise _EnoughError

    def _add(self, found: list[Found], path: tuple[str | int, ...], reason: str) -> None:
        found.append((path, reason))
        if found is not self.found:
            raise _UnfitError
        if len(self.found) >= MAX_PROBLEMS:
            raise _EnoughError

    def _target(self, reference: object) -> object:
        """Return the target of a pointer from the root; `None` for other references."""
        if reference == "#":
            return self._root
        if not isinstance(reference, str) or not reference.startswith("#/") or "%" in reference:
            return None
        target: Any = self._root
        for step in reference[2:].split("/"):
            self._step()
            if not is_object(target):
                return None
            target = target.get(step.replace("~1", "/").replace("~0", "~"))
        return target

    def _look_for_choices(
        self, schema: dict[str, Any], value: object, path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        if is_array(value) or is_object(value):
            return  # comparing them takes too long
        choices = schema.get("enum")
        if choices is not None:
            self._step(len(choices))
            if not any(_is_same(value, choice) for choice in choices):
                self._add(found, path, f"is none of the values that are allowed, got {shown(value)}")
        if "const" in schema and not _is_same(value, schema["const"]):
            self._add(found, path, f"expected {shown(schema['const'])}, got {shown(value)}")

    def _look_at_members(
        self, schema: dict[str, Any], value: dict[str, Any], path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        for name in _several(schema.get("required")):
            self._step()
            if name not in value:
                self._add(found, path, f"{shown(name)} is missing")
        properties: dict[str, Any] = schema.get("properties") or {}
        for name, inner in properties.items():
            self._step()
            if name in value:
                self.at(inner, value[name], (*path, name), found)
        others = schema.get("additionalProperties", True)
        if others is not True and "patternProperties" not in schema:
            for name, part in value.items():
                self._step()
                if name not in properties:
                    self.at(others, part, (*path, name), found)

    def _look_at_items(
        self, schema: dict[str, Any], value: list[Any], path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        others = schema.get("items", True)
        first = list(_several(others if self._is_draft_07 else schema.get("prefixItems")))
        if is_array(others):
            others = schema.get("additionalItems", True)
        for index, (inner, part) in enumerate(zip(first, value, strict=False)):
            self.at(inner, part, (*path, index), found)
        if others is not True:
            for index in range(len(first), len(value)):
                self.at(others, value[index], (*path, index), found)

    def _look_at_alternatives(
        self, alternatives: Iterable[object], value: object, path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        reasons: list[str] = []
        for alternative in alternatives:
            wrong: list[Found] = []
            try:
                self.at(alternative, value, path, wrong)
            except _UnfitError:
                reasons.append(wrong[0][1])
            else:
                return  # it fits, or no reason was found
        if reasons:
            more = ", ..." if len(reasons) > MAX_REASONS else ""
            listed = ", or ".join(reasons[:MAX_REASONS])
            self._add(found, path, f"fits none of the alternatives: {listed}{more}")


def _several(value: object) -> Iterable[Any]:
    return value if is_array(value) else ()


def _is_of(kinds: object, value: object) -> bool:
    """Whether a value has one of some JSON Schema types."""
    for kind in kinds if is_array(kinds) else (kinds,):
        known = _KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            return True
        if isinstance(value, known[1]) and (kind == "boolean" or not isinstance(value, bool)):
            return True
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return True
    return False


def _named(kinds: Any) -> str:
    return " or ".join(_KINDS[kind][0] for kind in (kinds if is_array(kinds) else (kinds,)))


def _is_same(value: object, other: object) -> bool:
    """Whether two JSON values are equal, of which the first is neither array nor object."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


_BOUNDS: Final = [keyword for keyword in ASSERTIONS if keyword.startswith(("min", "max", "exclusive"))]
"""The assertions that are checked in a moment, whatever the value and the limit are."""


def _misfits(schema: dict[str, Any], value: object) -> Iterable[str]:
    """Yield the bounds that a value breaks."""
    for keyword in _BOUNDS:
        if keyword in schema:
            limit = schema[keyword]
            whole = int(limit) if isinstance(limit, float) and limit.is_integer() else limit
            if (wrong := ASSERTIONS[keyword](whole)(value)) is not None:
                yield wrong


# Validation.

DRAFT_2020_12: Final = "https://json-schema.org/draft/2020-12/schema"
DRAFT_07: Final = "http://json-schema.org/draft-07/schema"

MAX_REASON: Final = 200
"""Characters of a library's message that are kept: it quotes the value."""

MAX_OWN_BYTES: Final = 4 * 1024 * 1024
"""The largest schema of the author of a server, in bytes of JSON."""

MAX_EXPLAINED: Final = 4 * 1024 * 1024
"""Steps multiplied by bytes of value and schema, up to which the libraries may make all errors: each error holds
copies of its part of the value and of the schema.
"""

MAX_EXPLAINED_STEPS: Final = 5_000
"""Steps up to which they may: an error takes them some microseconds."""

MAX_PATTERN_BYTES: Final = 64 * 1024 * 1024
"""The largest compiled regular expression, in bytes; `_schema_cost` has refused larger ones before."""

MAX_PATTERN_STATES: Final = 128 * 1024
"""Bytes of the state that a compiled regular expression may cache."""

NOT_FOUND: Final = "does not fit the schema; in a value of this size it is not looked for where"


class _Engine:
    """A schema that one of the libraries has compiled.

    Attributes:
        max_checks: How many steps it may take: about a second, at worst.
        max_repeated: Steps multiplied by bytes of the value that it may take if alternatives are tried: the
            problems of each are kept, and quote the value.
    """

    max_checks: int
    max_repeated: float
    _validator: Any

    def fits(self, value: object) -> bool:
        """Whether a value fits."""
        return bool(self._validator.is_valid(value))

    def problems(self, value: object) -> list[Found]:
        """Return where a small value does not fit, and why; the first few. All errors are made first.

        Raises:
            ValueError: It cannot be decided whether it fits.
        """
        return [self._found(error) for error in islice(self._validator.iter_errors(value), MAX_PROBLEMS)]

    def _found(self, error: Any) -> Found:
        """Read an error of the library."""
        raise NotImplementedError


@final
class SchemaValidator:
    """A compiled JSON Schema, of 2020-12 unless its ``$schema`` is draft-07.

    Args:
        schema: The schema, plain JSON.
        max_bytes: How large it may be, as JSON.
        is_trusted: Whether its regular expressions are trusted. Untrusted ones need jsonschema-rs, which bounds
            the time that they take.

    Raises:
        UnusableSchema: It is not a schema, refers to something outside, or is too large, too deep or too costly.
    """

    def __init__(self, schema: object, *, max_bytes: int, is_trusted: bool = False) -> None:
        if not (is_object(schema) or isinstance(schema, bool)):
            raise UnusableSchema("a schema is an object or a boolean")
        draft = _draft(schema)
        self._is_draft_07 = draft == DRAFT_07
        try:
            size = len(json.dumps(schema, ensure_ascii=False))
        except (ValueError, TypeError, RecursionError) as error:
            raise UnusableSchema(f"not JSON: {error}") from None
        if size > max_bytes:
            raise UnusableSchema(f"{size} bytes; {max_bytes} are allowed")
        self._schema = schema
        self._size = size
        self._engine, self._cost = _compile(schema, draft, is_trusted=is_trusted)

    def check(self, value: object) -> None:
        """Check a value, plain JSON.

        Raises:
            InvalidValue: It does not fit.
            UnusableSchema: The value is so large, or so deep, that checking it might take for ever.
        """
        steps = self._cost.steps(value, self._engine.max_checks)
        if steps > self._engine.max_checks:
            raise UnusableSchema(f"checking the value might take more than {self._engine.max_checks} steps")
        if self._cost.keywords & {"anyOf", "oneOf"} and self._engine.max_repeated < math.inf:
            most = int(self._engine.max_repeated) // steps
            if weight_of(value, most) > most:
                raise UnusableSchema("checking the value might take too much memory")
        try:
            if self._engine.fits(value):
                return
            found = self._problems(value, steps)
        except (ValueError, RecursionError, OverflowError) as error:
            raise UnusableSchema(f"the value cannot be checked: {error}"[:MAX_REASON]) from None
        raise InvalidValue([_problem(path, reason) for path, reason in found])

    def _problems(self, value: object, steps: int) -> list[Found]:
        """Return why a value does not fit, as far as that can be found in bounded time.

        Raises:
            ValueError: It may even fit.
        """
        if steps <= MAX_EXPLAINED_STEPS:
            most = MAX_EXPLAINED // steps
            if self._size + weight_of(value, most) <= most:
                return self._engine.problems(value)
        found = explain(self._schema, value, is_draft_07=self._is_draft_07)
        if not found and self._cost.backtracks:
            raise ValueError("a regular expression may have been given up")
        return found or [((), NOT_FOUND)]


def _problem(path: Sequence[str | int], reason: str) -> Problem:
    return place(path), reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}…"


def _draft(schema: object) -> str:
    named = schema.get("$schema", DRAFT_2020_12) if is_object(schema) else DRAFT_2020_12
    if not isinstance(named, str) or named.removesuffix("#") not in {DRAFT_2020_12, DRAFT_07}:
        raise UnusableSchema(f"$schema is {named!r:.100}; 2020-12 and draft-07 are known")
    return named.removesuffix("#")


def _compile(schema: object, draft: str, *, is_trusted: bool) -> tuple[_Engine, SchemaCost]:
    cost = measure(schema, is_trusted=is_trusted)
    has_patterns = cost.keywords & {"pattern", "patternProperties"}
    try:
        library: Any = importlib.import_module("jsonschema_rs")
    except ModuleNotFoundError:
        if has_patterns and not is_trusted:
            raise UnusableSchema(
                "pattern: install jsonschema-rs, without which untrusted regular expressions are not evaluated"
            ) from None
        return _Slow(schema, draft), cost
    if has_patterns:
        try:
            return _Fast(library, schema, library.RegexOptions(MAX_PATTERN_BYTES, MAX_PATTERN_STATES)), cost
        except UnusableSchema:  # perhaps because of a look-ahead or look-behind, which this engine does not have
            cost.backtracks = True
    limit = None if is_trusted else MAX_BACKTRACKS
    patterns = library.FancyRegexOptions(limit, MAX_PATTERN_BYTES, MAX_PATTERN_STATES)
    return _Fast(library, schema, patterns), cost


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


@final
class _Fast(_Engine):
    """jsonschema-rs."""

    max_checks = 20_000_000
    max_repeated = math.inf

    def __init__(self, library: Any, schema: object, patterns: object) -> None:
        try:
            # `format` asserts nothing in 2020-12. In draft-07 it may; it does not in the other library.
            self._validator = library.validator_for(
                schema, retriever=_refuse, pattern_options=patterns, validate_formats=False
            )
        except (ValueError, RecursionError) as error:  # its ValidationError is a ValueError
            raise UnusableSchema(_first_line(error)) from None

    def _found(self, error: Any) -> Found:
        if type(error.kind).__name__ in {"BacktrackLimitExceeded", "RegexEngineFailure"}:
            raise ValueError("a regular expression takes too long")
        return tuple(error.instance_path), _first_line(error.message)


@final
class _Slow(_Engine):
    """jsonschema."""

    max_checks = 100_000
    max_repeated = 2.0**28

    def __init__(self, schema: object, draft: str) -> None:
        library: Any = importlib.import_module("jsonschema")
        referencing: Any = importlib.import_module("referencing")
        make = library.Draft7Validator if draft == DRAFT_07 else library.Draft202012Validator
        try:
            make.check_schema(schema)
        except library.SchemaError as error:
            raise UnusableSchema(_first_line(error)) from None
        except RecursionError:
            raise UnusableSchema("it nests too deep") from None
        self._validator = make(schema, registry=referencing.Registry())

    def _found(self, error: Any) -> Found:
        return tuple(error.absolute_path), _first_line(error.message)


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0]


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Compile a schema that the author of a server has written.

    Returns:
        A function that raises `InvalidValue` for a JSON value which does not fit.

    Raises:
        UnusableSchema: It is not a valid schema, or refers to something outside itself.
    """
    return SchemaValidator(dict(schema), max_bytes=MAX_OWN_BYTES, is_trusted=True).check
