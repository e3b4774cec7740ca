"""Names of a package that are imported when they are first asked for.

A program pays at its start for what it uses: a server over stdio needs neither a client nor HTTP. Type checkers
read the imports that stand beside the table; a test holds the two together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importer(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``.

    Args:
        package: The package.
        homes: The module in which each of its names lives, relative to the package. A module's own name stands
            for the module.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f".{home}", package)
        value: Any = module if name == home else getattr(module, name)
        # Tracebacks and documentation show where a name is found, not where it is kept. Aliases have no home.
        if getattr(value, "__module__", "").startswith(f"{package}._") and hasattr(value, "__qualname__"):
            value.__module__ = package
        namespace[name] = value
        return value

    return get
