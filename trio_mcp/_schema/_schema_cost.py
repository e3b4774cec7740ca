"""What checking a value against a JSON Schema may cost, found out by looking at the schema alone.

A few lines of schema can ask for more work than there is time: definitions that name each other twice double it
with each step, a definition that names itself twice doubles it with each level of the value. Both are seen here,
without compiling anything, in steps that are counted.
"""

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
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Any, Final, final
from urllib.parse import unquote

import attrs

from ._plain import is_array, is_object

__all__ = ["SchemaCost", "UnusableSchema", "depth_of", "measure"]

MAX_STEPS: Final = 100_000
"""Steps that looking at a schema may take, and subschemas that one level of a value may be checked against."""

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
        per_value: How many subschemas one value is checked against, not counting what recurs in its parts.
        growth: By how much that is multiplied with each level of the value, at most.
        has_patterns: Whether there are regular expressions in it.
    """

    per_value: int
    growth: int
    has_patterns: bool

    def allows(self, value: object, max_checks: int) -> bool:
        """Whether checking a value takes at most so many steps, estimated from above."""
        most = max_checks // self.per_value
        level: list[Any] = [value]
        weight = total = 1
        while level and total <= most:
            weight *= self.growth
            parts: list[Any] = []
            for whole in level:
                if is_object(whole):
                    total += weight * len(whole)
                    if total > most:
                        break
                    parts += whole.values()
                elif is_array(whole):
                    total += weight * len(whole)
                    if total > most:
                        break
                    parts += whole
            level = parts
        return total <= most


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
    """

    schema: dict[str, Any]
    same: list[_Node] = attrs.field(factory=list["_Node"])
    parts: list[tuple[_Part, _Node]] = attrs.field(factory=list[tuple[_Part, "_Node"]])
    cost: int = 1
    growth: Counter[_Part] = attrs.field(factory=Counter[_Part])


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
        self._add(schema)
        self._follow()
        self._refer()

    def cost(self) -> SchemaCost:
        endless = self._add_up_those_that_end()
        growth = self._add_up_those_that_recur(endless)
        cost = max((node.cost for node in self._nodes.values()), default=1)
        if cost > MAX_STEPS:
            raise UnusableSchema(f"a value would be checked against {cost} subschemas; {MAX_STEPS} are allowed")
        has_patterns = any(
            "pattern" in node.schema or "patternProperties" in node.schema for node in self._nodes.values()
        )
        return SchemaCost(cost, growth, has_patterns)

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
            self._new.append(node)
        return node

    def _follow(self) -> None:
        """Look at every node that has not been looked at, except for what it refers to."""
        while self._new:
            self._step()
            node = self._new.popleft()
            self._take_name(node)
            for part, schema in _applied(node.schema):
                self._step()
                target = self._add(schema)
                if target is None or part is _NOTHING:
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
                raise UnusableSchema(f"a part of it has an $id of its own, {identity!r:.100}")
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
        """Give each node that cannot reach a cycle its cost. Returns the others."""
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
            node.cost = 1 + sum(t.cost for t in node.same) + sum(t.cost for _, t in node.parts)
            for user in users[node]:
                missing[user] -= 1
                if not missing[user]:
                    done.append(user)
        return set(missing)

    def _add_up_those_that_recur(self, endless: set[_Node]) -> int:
        """Give the others their cost for one level of a value. Returns by what it grows with each level."""
        try:
            same = {node: [target for target in node.same if target in endless] for node in endless}
            order = list(TopologicalSorter(same).static_order())
        except CycleError:
            raise UnusableSchema("it refers to itself without end") from None
        most = 1
        for node in order:
            node.cost += sum(target.cost for target in node.same)
            for target in node.same:
                self._step(len(target.growth))
                node.growth.update(target.growth)
            for part, target in node.parts:
                if target in endless:
                    node.growth[part] += 1
                else:
                    node.cost += target.cost
            most = max(most, _largest(node.growth))
        return most


def _largest(growth: Counter[_Part]) -> int:
    """Return how often one part of a value may be looked at, at most."""
    members = max((count for part, count in growth.items() if part[0] == "member" and len(part) == 2), default=0)
    items = max((count for part, count in growth.items() if part[0] == "item" and len(part) == 2), default=0)
    return max(members + growth[_ANY_MEMBER], items + growth[_ANY_ITEM])


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
