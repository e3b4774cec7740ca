"""Which JSON Schemas values are checked against, and how long that may take: a plain subset, found by one walk.

A few lines of schema can ask for more work than there is time: definitions that name each other twice double it
with each step, a definition that names itself twice doubles it with each level of the value. So a schema of
others is used only if, written out with all that it refers to, it is a tree with a bounded number of nodes. A
validator applies no node of such a tree to one part of a value twice: each node is applied by one other, to the
part that this one has, or to those within it, each once. So the time is at most proportional to nodes × parts,
and `SchemaCost.steps` is that product. What takes longer for one node and one part is added there: regular
expressions, by their size for each character; `uniqueItems`, which compares items with items; `multipleOf`, which
divides exact fractions. What looks at the same part again, as `unevaluatedProperties` does, is outside.

The author of a server is trusted: those schemas may refer to themselves, and have what is outside of the subset.
How much more work that makes is not foreseen.
"""

# A step is about 50 nanoseconds of jsonschema-rs. What a keyword costs was measured; where that depends on the
# value, it is what the worst value costs that an attacker can write.

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final, final
from urllib.parse import unquote

import attrs

from .._core._output_schemas import BY_NAME, NESTED
from ._shapes import is_array, is_object

MAX_NODES: Final = 10_000
"""Nodes that a schema may have with all that it refers to, and parts of what it compares values with."""

MAX_PATTERNS: Final = 20_000
"""Places in all regular expressions of a schema together; each takes a kilobyte at worst."""

MAX_BACKTRACKS: Final = 200
"""How often an untrusted regular expression with look-around may backtrack."""

MAX_DEPTH: Final = 100
"""Levels that a schema may nest with all that it refers to. Compilers recurse."""

MAX_TEXT_AT_ONCE: Final = 1024
"""Characters of a text that are counted or compared in one step."""

STEPS_TO_DIVIDE: Final = 3000
"""What it takes at most to divide a number of 63 bits."""

STEPS_OF_LONG: Final = 32
"""What it takes to compare such a number with a longer one, or with a fraction."""

BITS_SQUARED_IN_A_STEP: Final = 4000
"""Longer numbers of a value are compared and divided in time by the square of their length, nearly."""

_SEEN_AT_ONCE: Final = 64
"""Keywords, and texts of an `enum`, that are looked at in the time of one node."""

_OUTSIDE: Final = frozenset({"$dynamicRef", "unevaluatedItems", "unevaluatedProperties"})
_COMPARED: Final = frozenset({"const", "dependentRequired", "enum", "required", "type"})
_BOUNDS: Final = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"})
_MAPS: Final = BY_NAME - {"$defs", "definitions"}

_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""An index of an array in a JSON pointer. Python refuses to read numbers of thousands of digits."""


@final
class UnusableSchema(ValueError):
    """A schema cannot be used to check anything, and why."""


@final
@attrs.define
class SchemaCost:
    """What is known about checking values against a schema.

    Attributes:
        nodes: Steps that one part of a value takes.
        per_character: Steps that each character of its texts takes, of names as well: the size of the regular
            expressions.
        divisions: How often a number is divided.
        keywords: All keywords of the schema.
        backtracks: Whether there are regular expressions that look ahead or back.
    """

    nodes: int = 0
    per_character: int = 0
    divisions: int = 0
    keywords: set[str] = attrs.field(factory=set[str])
    backtracks: bool = False

    def steps(self, value: object, enough: int) -> int:
        """Return how many steps checking a value takes, estimated from above; above `enough` any such number."""
        total = 0
        for part in _parts(value):
            total += self.nodes
            if is_object(part):
                total += sum(map(self._steps_of_text, part))
            elif is_array(part):
                if "uniqueItems" in self.keywords:
                    total += _steps_to_compare(part, enough)
            elif isinstance(part, str):
                total += self._steps_of_text(part)
            elif isinstance(part, int | float):
                total += self.divisions * STEPS_TO_DIVIDE
                if isinstance(part, int) and (bits := part.bit_length()) > 63:
                    total += self.nodes * bits * (bits + 1000) // BITS_SQUARED_IN_A_STEP
            if total > enough:
                break
        return total

    def _steps_of_text(self, text: str) -> int:
        length = len(text)
        times = (length + MAX_BACKTRACKS) // 2 if self.backtracks else 1
        return self.per_character * length * times + self.nodes * (length // MAX_TEXT_AT_ONCE)


def weight_of(value: object, enough: int) -> int:
    """Return about how many bytes a JSON value takes, or more than `enough` if there are more."""
    total = 0
    for part in _parts(value):
        total += 32 + (len(part) if isinstance(part, str) else sum(map(len, part)) if is_object(part) else 0)
        if total > enough:
            break
    return total


def _parts(value: object) -> Iterator[object]:
    """Yield a value and all in it."""
    rest = [value]
    while rest:
        part = rest.pop()
        yield part
        if is_object(part):
            rest += part.values()
        elif is_array(part):
            rest += part


def _steps_to_compare(items: list[Any], enough: int) -> int:
    """Return how many steps it takes at most to look for equal items.

    Arrays, objects and large integers can be made to have equal hashes: they are compared with each other.
    """
    alike = sum(1 for item in items if is_object(item) or is_array(item) or _is_long(item))
    return alike * weight_of(items, 64 * (enough + 1) // alike) // 64 if alike > 1 else 0


def _is_long(item: object) -> bool:
    return isinstance(item, int) and not -(2**53) < item < 2**53


def measure(schema: object, *, is_trusted: bool = False) -> SchemaCost:
    """Look at a schema.

    Raises:
        UnusableSchema: It is outside of the subset; the message begins with the keyword that is the reason.
    """
    walk = _Walk(schema, is_trusted=is_trusted)
    walk.at("$schema", schema)
    return walk.cost


@final
class _Walk:
    def __init__(self, root: object, *, is_trusted: bool) -> None:
        self.cost = SchemaCost()
        self._root = root
        base = root.get("$id") if is_object(root) else None
        self._base = base.removesuffix("#") if isinstance(base, str) else ""
        self._is_trusted = is_trusted
        self._open: set[int] = set()  # the schemas that lead to this one; of a trusted schema all so far
        # A schema may be looked at thousands of times.
        self._target = functools.cache(self._find)
        self._size_of_pattern = functools.cache(size_of_pattern)

    def at(self, keyword: str, schema: object, depth: int = 1) -> None:
        """Look at a subschema that a keyword applies, and at all that it applies."""
        self._count(keyword)
        if depth > MAX_DEPTH:
            raise UnusableSchema(f"{keyword}: with it, there are more than {MAX_DEPTH} levels")
        if id(schema) in self._open:
            self._refuse(keyword, "it leads back to itself")
        elif is_object(schema):
            self._count(keyword, len(schema) // _SEEN_AT_ONCE)
            self._open.add(id(schema))
            self._look(schema)
            for inner_keyword, inner in _applied(schema):
                self.at(inner_keyword, inner, depth + 1)
            if "$ref" in schema:
                self.at("$ref", self._target(str(schema["$ref"])), depth + 1)
            if not self._is_trusted:
                self._open.remove(id(schema))
        elif is_array(schema):  # the names in `dependencies` of draft-07
            self._count_data(keyword, schema)

    def _refuse(self, keyword: str, why: str) -> None:
        if not self._is_trusted:
            raise UnusableSchema(f"{keyword}: {why}")

    def _count(self, keyword: str, count: int = 1) -> None:
        self.cost.nodes += count
        if self.cost.nodes > MAX_NODES:
            raise UnusableSchema(f"{keyword}: with it, there are more than {MAX_NODES} nodes")

    def _count_data(self, keyword: str, data: object) -> None:
        for part in _parts(data):
            self._count(keyword, STEPS_OF_LONG if isinstance(part, float) or _is_long(part) else 1)

    def _check_id(self, schema: object) -> None:
        own = schema.get("$id") if is_object(schema) and schema is not self._root else None
        if isinstance(own, str) and not own.startswith("#"):
            raise UnusableSchema("$id: a subschema has one, to which references in it would be relative")

    def _look(self, schema: dict[str, Any]) -> None:
        """Look at a schema without those that it applies."""
        self.cost.keywords.update(schema)
        for keyword in _OUTSIDE & schema.keys():
            self._refuse(keyword, "it is not evaluated")
        self._check_id(schema)
        for keyword in _COMPARED & schema.keys():
            data = schema[keyword]
            if keyword == "enum" and is_array(data) and all(isinstance(option, str) for option in data):
                self._count(keyword, len(data) // _SEEN_AT_ONCE)  # found by their hashes
            elif not isinstance(data, str):
                self._count_data(keyword, data)
        for keyword in _BOUNDS & schema.keys():
            self._count(keyword, STEPS_OF_LONG * _is_long(schema[keyword]))
        self.cost.divisions += "multipleOf" in schema
        self.cost.per_character += ("contentEncoding" in schema) + ("contentMediaType" in schema)
        named = schema.get("patternProperties")
        for pattern in (schema.get("pattern"), *(named if is_object(named) else ())):
            if isinstance(pattern, str):
                self.cost.per_character += self._size_of_pattern(pattern)
        if self.cost.per_character > MAX_PATTERNS:
            raise UnusableSchema(f"pattern: the regular expressions have more than {MAX_PATTERNS} places")

    def _find(self, reference: str) -> object:
        base, _, fragment = reference.partition("#")
        if base and base != self._base:
            raise UnusableSchema(f"$ref: {reference!r:.100} does not lie in the schema, and is not fetched")
        if fragment and not fragment.startswith("/"):
            self._refuse("$ref", f"{reference!r:.100} is no JSON pointer")
            return True
        target: Any = self._root
        for step in unquote(fragment).split("/")[1:]:
            self._check_id(target)
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(target) and name in target:
                target = target[name]
            elif is_array(target) and _INDEX.fullmatch(name) and int(name) < len(target):
                target = target[int(name)]
            else:
                raise UnusableSchema(f"$ref: there is no {reference!r:.100}")
        return target


def _applied(schema: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the subschemas that a schema applies to something, each with its keyword."""
    for keyword, value in schema.items():
        if keyword in NESTED:
            for inner in value if is_array(value) else (value,):
                yield keyword, inner
        elif keyword in _MAPS and is_object(value):
            for inner in value.values():
                yield keyword, inner


_TOKEN: Final = re.compile(r"\\[pP]\{\w{0,40}\}|\\.|\{[0-9, ]{1,24}\}|.", re.DOTALL)

LEAST_PATTERN: Final = 10
OF_LITERAL: Final = 2
OF_CLASS: Final = 4
OF_UNICODE: Final = 100
"""Places that a character, a class of characters and a property of Unicode have in a compiled pattern."""


def size_of_pattern(pattern: str) -> int:
    """Return how many places a regular expression has when what it repeats is written out, roughly."""
    sizes = [LEAST_PATTERN]  # of the groups that are open
    last = 0  # the size of what a repetition would repeat; not yet in the sum
    is_class = False
    for token in _TOKEN.findall(pattern):
        size = OF_UNICODE if token[:2] in {"\\p", "\\P"} else OF_LITERAL
        if is_class:
            is_class = token != "]"
            last = max(last, size)
        elif token[0] == "{" and len(token) > 1:
            last *= max((int(count) for count in re.findall("[0-9]+", token)), default=1)
            if last > MAX_PATTERNS:  # such numbers are not written out: they would become as long as the pattern
                return last
        elif token in {"*", "+", "?"}:
            last += 1
        elif token == ")" and len(sizes) > 1:
            last += sizes.pop()
        else:
            sizes[-1] += last
            last = 0
            if token == "(":
                sizes.append(1)
            elif token in {"[", "."}:
                is_class = token == "["
                last = OF_CLASS
            else:
                last = size
    return sum(sizes) + last
