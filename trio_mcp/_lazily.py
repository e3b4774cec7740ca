"""Public names of a package that are imported when they are first used.

A program pays at its start for what it uses: a server over stdio needs neither a client nor HTTP. The names are
written once, as imports, in the package's module `_public`. Type checkers, editors and programs that bundle
applications follow these imports as they follow any. At run time they are read, but not carried out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import FunctionType, SimpleNamespace
from typing import Any


def attach(
    package: str, *, eager: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    Args:
        package: The package.
        eager: The modules of which every public name is imported at once.
    """
    namespace = vars(sys.modules[package])
    homes = _homes_of(package)

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: Any = (
            getattr(import_module(f".{home}", package), name) if home else import_module(f".{name}", package)
        )
        # Tracebacks and documentation show the public module. Aliases belong to another module, and keep it.
        if getattr(value, "__module__", "").startswith(f"{package}._") and hasattr(value, "__qualname__"):
            if isinstance(value, type):
                _evaluate_hints(value)
            value.__module__ = package
        namespace[name] = value
        return value

    for name, home in homes.items():
        if home in eager:
            get(name)
    return get, lambda: sorted({*namespace, *homes}), sorted(homes)


def names_for_users(obj: object) -> list[str]:
    """Return what ``dir()`` shows of an object: no private names."""
    return [name for name in object.__dir__(obj) if name.startswith("__") or name[0] != "_"]


def name_as_methods_of(name: str, *parts: type) -> None:
    """Let Python's own errors about arguments name the class that users know, and not the part that has a method.

    Args:
        name: The class.
        parts: Its bases.
    """
    for part in parts:
        for attribute, member in vars(part).items():
            method = member
            while isinstance(method, FunctionType):
                method.__qualname__ = f"{name}.{attribute}"
                method = getattr(method, "__wrapped__", None)


def _evaluate_hints(cls: type) -> None:
    """Evaluate the hints of a class that are text, before it names a module that lacks what they name."""
    known = vars(sys.modules[cls.__module__])
    for name, hint in cls.__annotations__.items():
        if isinstance(hint, str):
            with suppress(NameError):  # what is imported for type checkers alone stays text
                cls.__annotations__[name] = eval(hint, known)


def _homes_of(package: str) -> Mapping[str, str]:
    """Return the module of each name in a package's `_public`, relative to the package; of a module, nothing.

    The compiled module is run with an ``__import__`` that only notes what it is asked for. That needs no source,
    takes a fraction of a millisecond, and works wherever the package can be imported from.
    """
    module = SimpleNamespace()
    homes: dict[str, str] = vars(module)

    def note(home: str, _: object, __: object, names: Sequence[str], level: int) -> object:
        assert level == 1
        for name in names:
            homes[name] = home
        return module  # from which the statement takes the name

    spec: Any = find_spec(f"{package}._public")
    if not hasattr(spec.loader, "get_code"):  # that of pytest, which rewrites the assertions of what has plugins
        spec = PathFinder.find_spec(spec.name, sys.modules[package].__path__)
    exec(spec.loader.get_code(spec.name), {"__builtins__": {"__import__": note}})
    return homes
