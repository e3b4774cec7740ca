"""Makes a program short while it still breaks the same rule, and shows what it is made of."""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import attrs

from .program import Program

KEPT: Final = frozenset({"seed", "token", "wire", "revision", "kind"})
"""What a program would be another one without."""

TRIES: Final = 600


def smaller(value: Any) -> Iterator[Any]:
    """Yield objects that have a little less in them, those with the least first."""
    for field in attrs.fields(type(value)):
        known: Any = getattr(value, field.name)
        if isinstance(known, tuple):
            now: tuple[Any, ...] = known
            yield from _fewer(value, field.name, now)
            for index, item in enumerate(now):
                if attrs.has(type(item)):
                    for less in smaller(item):
                        yield attrs.evolve(value, **{field.name: (*now[:index], less, *now[index + 1 :])})
        elif attrs.has(type(known)):
            if field.default is None:
                yield attrs.evolve(value, **{field.name: None})
            for less in smaller(known):
                yield attrs.evolve(value, **{field.name: less})
        elif field.name not in KEPT and field.default is not attrs.NOTHING and known != field.default:
            yield attrs.evolve(value, **{field.name: field.default})
            if isinstance(known, float) and known > 1:
                yield attrs.evolve(value, **{field.name: 1.0})


def _fewer(value: Any, name: str, now: tuple[Any, ...]) -> Iterator[Any]:
    """Yield objects of which a part has fewer items."""
    if name == "clients":  # the number of a client is its place: from the end
        if len(now) > 1:
            yield attrs.evolve(value, clients=now[:-1])
        return
    if len(now) > 3:
        yield attrs.evolve(value, **{name: now[: len(now) // 2]})
        yield attrs.evolve(value, **{name: now[len(now) // 2 :]})
    for index, item in enumerate(now):
        rest = (*now[:index], *now[index + 1 :])
        if rest or name != "parts":  # a batch of nothing is none
            yield attrs.evolve(value, **{name: rest})
        body: tuple[Any, ...] = (*getattr(item, "body", ()), *getattr(item, "cleanup", ()))
        if body:
            yield attrs.evolve(value, **{name: (*now[:index], *body, *now[index + 1 :])})


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = TRIES) -> Program:
    """Return a program that still fails, and of which nothing can be left out, or which was reached in so many tries."""
    is_smaller = True
    while is_smaller and tries > 0:
        is_smaller = False
        for less in smaller(program):
            tries -= 1
            if tries <= 0:
                break
            if fails(cast("Program", less)):
                program, is_smaller = less, True
                break
    return program


def size_of(value: Any) -> int:
    """Return how many parts something has."""
    if isinstance(value, tuple):
        return sum(size_of(item) for item in value)
    if not attrs.has(type(value)):
        return 0
    return 1 + sum(size_of(getattr(value, field.name)) for field in attrs.fields(type(value)))


def shown(value: Any, indent: str = "") -> str:
    """Return what something was made of, without what is as usual, as Python that makes it."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value
        if not any(attrs.has(type(item)) for item in items):
            return repr(items)
        inner = "".join(f"{indent}    {shown(item, f'{indent}    ')},\n" for item in items)
        return f"(\n{inner}{indent})"
    if not attrs.has(type(value)):
        return repr(cast("object", value))
    told = ((field, getattr(value, field.name)) for field in attrs.fields(type(value)))
    said = [f"{field.name}={shown(now, indent)}" for field, now in told if now != field.default]
    return f"{type(value).__name__}({', '.join(said)})"
