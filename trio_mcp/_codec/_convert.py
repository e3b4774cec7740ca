"""Between decoded JSON and wire objects: `from_wire` and `to_wire`.

The functions that do it are made when a class is first used, in about a millisecond, and kept; until then not
even cattrs is imported. No bytes and no JSON-RPC here.
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
    """Read an object of the protocol, of whatever revision.

    What may be missing, and is, has its default. Members that are not known are ignored; those that are known are
    accepted whatever the revision, because peers are often ahead of the one they agreed to. Open objects are
    taken over, not copied.

    Args:
        data: Decoded JSON.
        kind: A class of `trio_mcp.types`, or a union of them.

    Raises:
        InvalidData: The data is not what the specification says it must be.
    """
    read = _readers.get(kind)
    if read is None:
        from ._structure import reader

        read = _readers[kind] = reader(kind)
    return read(data)


def to_wire(obj: object, revision: Revision, *, without: str | None = None) -> dict[str, Any]:
    """Write an object of the protocol for a peer of a revision, which is sent nothing it does not know.

    What the revision lacks is left out; what would be missed is said in words or in an older form (see
    `trio_mcp._codec._downgrade`). Open objects are taken over, not copied: change none of them in the result.

    Args:
        obj: An instance of a class of `trio_mcp.types`.
        revision: What the peer speaks.
        without: A member that is left out, whether it is required or not, because the caller adds it.

    Raises:
        LocalProtocolError: The revision has no such object, or requires a member that is not there, or something
            in it is out of bounds.
        TypeError: `obj`, or something in it, is not what it should be.
    """
    cls: Any = obj.__class__
    write = _writers.get((cls, revision, without))
    if write is None:
        from ._unstructure import writer

        write = _writers[cls, revision, without] = writer(cls, revision, without)
    written: dict[str, Any] = write(obj)
    return written
