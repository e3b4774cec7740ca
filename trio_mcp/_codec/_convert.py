"""Conversion between decoded JSON and wire objects: `from_wire` and `to_wire`.

The functions for a class are made when it is first used, which takes about a millisecond, and kept. cattrs is
imported only then. No bytes and no JSON-RPC here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from .._revisions import Revision

T = TypeVar("T")

_readers: Final[dict[Any, Callable[[Any], Any]]] = {}
_writers: Final[dict[tuple[type, Revision, str | None], Callable[[Any], Any]]] = {}


@overload
def from_wire(data: object, kind: type[T]) -> T: ...
@overload
def from_wire(data: object, kind: Any) -> Any: ...
def from_wire(data: object, kind: Any) -> Any:
    """Read an object of the protocol, of any revision.

    A missing member has its default, if it may be missing. Unknown members are ignored. Known ones are accepted
    in every revision, because peers are often ahead of the one they agreed to. Open objects are not copied.

    Args:
        data: Decoded JSON.
        kind: A class of `trio_mcp.types`, or a union of them.

    Raises:
        InvalidData: The data does not have the form that the specification requires.
    """
    read = _readers.get(kind)
    if read is None:
        from ._structure import reader

        read = _readers[kind] = reader(kind)
    return read(data)


def to_wire(obj: object, revision: Revision, *, without: str | None = None) -> dict[str, Any]:
    """Write an object of the protocol for a peer of a revision, without anything the revision does not have.

    What the revision lacks is left out. Where that would lose something, it is replaced by text or an older form
    (see `trio_mcp._codec._unstructure`). Open objects are not copied: do not change them in the result.

    Args:
        obj: An instance of a class of `trio_mcp.types`.
        revision: What the peer speaks.
        without: A member that is left out even if it is required, because the caller adds it.

    Raises:
        LocalProtocolError: The revision has no such object, or requires a member that is missing, or a value is
            out of bounds.
        TypeError: `obj` is not an instance of a wire class, or a value in it has the wrong type.
    """
    cls: Any = obj.__class__
    write = _writers.get((cls, revision, without))
    if write is None:
        from ._unstructure import writer

        write = _writers[cls, revision, without] = writer(cls, revision, without)
    written: dict[str, Any] = write(obj)
    return written
