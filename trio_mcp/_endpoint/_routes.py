"""What an endpoint serves beside the protocol: the author's routes, documents for everybody, what browsers ask.

A route is looked for only where nothing of the protocol is served, so it costs the protocol's requests nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import attrs

from .._core._http1 import LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, HeaderField
from .._core._http_rules import Cors, HostRules, HttpRefused, HttpServerSettings
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


_PROTOCOLS: Final = f"{LAST_EVENT_ID}, {METHOD}, {NAME}, {PROTOCOL_VERSION}, {SESSION_ID}"
_SENT: Final = f"Accept, Authorization, Content-Type, DPoP, {_PROTOCOLS}"
_READ: Final = f"{SESSION_ID}, WWW-Authenticate, DPoP-Nonce, Retry-After"


@final
class PageRules:
    """What web pages may send and read; see `HttpServerSettings.cors`.

    Args:
        settings: The settings, of which that is one.

    Attributes:
        are_on: Whether they may read anything.
    """

    def __init__(self, settings: HttpServerSettings) -> None:
        cors = settings.cors if isinstance(settings.cors, Cors) else Cors()
        self.are_on = settings.cors is not False
        self._pages = HostRules(allowed_hosts=None, allowed_origins=cors.origins)
        self._sent = ", ".join((_SENT, *sorted(cors.request_headers))).encode("ascii")
        self._read = ", ".join((_READ, *sorted(cors.response_headers))).encode("ascii")

    def add_to(self, call: HttpCall) -> None:
        """Let the page that has sent an accepted request read the answer, if it may."""
        origin = call.headers.get("origin")
        if origin is None:
            return
        if self._pages.allows_page(origin):
            call.answer_headers += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", self._read),
            ]
        call.answer_headers.append((b"vary", b"Origin"))

    async def preflight(self, call: HttpCall, methods: bytes) -> None:
        """Answer the question of a browser what a page may send."""
        asked = call.headers.get("access-control-request-headers") or ""
        mirrored = [name.strip() for name in asked.split(",") if name.strip().lower().startswith("mcp-param-")]
        allowed = b", ".join((self._sent, *(name.encode("latin-1") for name in mirrored)))
        await call.respond(
            204,
            headers=[
                (b"access-control-allow-methods", methods),
                (b"access-control-allow-headers", allowed),
                (b"access-control-max-age", b"86400"),
            ],
        )


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
