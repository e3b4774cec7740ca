"""Makes a program smaller while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import attrs

from .plan import Group, Program

KEPT: Final = frozenset({"seed", "token", "transport", "revision", "kind", "clients"})


def class_of(value: object) -> type[Any]:
    """Return the class of an object, of which nothing is known before."""
    return type(value)


def smaller(value: Any) -> Iterator[Any]:
    """Yield objects that have a little less in them."""
    if not attrs.has(class_of(value)):
        return
    for field in attrs.fields(class_of(value)):
        known: Any = getattr(value, field.name)
        if isinstance(known, tuple):
            now = cast("Sequence[object]", known)
            if len(now) > 3:
                yield attrs.evolve(value, **{field.name: now[: len(now) // 2]})
                yield attrs.evolve(value, **{field.name: now[len(now) // 2 :]})
            least = 1 if field.name in {"clients", "phases"} else 0
            if field.name != "clients" or len(now) > 1:  # the number of a client is in its tokens: from the end
                for index in range(len(now)) if field.name != "clients" else (len(now) - 1,):
                    if len(now) > least:
                        yield attrs.evolve(value, **{field.name: (*now[:index], *now[index + 1 :])})
            for index, item in enumerate(now):
                if isinstance(item, Group) and field.name == "children":
                    yield attrs.evolve(value, children=(*now[:index], *item.children, *now[index + 1 :]))
                for less in smaller(item):
                    yield attrs.evolve(value, **{field.name: (*now[:index], less, *now[index + 1 :])})
        elif attrs.has(class_of(known)):
            if field.default is None:
                yield attrs.evolve(value, **{field.name: None})
            for less in smaller(known):
                yield attrs.evolve(value, **{field.name: less})
        elif field.name not in KEPT and field.default is not attrs.NOTHING and known != field.default:
            yield attrs.evolve(value, **{field.name: field.default})


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """Return a program that still fails, and of which nothing more can be left out."""
    progress = True
    while progress and tries > 0:
        progress = False
        for less in smaller(program):
            tries -= 1
            if tries <= 0:
                break
            if fails(cast("Program", less)):
                program, progress = less, True
                break
    return program


def brief(value: Any) -> str:
    """Return what an object was made of, without what is as usual."""
    if isinstance(value, tuple):
        return f"({''.join(f'{brief(item)}, ' for item in cast('tuple[object, ...]', value))})"
    if not attrs.has(class_of(value)):
        return repr(value)
    told = ((field, getattr(value, field.name)) for field in attrs.fields(class_of(value)))
    said = (f"{field.name}={brief(now)}" for field, now in told if now != field.default)
    return f"{type(value).__name__}({', '.join(said)})"
