"""What a kind of resource must be able to do, and what it is given to do it with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, final

import attrs

from .. import types
from .._limits import Limits
from ._context import Context
from ._interim import Interim
from ._threads import Threads

if TYPE_CHECKING:
    from .._core._uri_matching import Found

__all__ = ["Reading", "ResourceSource"]


@final
@attrs.frozen
class Reading:
    """One request to read a resource.

    Attributes:
        uri: What is asked for, as the client has written it.
        context: The request.
        threads: How many threads there may be.
        limits: How large a file may be.
    """

    uri: str
    context: Context[Any]
    threads: Threads
    limits: Limits


class ResourceSource(Protocol):
    """Where the contents of one resource, or of many, come from."""

    @property
    def template(self) -> types.ResourceTemplate | None:
        """What clients are told about all of its resources, if it is no single one."""
        ...

    @property
    def blocks(self) -> bool:
        """Whether `resources` looks at the disk, so that it is called in a thread."""
        ...

    def match(self, uri: str) -> Found | None:
        """Return what a URI, normalised, says to `read`; `None` if it is not one of this source.

        A single resource is found by its URI, and only asked about that.
        """
        ...

    def resources(self) -> Iterator[types.Resource]:
        """Yield what clients are told, resource by resource, as far as that can be listed."""
        ...

    def check(self, values: Mapping[str, str]) -> None:
        """Check what a client has typed for variables of the template, before a function completes it.

        Raises:
            ValueError: A value is none that could be read with; see `VariableRule`.
        """
        ...

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """For each variable of the template, all strings it can be, if it can be only a few; else none."""
        ...

    @property
    def may_ask(self) -> bool:
        """Whether reading is given a context, by which the client can be asked."""
        ...

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult | Interim:
        """Return the contents.

        Raises:
            ResourceNotFound: There is no such resource.
            RequestError: The answer is this error.
        """
        ...
