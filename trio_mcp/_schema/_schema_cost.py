"""What checking a value against a JSON Schema may cost, found by reading the schema alone.

A few lines of schema can ask for more work than there is time: definitions that name each other twice double it
with each step, a definition that names itself twice doubles it with each level of the value. Both are seen here,
without compiling anything, in steps that are counted.
"""

# A step is about 50 nanoseconds of jsonschema-rs. What a keyword costs was measured; where that depends on the
# value, it is what the worst value costs that an attacker can write:
#
# * Options of an `enum` that are neither text nor small integers are compared one by one, and so is all of a
#   `const`.
# * `uniqueItems` keeps hashes by which arrays, objects and large integers can be made to collide: those are
#   compared with each other, each with all.
# * `unevaluatedProperties` and `unevaluatedItems` check what is applied to the same value again, with each level
#   of them inside another: by 2.6 for each level, in fact.
# * A regular expression is a set of places, of which each may be visited for each character; one that looks ahead
#   or back may begin anew at each character, too.
# * `multipleOf` divides exact fractions: where the limit or the value is far from 1, of hundreds of digits, and
#   of as many digits as an integer has.
#
# A schema is a graph: each subschema a node, each keyword that applies one schema to something an edge. Some
# apply it to the same value (`allOf`, `$ref`), others to a part of it (`properties`, `items`).
#
# * A cycle of the first kind never ends.
# * Where no cycle can be reached, the cost of a node is one more than that of all it applies.
# * Elsewhere, edges of the second kind into what can reach a cycle are left out of the cost and counted by the
#   part of the value they lead to. The largest count is the factor by which the work grows with each level of
#   the value.

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Any, Final, final
from urllib.parse import unquote

import attrs

from ._shapes import is_array, is_object

MAX_STEPS: Final = 100_000
"""Steps that looking at a schema may take, and steps that checking one value without its parts may take."""

MAX_PATTERNS: Final = 20_000
"""Places in all regular expressions of a schema together; each takes a kilobyte at worst."""

MAX_BACKTRACKS: Final = 200
"""How often an untrusted regular expression with look-around may backtrack."""

MAX_DEPTH: Final = 100
"""Levels that a schema may nest, counting every array and object. Compilers recurse."""

_SAME_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_SINGLE: Final = ("not", "if", "then", "else")
_SAME_MAPS: Final = ("dependentSchemas", "dependencies")
_PARTS_OF_OBJECT: Final = ("additionalProperties", "unevaluatedProperties")
_PARTS_OF_ARRAY: Final = ("items", "additionalItems", "unevaluatedItems", "contains")
_KEPT_MAPS: Final = ("$defs", "definitions")
_REFERENCES: Final = ("$ref", "$dynamicRef")

_INDEX: Final = "0|[1-9][0-9]{0,8}"
"""An index of an array in a JSON pointer. Python refuses to read numbers of thousands of digits."""

_ANY_MEMBER: Final = ("member",)
_ANY_ITEM: Final = ("item",)
_NOTHING: Final = ("nothing",)

_Part = tuple[str] | tuple[str, object]


@final
class UnusableSchema(ValueError):
    """A schema cannot be used to check anything, and why."""


@final
@attrs.frozen
class SchemaCost:
    """What is known about checking values against a schema.

    Attributes:
        per_value: Steps that one value takes, not counting what recurs in its parts.
        growth: By how much that is multiplied with each level of the value, at most.
        per_character: Steps that each character of its texts takes, of names as well: the size of the regular
            expressions.
        has_patterns: Whether there are regular expressions in it.
        has_alternatives: Whether there are schemas in it of which one must fit.
        has_unique_items: Whether arrays are searched for equal items.
        backtracks: Whether there are regular expressions that look ahead or back.
        divisions: How often one number of it is divided, at most.
    """

    per_value: int
    growth: int
    per_character: int = 0
    has_patterns: bool = False
    has_alternatives: bool = False
    has_unique_items: bool = False
    backtracks: bool = False
    divisions: int = 0

    def steps(self, value: object, enough: int) -> int:
        """Return how many steps checking a value takes, estimated from above; above `enough` any such number."""
        level: list[Any] = [value]
        weight = 1
        total = self.per_value
        while level and total <= enough:
            parts: list[Any] = []
            for whole in level:
                if is_object(whole):
                    total += weight * self.growth * len(whole) * self.per_value
                    if total > enough:
                        break
                    parts += whole.values()
                    if self.per_character:
                        total += weight * sum(map(self._steps_of_text, whole))
                elif is_array(whole):
                    total += weight * self.growth * len(whole) * self.per_value
                    if total > enough:
                        break
                    parts += whole
                    if self.has_unique_items:
                        total += weight * _steps_to_compare(whole, enough)
                elif self.per_character and isinstance(whole, str):
                    total += weight * self._steps_of_text(whole)
                elif self.divisions and isinstance(whole, int | float):
                    total += weight * self.divisions * _steps_to_divide(whole)
            weight *= self.growth
            level = parts
        return total

    def _steps_of_text(self, text: str) -> int:
        steps = self.per_character * len(text)
        return steps * (len(text) + MAX_BACKTRACKS) // 2 if self.backtracks else steps


def weight_of(value: object, enough: int) -> int:
    """Return about how many bytes a JSON value takes, or more than `enough` if there are more."""
    total = 0
    rest: list[Any] = [value]
    while rest and total <= enough:
        part = rest.pop()
        total += 16
        if isinstance(part, str):
            total += len(part)
        elif is_object(part):
            total += 16 * len(part)
            if total <= enough:
                total += sum(map(len, part))
                rest += part.values()
        elif is_array(part):
            total += 16 * len(part)
            if total <= enough:
                rest += part
    return total


def _steps_to_compare(items: list[Any], enough: int) -> int:
    """Return how many steps it takes at most to look for equal items."""
    alike = sum(
        1
        for item in items
        if is_object(item) or is_array(item) or (isinstance(item, int) and not -(2**53) < item < 2**53)
    )
    weight = weight_of(items, enough)
    return len(items) + (weight // 16 if alike < 2 else weight // 16 + alike * weight // 64)


def measure(schema: object) -> SchemaCost:
    """Look at a schema.

    Raises:
        UnusableSchema: It refers to something outside or to itself without end, or is too deep or too costly.
    """
    if depth_of(schema, MAX_DEPTH) > MAX_DEPTH:
        raise UnusableSchema(f"it nests more than {MAX_DEPTH} levels deep")
    return _Graph(schema).cost()


def depth_of(value: object, enough: int) -> int:
    """Return how many levels of arrays and objects a value has, or `enough` + 1 if there are more."""
    depth = 0
    level = [value] if is_object(value) or is_array(value) else []
    while level and depth <= enough:
        depth += 1
        level = [part for whole in level for part in _parts(whole) if is_object(part) or is_array(part)]
    return depth


def _parts(value: object) -> Iterator[object]:
    if is_object(value):
        yield from value.values()
    elif is_array(value):
        yield from value


@final
@attrs.define(eq=False)
class _Node:
    """A subschema.

    Attributes:
        same: What it applies to the same value.
        parts: What it applies to parts of it, and to which.
        cost: Steps for one value; its own at first, later with all that it applies.
        characters: Steps for one character, likewise.
        divisions: How often a number is divided, likewise.
    """

    schema: dict[str, Any]
    same: list[_Node] = attrs.field(factory=list["_Node"])
    parts: list[tuple[_Part, _Node]] = attrs.field(factory=list[tuple[_Part, "_Node"]])
    cost: int = 1
    characters: int = 0
    divisions: int = 0
    growth: Counter[_Part] = attrs.field(factory=Counter[_Part])

    def apply(self, others: Iterable[_Node], times: int = 1) -> None:
        """Add what other subschemas cost that this one applies so many times."""
        for other in others:
            self.cost += times * other.cost
            self.characters += times * other.characters
            self.divisions += times * other.divisions


@final
class _Graph:
    def __init__(self, schema: object) -> None:
        self._root = schema
        base = schema.get("$id") if is_object(schema) else None
        self._base = base.removesuffix("#") if isinstance(base, str) else None
        self._nodes: dict[int, _Node] = {}
        self._new: deque[_Node] = deque()
        self._anchors: dict[str, list[_Node]] = {}
        self._steps = 0
        self._patterns = 0
        self._add(schema)
        self._follow()
        self._refer()

    def cost(self) -> SchemaCost:
        endless = self._add_up_those_that_end()
        growth = self._add_up_those_that_recur(endless)
        cost = max((node.cost for node in self._nodes.values()), default=1)
        if cost > MAX_STEPS:
            raise UnusableSchema(f"to check one value would take {cost} steps; {MAX_STEPS} are allowed")
        has_patterns = any(
            "pattern" in node.schema or "patternProperties" in node.schema for node in self._nodes.values()
        )
        return SchemaCost(
            cost,
            growth,
            max((node.characters for node in self._nodes.values()), default=0),
            has_patterns,
            any("anyOf" in node.schema or "oneOf" in node.schema for node in self._nodes.values()),
            any(node.schema.get("uniqueItems") is True for node in self._nodes.values()),
            divisions=max((node.divisions for node in self._nodes.values()), default=0),
        )

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise UnusableSchema(f"looking at it takes more than {MAX_STEPS} steps")

    # Building.

    def _add(self, schema: object) -> _Node | None:
        """Return the node of a subschema; none for `true` and `false`, which cost nothing."""
        if not is_object(schema):
            return None
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _Node(schema)
            node.cost = _own_steps(schema)
            node.characters = _own_steps_for_characters(schema)
            node.divisions = int("multipleOf" in schema)
            self._patterns += node.characters
            if self._patterns > MAX_PATTERNS:
                raise UnusableSchema(f"its regular expressions have more than {MAX_PATTERNS} places together")
            self._new.append(node)
        return node

    def _follow(self) -> None:
        """Read every node that has not been read, except for what it refers to."""
        while self._new:
            self._step()
            node = self._new.popleft()
            self._take_name(node)
            for part, schema in _applied(node.schema):
                self._step()
                target = self._add(schema)
                if target is None or part is _NOTHING:
                    node.cost += target is None and part is not _NOTHING
                    continue
                if part is None:
                    node.same.append(target)
                else:
                    node.parts.append((part, target))

    def _take_name(self, node: _Node) -> None:
        schema = node.schema
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors.setdefault(name, []).append(node)
        identity = schema.get("$id")
        if isinstance(identity, str) and schema is not self._root:
            if not identity.startswith("#"):
                raise UnusableSchema(f"a subschema has an $id, {identity!r:.100}")
            self._anchors.setdefault(identity[1:], []).append(node)

    def _refer(self) -> None:
        """Connect what refers with what it refers to.

        What lies outside the keywords can be referred to as well: it becomes a node then, and may refer on.
        """
        referring = deque(self._nodes.values())
        while referring:
            node = referring.popleft()
            known = len(self._nodes)
            references = [node.schema[keyword] for keyword in _REFERENCES if keyword in node.schema]
            for reference in references:
                for target in self._targets(reference):
                    self._step()
                    found = self._add(target)
                    if found is not None:
                        node.same.append(found)
            self._follow()
            referring.extend(islice(self._nodes.values(), known, None))

    def _targets(self, reference: object) -> list[object]:
        if not isinstance(reference, str):
            raise UnusableSchema(f"it refers to {reference!r:.100}, which is no reference")
        base, _, fragment = reference.partition("#")
        if base and base != self._base:
            raise UnusableSchema(f"it refers to {reference!r:.100}, which does not lie in it and is not fetched")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            nodes = self._anchors.get(fragment)
            if nodes is None:
                raise UnusableSchema(f"it refers to {reference!r:.100}, and there is none")
            return [node.schema for node in nodes]
        target: Any = self._root
        for step in fragment.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(target) and name in target:
                target = target[name]
            elif is_array(target) and re.fullmatch(_INDEX, name) and int(name) < len(target):
                target = target[int(name)]
            else:
                raise UnusableSchema(f"it refers to {reference!r:.100}, and there is none")
        return [target]

    # Adding up.

    def _add_up_those_that_end(self) -> set[_Node]:
        """Give each node that cannot reach a cycle its cost. Return the others."""
        users: dict[_Node, list[_Node]] = {node: [] for node in self._nodes.values()}
        missing: dict[_Node, int] = {}
        for node in users:
            used = [*node.same, *(target for _, target in node.parts)]
            missing[node] = len(used)
            for target in used:
                users[target].append(node)
        done = deque(node for node, count in missing.items() if not count)
        while done:
            node = done.popleft()
            del missing[node]
            node.apply(node.same, _times_same(node.schema))
            node.apply(target for _, target in node.parts)
            for user in users[node]:
                missing[user] -= 1
                if not missing[user]:
                    done.append(user)
        return set(missing)

    def _add_up_those_that_recur(self, endless: set[_Node]) -> int:
        """Give the others their cost for one level of a value. Return the factor per level."""
        try:
            same = {node: [target for target in node.same if target in endless] for node in endless}
            order = list(TopologicalSorter(same).static_order())
        except CycleError:
            raise UnusableSchema("it refers to itself without end") from None
        most = 1
        for node in order:
            again = _times_same(node.schema)
            node.apply(node.same, again)
            for target in node.same:
                self._step(len(target.growth))
                for part, count in target.growth.items():
                    node.growth[part] += again * count
            for part, target in node.parts:
                if target in endless:
                    node.growth[part] += 1
                else:
                    node.apply([target])
            most = max(most, _largest(node.growth))
        return most


def _largest(growth: Counter[_Part]) -> int:
    """Return how often one part of a value may be looked at, at most."""
    members = max((count for part, count in growth.items() if part[0] == "member" and len(part) == 2), default=0)
    items = max((count for part, count in growth.items() if part[0] == "item" and len(part) == 2), default=0)
    return max(members + growth[_ANY_MEMBER], items + growth[_ANY_ITEM])


# What keywords cost themselves.

MAX_TEXT_AT_ONCE: Final = 1024
"""Characters of two equal texts that are compared in one step."""


def _times_same(schema: dict[str, Any]) -> int:
    """Return how often what a schema applies to the same value is checked."""
    return 3 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1


def _own_steps(schema: dict[str, Any]) -> int:
    """Return the steps that the keywords of a schema take for one value, without those of other schemas."""
    steps = 1
    for keyword in ("required", "enum"):
        value = schema.get(keyword)
        if is_array(value):
            steps += len(value) // 4 if keyword == "required" else _steps_of_choices(value)
    for keyword in ("dependentRequired", "dependencies", "patternProperties"):
        value = schema.get(keyword)
        if is_object(value):
            steps += len(value) + sum(len(names) for names in value.values() if is_array(names))
    if "const" in schema:
        steps += _steps_of_constant(schema["const"])
    if "multipleOf" in schema:
        steps += _steps_of_divisor(schema["multipleOf"])
    return steps


STEPS_TO_DIVIDE: Final = 30
"""What it takes to divide a usual number by a whole number."""

STEPS_TO_DIVIDE_BY_FRACTION: Final = 150
"""What it takes to divide a usual number by a usual fraction."""

STEPS_TO_DIVIDE_EXTREMES: Final = 3000
"""What it takes at most to divide where one of two floats is far from 1."""

BITS_SQUARED_IN_A_STEP: Final = 4000
"""Long integers are divided in time by the square of their length."""


def _steps_of_divisor(divisor: object) -> int:
    if not isinstance(divisor, int | float) or not _is_usual(divisor):
        return STEPS_TO_DIVIDE_EXTREMES
    return STEPS_TO_DIVIDE if divisor == int(divisor) else STEPS_TO_DIVIDE_BY_FRACTION


def _steps_to_divide(value: float) -> int:
    """Return how many more steps it takes at most to divide this number than to divide a usual one."""
    if _is_usual(value):
        return 0
    bits = value.bit_length() if isinstance(value, int) else 0
    return STEPS_TO_DIVIDE_EXTREMES + bits * bits // BITS_SQUARED_IN_A_STEP


def _is_usual(number: float) -> bool:
    if isinstance(number, int):
        return -(2**64) < number < 2**64
    return not number or 1e-12 < abs(number) < 1e18


def _steps_of_choices(choices: list[Any]) -> int:
    if all(isinstance(choice, str) for choice in choices):
        return 1
    if all(isinstance(choice, int) and -(2**63) <= choice < 2**63 for choice in choices):
        return 1
    return sum(1 + _steps_of_constant(choice) for choice in choices)


def _steps_of_constant(constant: object) -> int:
    """Return how many steps it takes to compare a value with this one; none if it is a number or a short text."""
    steps = 0
    rest = [constant]
    while rest:
        part = rest.pop()
        if isinstance(part, str):
            steps += len(part) // MAX_TEXT_AT_ONCE
        elif is_object(part):
            steps += 2 * len(part) + sum(map(len, part)) // MAX_TEXT_AT_ONCE
            rest += part.values()
        elif is_array(part):
            steps += len(part)
            rest += part
    return steps


def _own_steps_for_characters(schema: dict[str, Any]) -> int:
    steps = 0
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        steps += size_of_pattern(pattern)
    patterns = schema.get("patternProperties")
    if is_object(patterns):
        steps += sum(map(size_of_pattern, patterns))
    return steps + ("contentEncoding" in schema) + ("contentMediaType" in schema)


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


def _applied(schema: dict[str, Any]) -> Iterator[tuple[_Part | None, object]]:
    """Yield the subschemas of a schema, each with the part of a value it is applied to; `None` for all of it."""
    for keyword, value in schema.items():
        if keyword in _SAME_SINGLE:
            yield None, value
        elif keyword in _SAME_LISTS and is_array(value):
            for item in value:
                yield None, item
        elif keyword in _SAME_MAPS and is_object(value):
            for item in value.values():
                yield None, item
        elif keyword in _KEPT_MAPS and is_object(value):
            for item in value.values():
                yield _NOTHING, item
        elif keyword == "properties" and is_object(value):
            for name, item in value.items():
                yield ("member", name), item
        elif keyword == "patternProperties" and is_object(value):
            for item in value.values():
                yield _ANY_MEMBER, item
        elif keyword in _PARTS_OF_OBJECT:
            yield _ANY_MEMBER, value
        elif keyword == "propertyNames":
            yield ("name",), value
        elif keyword in {"prefixItems", "items"} and is_array(value):
            for index, item in enumerate(value):
                yield ("item", index), item
        elif keyword in _PARTS_OF_ARRAY:
            yield _ANY_ITEM, value
