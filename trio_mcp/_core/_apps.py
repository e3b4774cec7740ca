"""Apps: what tools and pages say of themselves, and the policies by which a host shows a page.

Decisions only: no I/O, no Trio, no clock. What a server says is read here as what a stranger says: nothing of it
gets into a policy that is not an origin. What a page may send its host is in `_app_view`.

Spec: SEP-1865, io.modelcontextprotocol/ui, 2026-01-26.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs

from .._codec._json import is_array, is_object
from .._errors import RemoteProtocolError
from ..types import Tool

EXTENSION: Final = "io.modelcontextprotocol/ui"
MIME_TYPE: Final = "text/html;profile=mcp-app"
OLDER_KEY: Final = "ui/resourceUri"
"""The member of a tool's `_meta` that hosts looked for before there was `ui`. It is deprecated."""

MAX_DOMAINS: Final = 64
"""How many origins a page may name for one purpose. The policy is a header field, of which few take 16 KiB."""

Visibility: TypeAlias = Literal["model", "app"]
"""Who may call a tool: the model, or the pages of the same server."""

EVERYBODY: Final[frozenset[Visibility]] = frozenset(("model", "app"))

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# No spaces, semicolons, commas, quotes, slashes or lines: all of them end a source, a directive or a policy.
_ORIGIN: Final = rf"(?:https?|wss?)://(?:\*\.)?{_LABEL}(?:\.{_LABEL}){{0,31}}(?::[0-9]{{1,5}})?"
_DOCTYPE: Final = r"\ufeff?\s{0,1000}(?:<!--.{0,10000}?-->\s{0,1000})?<!doctype\s+html"


def is_ui_uri(uri: str) -> bool:
    """Whether a URI is one of a page."""
    return uri.startswith("ui://") and len(uri) > len("ui://")


def begins_as_html(text: str) -> bool:
    """Whether a text begins as a document of HTML5 does, after a comment at most."""
    return re.match(_DOCTYPE, text, re.IGNORECASE | re.DOTALL) is not None


def is_app_type(mime_type: str | None) -> bool:
    """Whether a type is that of a page; case and spaces around the semicolon have no meaning (RFC 9110)."""
    # Not by an expression: one that looks for spaces before a semicolon takes a time that is quadratic in them.
    parts = () if mime_type is None else (part.strip().lower() for part in mime_type.split(";", 2))
    return ";".join(parts) == MIME_TYPE


def _origins(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"a list of origins is needed, not one text: write [{given!r:.80}]")
    return tuple(given)


def _check_origins(_instance: object, attribute: attrs.Attribute[Any], origins: tuple[object, ...]) -> None:
    if len(origins) > MAX_DOMAINS:
        raise ValueError(f"{attribute.name} has {len(origins)} origins, and at most {MAX_DOMAINS} are possible")
    for origin in origins:
        if not isinstance(origin, str) or len(origin) > 300 or re.fullmatch(_ORIGIN, origin) is None:
            raise ValueError(
                f"{attribute.name} takes origins such as https://example.com, https://*.example.com and "
                f"wss://example.com:8443, not {origin!r:.120}"
            )


@final
@attrs.frozen(kw_only=True)
class AppCsp:
    """The origins elsewhere that a page needs; all others stay closed to it.

    An origin has a scheme (``https``, ``http``, ``wss`` or ``ws``) and a host, which may begin with ``*.``. It
    may have a port, and has no path.

    Attributes:
        connect: What its scripts may fetch from, and open WebSockets to.
        resource: Where scripts, styles, images, fonts and media may come from.
        frame: What it may show in frames. Default: none.
        base_uri: What its relative links may refer to. Default: its own origin.

    Raises:
        ValueError: Something is no origin, or there are too many of them.

    Spec: SEP-1865, "UI Resource Format".
    """

    connect: tuple[str, ...] = attrs.field(default=(), converter=_origins, validator=_check_origins)
    resource: tuple[str, ...] = attrs.field(default=(), converter=_origins, validator=_check_origins)
    frame: tuple[str, ...] = attrs.field(default=(), converter=_origins, validator=_check_origins)
    base_uri: tuple[str, ...] = attrs.field(default=(), converter=_origins, validator=_check_origins)

    def plain(self) -> dict[str, Any]:
        """Return it as it is declared."""
        return {wire: list(given) for name, wire in _CSP_MEMBERS.items() if (given := getattr(self, name))}


_CSP_MEMBERS: Final = {
    "connect": "connectDomains",
    "resource": "resourceDomains",
    "frame": "frameDomains",
    "base_uri": "baseUriDomains",
}


@final
@attrs.frozen(kw_only=True)
class AppPermissions:
    """What of the browser a page asks for. A host may not grant it.

    Attributes:
        camera: The camera.
        microphone: The microphone.
        geolocation: Where the user is.
        clipboard_write: Writing to the clipboard.
    """

    camera: bool = False
    microphone: bool = False
    geolocation: bool = False
    clipboard_write: bool = False

    def plain(self) -> dict[str, Any]:
        """Return it as it is declared."""
        return {wire: {} for name, wire in _PERMISSION_MEMBERS.items() if getattr(self, name)}


_PERMISSION_MEMBERS: Final = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboard_write": "clipboardWrite",
}


# The policies.

_RESTRICTIVE: Final[Mapping[str, tuple[str, ...]]] = {
    "default-src": ("'none'",),
    "script-src": ("'self'", "'unsafe-inline'"),
    "style-src": ("'self'", "'unsafe-inline'"),
    "img-src": ("'self'", "data:"),
    "media-src": ("'self'", "data:"),
    "connect-src": ("'none'",),
    "frame-src": ("'none'",),
    "object-src": ("'none'",),
    "base-uri": ("'self'",),
}


def csp_header(csp: AppCsp | None) -> str:
    """Return the Content-Security-Policy for a page.

    Without a declaration it is the restrictive default, with what a sandbox must add to it.

    Spec: SEP-1865, "Host Behavior"; "Sandbox proxy", item 5; "Content Security Policy Enforcement".
    """
    sources = _RESTRICTIVE
    if csp is not None:
        sources = {
            "default-src": ("'none'",),
            "script-src": ("'self'", "'unsafe-inline'", *csp.resource),
            "style-src": ("'self'", "'unsafe-inline'", *csp.resource),
            "connect-src": ("'self'", *csp.connect),
            "img-src": ("'self'", "data:", *csp.resource),
            "font-src": ("'self'", *csp.resource),
            "media-src": ("'self'", "data:", *csp.resource),
            "frame-src": csp.frame or ("'none'",),
            "object-src": ("'none'",),
            "base-uri": csp.base_uri or ("'self'",),
        }
    return "; ".join(f"{directive} {' '.join(allowed)}" for directive, allowed in sources.items())


def allow_attribute(permissions: AppPermissions) -> str:
    """Return the ``allow`` attribute of the frame of a page: the features it asks for, no others."""
    return "; ".join(name.replace("_", "-") for name in _PERMISSION_MEMBERS if getattr(permissions, name))


# What a page says of itself.


def page_meta(
    *, csp: AppCsp | None, permissions: AppPermissions | None, domain: str | None, prefers_border: bool | None
) -> dict[str, Any]:
    """Return what `_meta` of a page has as ``ui``."""
    ui: dict[str, Any] = {}
    if csp is not None:
        ui["csp"] = csp.plain()
    if permissions is not None:
        ui["permissions"] = permissions.plain()
    if domain is not None:
        ui["domain"] = domain
    if prefers_border is not None:
        ui["prefersBorder"] = prefers_border
    return ui


@final
@attrs.frozen(kw_only=True)
class AppPage:
    """A page that a server has for a tool, and the policies to show it by; see `Client.read_app`.

    Show it in a frame that allows nothing but scripts, below a page of an origin that you use for nothing else.

    Attributes:
        uri: Its URI.
        html: The page.
        csp: The origins that it has declared; `None` if it has declared nothing.
        permissions: What of the browser it asks for.
        domain: The origin that it would like to be shown from. What that means, each host decides.
        prefers_border: Whether it would like a border and a background; `None` if it does not say.
    """

    uri: str
    html: str = attrs.field(repr=False)
    csp: AppCsp | None = None
    permissions: AppPermissions = AppPermissions()
    domain: str | None = None
    prefers_border: bool | None = None

    @property
    def csp_header(self) -> str:
        """The Content-Security-Policy to serve it with."""
        return csp_header(self.csp)

    @property
    def allow(self) -> str:
        """The ``allow`` attribute of its frame."""
        return allow_attribute(self.permissions)


def read_page(uri: str, html: str, meta: Mapping[str, object] | None) -> AppPage:
    """Read what a server says of a page.

    Raises:
        RemoteProtocolError: What it says is not valid, or is no origin where one must be.
    """
    ui = _member(meta or {}, "ui", uri)
    csp: AppCsp | None = None
    if ui.get("csp") is not None:
        declared = _member(ui, "csp", uri)
        try:
            csp = AppCsp(**{name: _texts(declared.get(wire), wire) for name, wire in _CSP_MEMBERS.items()})
        except ValueError as error:
            raise RemoteProtocolError(f"the page {uri:.200} has a csp that cannot be used: {error}") from error
    asked = _member(ui, "permissions", uri)
    granted = {name: is_object(asked.get(wire)) for name, wire in _PERMISSION_MEMBERS.items()}
    domain, border = ui.get("domain"), ui.get("prefersBorder")
    return AppPage(
        uri=uri,
        html=html,
        csp=csp,
        permissions=AppPermissions(**granted),
        domain=domain if isinstance(domain, str) else None,
        prefers_border=border if isinstance(border, bool) else None,
    )


def _member(members: Mapping[str, object], name: str, uri: str) -> dict[str, Any]:
    found = members.get(name)
    if found is None:
        return {}
    if not is_object(found):
        raise RemoteProtocolError(f"the page {uri:.200} has a {name} that is no object")
    return found


def _texts(found: object, wire: str) -> list[Any]:
    if found is None:
        return []
    if not is_array(found):
        raise ValueError(f"{wire} is no array")
    return found


# What a tool says of itself.


def tool_meta(
    meta: Mapping[str, object] | None, uri: str | None, visibility: Collection[Visibility] | None
) -> dict[str, object]:
    """Return the `_meta` of a tool with a page, or one that not everybody may call.

    Raises:
        TypeError: The URI is no text.
        ValueError: The URI is not one of a page; it is visible to nobody, or to others; or `_meta` has ``ui``.
    """
    is_text = isinstance(cast("object", uri), str)
    if uri is not None and not (is_text and is_ui_uri(uri)):
        kind = ValueError if is_text else TypeError
        raise kind(
            f"ui takes the URI of a page, which begins with ui://, not {uri!r:.200}: "
            "register the page by add_app('ui://...', page), and write ui='ui://...'"
        )
    if visibility is not None and not (visibility and EVERYBODY.issuperset(visibility)):
        raise ValueError(f"visibility takes 'model', 'app' or both, not {sorted(map(str, visibility))}")
    if meta is not None and "ui" in meta:
        raise ValueError("meta has ui already: leave it out, or write neither ui= nor visibility=")
    ui: dict[str, object] = {} if uri is None else {"resourceUri": uri}
    if visibility is not None:
        ui["visibility"] = [who for who in ("model", "app") if who in visibility]
    older: dict[str, object] = {} if uri is None else {OLDER_KEY: uri}
    return {**(meta or {}), "ui": ui, **older}


def page_of(tool: Tool) -> str | None:
    """Return the URI of the page that shows what a tool returns; `None` if it has none.

    Raises:
        RemoteProtocolError: It names something that is not the URI of a page.
    """
    meta = tool.meta or {}
    ui = meta.get("ui")
    found = ui.get("resourceUri") if is_object(ui) else None
    if found is None:
        found = meta.get(OLDER_KEY)
    if found is None:
        return None
    if not isinstance(found, str) or not is_ui_uri(found):
        raise RemoteProtocolError(f"the tool {tool.name:.200} names {found!r:.200}, which is no page: ui://...")
    return found


def visibility_of(tool: Tool) -> frozenset[Visibility]:
    """Return who may call a tool. Who says nothing means both; what cannot be read lets in nobody."""
    ui = (tool.meta or {}).get("ui")
    found = ui.get("visibility") if is_object(ui) else None
    if found is None:
        return EVERYBODY
    return frozenset(who for who in EVERYBODY if who in found) if is_array(found) else frozenset()


def mime_types_in(settings: object) -> tuple[str, ...] | None:
    """Return the types of pages that a client shows; `None` if it has not declared the extension."""
    if not is_object(settings):
        return None
    found = settings.get("mimeTypes")
    return tuple(kind for kind in found if isinstance(kind, str)) if is_array(found) else ()
