"""What a kind of resource must be able to do, and what it is given to do it with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, final

import attrs
import trio

from .._core._uri_matching import Found
from .._limits import Limits
from ..types import ReadResourceResult, Resource, ResourceTemplate
from ._context import Context

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
    threads: trio.CapacityLimiter
    limits: Limits


class ResourceSource(Protocol):
    """Where the contents of one resource, or of many, come from."""

    @property
    def template(self) -> ResourceTemplate | None:
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

    def resources(self) -> Iterator[Resource]:
        """Yield what clients are told, resource by resource, as far as that can be listed."""
        ...

    async def read(self, reading: Reading, found: Found) -> ReadResourceResult:
        """Return the contents.

        Raises:
            ResourceNotFound: There is no such resource.
            RequestError: The answer is this error.
        """
        ...
