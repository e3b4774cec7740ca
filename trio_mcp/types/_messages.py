"""What the params and results of all methods have in common. No params or result of one method lives here.

The envelopes around them (`jsonrpc`, `id`, `method`, `error`) are JSON-RPC's and belong to the codec.
"""

from typing import Literal, TypeAlias, final

from .._revisions import MODERN, Revision
from ._fields import member, wire
from ._metadata import MetaObject

__all__ = [
    "CacheScope",
    "CacheableResult",
    "Cursor",
    "EmptyResult",
    "NotificationParams",
    "PaginatedRequestParams",
    "PaginatedResult",
    "ProgressToken",
    "RequestId",
    "RequestParams",
    "Result",
]

RequestId: TypeAlias = str | int
"""What a request is known by until it is answered."""

ProgressToken: TypeAlias = str | int
"""What ties a progress notification to the request it tells of."""

Cursor: TypeAlias = str
"""Where a page of a list begins. Only the server that made it can read it."""

CacheScope: TypeAlias = Literal["public", "private"]
"""Who may be served a kept result: everybody, or only who asked for it."""


@wire
class RequestParams:
    """What every request can say, and some say nothing else.

    Attributes:
        meta: From 2026-07-28 on it names the revision and the client's capabilities and is required.
    """

    meta: MetaObject | None = member(default=None, required_in=MODERN)


@final
@wire
class PaginatedRequestParams(RequestParams):
    """Ask for a list, or for more of it.

    Attributes:
        cursor: The `next_cursor` of the page before; `None` for the first page.
    """

    cursor: Cursor | None = None


@wire
class NotificationParams:
    """What every notification can say, and some say nothing else."""

    meta: MetaObject | None = None


@wire
class Result:
    """What every result can say, and some say nothing else.

    Attributes:
        result_type: ``"complete"``, ``"input_required"``, or a type an extension has added. Where it is missing,
            the peer's revision is older and the result is complete.
    """

    meta: MetaObject | None = member(default=None, hint=True)
    result_type: str = member(default="complete", since=Revision.V2026_07_28)


EmptyResult: TypeAlias = Result
"""A result that says no more than that all went well."""


@wire
class CacheableResult(Result):
    """A result that a client may keep for a while.

    Attributes:
        ttl_ms: For how many milliseconds it is fresh, at least 0. What is received may be less; take it for 0.
        cache_scope: Who may be served it.

    Spec: 2026-07-28, server/utilities/caching.
    """

    ttl_ms: int = member(default=0, hint=True, since=Revision.V2026_07_28, minimum=0)
    cache_scope: CacheScope = member(default="private", hint=True, since=Revision.V2026_07_28)


@wire
class PaginatedResult(CacheableResult):
    """One page of a list. In 2026-07-28 all that is paginated is cacheable as well.

    Attributes:
        next_cursor: Where the next page begins; `None` if this is the last.
    """

    next_cursor: Cursor | None = None
