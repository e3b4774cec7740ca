"""The directories a client lets a server work in. Spec: client/roots. Deprecated since 2026-07-28 (SEP-2577)."""

from collections.abc import Sequence
from pathlib import Path
from typing import final
from urllib.parse import urlsplit

from .._revisions import Revision
from ._fields import member, wire
from ._metadata import MetaObject

__all__ = ["ListRootsRequestParams", "ListRootsResult", "Root"]


@final
@wire
class Root:
    """A directory or file that a server may work in.

    Attributes:
        uri: Its URI, which begins with ``file://``.
        name: What to call it.
    """

    uri: str
    name: str | None = member(default=None, hint=True)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)

    @property
    def path(self) -> Path:
        """Where it is on this machine. Resolve it before you compare it with other paths.

        Raises:
            ValueError: It is no URI of a file on this machine. `Context.list_roots` returns no such root.
        """
        from urllib.request import url2pathname  # brings an HTTP client with it, so not before it is needed

        try:
            parts = urlsplit(self.uri)
        except ValueError as error:
            raise ValueError(f"must be a URI, is {self.uri[:60]!r}") from error
        if parts.scheme != "file":
            raise ValueError(f"must begin with file://, is {self.uri[:60]!r}")
        if parts.netloc.lower() not in {"", "localhost"}:
            raise ValueError(f"must be on this machine, is {self.uri[:60]!r}")
        try:
            path = url2pathname(parts.path)
        except OSError as error:  # newer versions of Python see a host in a path that begins with two slashes
            raise ValueError(f"must be on this machine, is {self.uri[:60]!r}") from error
        if not path or "\0" in path:
            raise ValueError(f"must have a path, without NUL, is {self.uri[:60]!r}")
        return Path(path)


@final
@wire
class ListRootsRequestParams:
    """Ask for the client's roots. Unlike other requests it needs no `_meta` in any revision."""

    meta: MetaObject | None = member(default=None, hint=True)


@final
@wire
class ListRootsResult:
    """The client's roots."""

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    roots: Sequence[Root]
