"""Checking values against JSON Schemas that somebody else wrote.

A schema is looked at before it is compiled: what it refers to must lie in itself, it must be of a size that can
be looked at, and checking a value against it must take a time that can be foreseen. Nothing is ever fetched.

The checking is done by jsonschema-rs, or by jsonschema where that has no wheel; neither is imported before the
first schema is compiled.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol, final

import attrs

from ._explain import Found, explain
from ._plain import is_object
from ._problems import MAX_PROBLEMS, InvalidValue, Problem, place
from ._schema_cost import MAX_BACKTRACKS, SchemaCost, UnusableSchema, measure, weight_of

__all__ = ["SchemaValidator", "UnusableSchema", "compile_schema"]

DRAFT_2020_12: Final = "https://json-schema.org/draft/2020-12/schema"
DRAFT_07: Final = "http://json-schema.org/draft-07/schema"

MAX_REASON: Final = 200
"""Characters of a library's sentence that are passed on: it repeats the value."""

MAX_OWN_BYTES: Final = 4 * 1024 * 1024
"""How large a schema may be that the author of a server has written, as JSON."""

MAX_EXPLAINED: Final = 4 * 1024 * 1024
"""Steps by bytes of value and schema for which the libraries may make all errors there are. Each holds copies of
what it is about and of what was expected.
"""

MAX_EXPLAINED_STEPS: Final = 5_000
"""Steps for which they may: an error takes them some microseconds."""

MAX_PATTERN_BYTES: Final = 64 * 1024 * 1024
"""What one compiled regular expression may weigh; `_schema_cost` has seen to it that it does not."""

MAX_PATTERN_STATES: Final = 128 * 1024
"""Bytes that one may keep of what it has found out about the texts it has seen."""

NOT_FOUND: Final = "does not fit the schema; in a value of this size it is not looked for where"


class _Engine(Protocol):
    """A compiled schema of either library.

    Attributes:
        max_checks: How many steps it may take: about a second, at worst.
        max_repeated: Steps by bytes of the value that it may take where alternatives are tried: what is wrong
            with each is kept, and repeats the value.
    """

    max_checks: int
    max_repeated: float

    def fits(self, value: object, /) -> bool:
        """Whether a value fits."""
        ...

    def problems(self, value: object) -> list[Found]:
        """Return where a small value does not fit, and why; the first few. All errors are made first.

        Raises:
            ValueError: It cannot be said whether it fits.
        """
        ...


@final
class SchemaValidator:
    """A compiled JSON Schema, of 2020-12 unless its ``$schema`` says draft-07.

    Args:
        schema: The schema, plain JSON.
        max_bytes: How large it may be, as JSON.
        is_trusted: Whether its regular expressions are: those of a stranger can take for ever where
            jsonschema-rs, which bounds them, is not installed.

    Raises:
        UnusableSchema: It is no schema, refers to something outside, or is too large, too deep or too costly.
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
        self._engine, self._cost = _compile(schema, draft, measure(schema), is_trusted=is_trusted)

    def check(self, value: object) -> None:
        """Check a value, plain JSON.

        Raises:
            InvalidValue: It does not fit.
            UnusableSchema: The value is so large, or so deep, that checking it might take for ever.
        """
        steps = self._cost.steps(value, self._engine.max_checks)
        if steps > self._engine.max_checks:
            raise UnusableSchema(f"checking the value might take more than {self._engine.max_checks} steps")
        if self._cost.has_alternatives and self._engine.max_repeated < math.inf:
            most = int(self._engine.max_repeated) // steps
            if weight_of(value, most) > most:
                raise UnusableSchema("checking the value might take too much memory")
        try:
            if self._engine.fits(value):
                return
            found = self._problems(value, steps)
        except (ValueError, RecursionError, OverflowError) as error:
            raise UnusableSchema(f"the value cannot be checked: {error}"[:MAX_REASON]) from None
        raise InvalidValue([_told(path, reason) for path, reason in found])

    def _problems(self, value: object, steps: int) -> list[Found]:
        """Return why a value does not fit, as far as that can be said without much work.

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


def _told(path: Sequence[str | int], reason: str) -> Problem:
    return place(path), reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}…"


def _draft(schema: object) -> str:
    named = schema.get("$schema", DRAFT_2020_12) if is_object(schema) else DRAFT_2020_12
    if not isinstance(named, str) or named.removesuffix("#") not in {DRAFT_2020_12, DRAFT_07}:
        raise UnusableSchema(f"$schema is {named!r:.100}; 2020-12 and draft-07 are known")
    return named.removesuffix("#")


def _compile(schema: object, draft: str, cost: SchemaCost, *, is_trusted: bool) -> tuple[_Engine, SchemaCost]:
    try:
        library: Any = importlib.import_module("jsonschema_rs")
    except ModuleNotFoundError:
        if cost.has_patterns and not is_trusted:
            raise UnusableSchema("regular expressions of strangers are not run without jsonschema-rs") from None
        return _Slow(schema, draft), cost
    if cost.has_patterns:
        try:
            return _Fast(library, schema, library.RegexOptions(MAX_PATTERN_BYTES, MAX_PATTERN_STATES)), cost
        except UnusableSchema:  # perhaps because one looks ahead or back, which this engine cannot
            cost = attrs.evolve(cost, backtracks=True)
    limit = None if is_trusted else MAX_BACKTRACKS
    patterns = library.FancyRegexOptions(limit, MAX_PATTERN_BYTES, MAX_PATTERN_STATES)
    return _Fast(library, schema, patterns), cost


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


@final
class _Fast:
    """jsonschema-rs."""

    max_checks = 20_000_000
    max_repeated = math.inf

    def __init__(self, library: Any, schema: object, patterns: object) -> None:
        try:
            # `format` is a remark in 2020-12; in draft-07 it may be one, and is in the other library.
            self._validator = library.validator_for(
                schema, retriever=_refuse, pattern_options=patterns, validate_formats=False
            )
        except (ValueError, RecursionError) as error:  # its ValidationError is a ValueError
            raise UnusableSchema(_first_line(error)) from None

    def fits(self, value: object, /) -> bool:
        """Whether a value fits."""
        return bool(self._validator.is_valid(value))

    def problems(self, value: object) -> list[Found]:
        """Return the first few."""
        found: list[Found] = []
        for error in self._validator.iter_errors(value):
            if type(error.kind).__name__ in {"BacktrackLimitExceeded", "RegexEngineFailure"}:
                raise ValueError("a regular expression takes too long")
            found.append((tuple(error.instance_path), _first_line(error.message)))
            if len(found) == MAX_PROBLEMS:
                break
        return found


@final
class _Slow:
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

    def fits(self, value: object, /) -> bool:
        """Whether a value fits."""
        return bool(self._validator.is_valid(value))

    def problems(self, value: object) -> list[Found]:
        """Return the first few."""
        found: list[Found] = []
        for error in self._validator.iter_errors(value):
            found.append((tuple(error.absolute_path), _first_line(error.message)))
            if len(found) == MAX_PROBLEMS:
                break
        return found


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0]


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Compile a schema that an author of ours has written.

    Returns:
        A function that raises `InvalidValue` for a JSON value which does not fit.

    Raises:
        UnusableSchema: It is not a valid schema, or refers to something outside itself.
    """
    return SchemaValidator(dict(schema), max_bytes=MAX_OWN_BYTES, is_trusted=True).check
