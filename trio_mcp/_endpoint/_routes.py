"""What an endpoint serves beside the protocol: the author's own routes, and documents that everybody may read.

A route is looked for only where nothing of the protocol is served, so it costs the protocol's requests nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import attrs

from .._core._http1 import HeaderField
from .._core._http_rules import HttpRefused
from ._call import HttpCall

Route: TypeAlias = Callable[[HttpCall], Awaitable[object]]
"""Answers the requests for a path: called with each of them, whatever its method, and calls `HttpCall.respond`.

It may raise `HttpRefused`. Anything else that it raises is its own failure: the client gets 500, and the log the
reason. It is cancelled when the client goes. `HttpServerSettings` bounds it like any request."""

Routes: TypeAlias = Mapping[str, Route]
"""Functions by path: ``{"/version": version}``. Paths are compared as they are, but for a slash at the end."""

_METADATA_SECONDS: Final = 300
"""How long clients may keep a document that everybody may read, in seconds."""

_READ_BY_ALL: Final[Sequence[HeaderField]] = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
)


def plain_path(path: str) -> str:
    """Return a path without slashes at its end."""
    return path.rstrip("/") or "/"


def _plain_paths(routes: Routes) -> Routes:
    for path in routes:
        if not path.startswith("/"):
            raise ValueError(f"routes takes paths that begin with a slash, not {path!r}: write {'/' + path!r}")
    return {plain_path(path): route for path, route in routes.items()}


@final
@attrs.frozen
class OtherRoutes:
    """All that an endpoint serves beside the protocol.

    Args:
        routes: The author's, by path.
        rest: Gets what no route is for; `None` for nothing.
        open_to_all: Those that are answered whatever `Host` and `Origin` say, because they give nothing away.
    """

    _routes: Routes = attrs.field(converter=_plain_paths)
    _rest: Route | None = None
    _open_to_all: Routes = attrs.field(factory=dict[str, Route])

    def find(self, path: str) -> Route | None:
        """Return the route for a path."""
        path = plain_path(path)
        return self._open_to_all.get(path) or self._routes.get(path) or self._rest

    def is_open(self, path: str) -> bool:
        """Whether a path is answered whatever `Host` and `Origin` say."""
        return plain_path(path) in self._open_to_all


def document(body: bytes) -> Route:
    """Return a route that serves a JSON document, which every web page may read.

    Spec: RFC 9728, section 3; the Fetch standard, "CORS protocol".
    """

    async def serve(call: HttpCall) -> None:
        call.answer_headers = list(_READ_BY_ALL)
        if call.method == "OPTIONS":
            await call.respond(204)
        elif call.method in {"GET", "HEAD"}:
            kept = b"public, max-age=%d" % _METADATA_SECONDS
            await call.respond(200, body, [(b"cache-control", kept)])
        else:
            raise HttpRefused(405, f"{call.method[:20]} is not allowed here", [(b"allow", b"GET, HEAD, OPTIONS")])

    return serve
