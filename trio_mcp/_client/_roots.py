"""The directories a client lets a server work in: what users give, and what servers are told."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias, cast, final
from urllib.parse import unquote, urlsplit

import trio

from ..types import ListRootsResult, Root

__all__ = ["RootLike", "RootList", "Roots"]

RootLike: TypeAlias = Root | str | os.PathLike[str]
"""A root, its ``file://`` URI, or the path of a directory or file, which is made absolute."""

Roots: TypeAlias = Iterable[RootLike] | Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
"""The roots, or what returns them whenever the server asks."""

FILE_SCHEME: Final = "file://"


def _as_root(given: object) -> Root:
    """Make a root of what a user gave.

    Raises:
        TypeError: It is nothing a root can be made of.
        ValueError: It is no ``file://`` URI, or one that climbs.

    Spec: 2025-11-25, client/roots, "Data Types" and "Security Considerations".
    """
    if isinstance(given, Root):
        root = given
    elif isinstance(given, str) and given.lower().startswith(FILE_SCHEME):
        root = Root(uri=given)
    elif isinstance(given, (str, os.PathLike)) and "://" not in os.fspath(given):
        path = Path(os.path.abspath(cast("str | os.PathLike[str]", given)))  # noqa: PTH100 - resolve() follows links
        root = Root(uri=path.as_uri(), name=path.name or None)
    elif isinstance(given, str):
        raise ValueError(f"a root must be a file:// URI, not {given!r}")
    else:
        raise TypeError(f"a root is a Root, a file:// URI or a path, not {given!r:.60}")
    _check(root.uri)
    return root


def _check(uri: str) -> None:
    if not uri.lower().startswith(FILE_SCHEME):
        raise ValueError(f"a root must be a file:// URI, not {uri!r}")
    path = unquote(urlsplit(uri).path)
    if "\0" in path or ".." in path.replace("\\", "/").split("/"):
        raise ValueError(f"a root must not climb out of itself: {uri!r}")


@final
class RootList:
    """The roots of a client, which can change.

    Args:
        roots: What the user gave.

    Raises:
        TypeError: One of them is no root.
        ValueError: One of them is no ``file://`` URI, or one that climbs.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots: tuple[Root, ...] | Callable[[], object] = ()
        self.replace(roots)

    def replace(self, roots: Roots) -> None:
        """Put other roots in the place of these, or none of them if one is bad; the errors are as on creation."""
        self._roots = roots if callable(roots) else _as_roots(roots)

    async def list(self) -> ListRootsResult:
        """Return the roots as they are now."""
        roots: object = self._roots
        if callable(roots):
            roots = roots()
            if inspect.isawaitable(roots):
                roots = await roots
        await trio.lowlevel.checkpoint()
        return ListRootsResult(roots=_as_roots(roots))


def _as_roots(given: object) -> tuple[Root, ...]:
    if isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable):
        raise TypeError(f"roots are several, in an iterable, not {given!r:.60}")
    return tuple(_as_root(one) for one in cast("Iterable[object]", given))
