"""Apps: pages that a server has for its tools, registered and checked. What is said of them: `_core/_apps`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, final

import attrs
import trio

from .. import types
from .._core._apps import EXTENSION, MIME_TYPE, AppCsp, AppPermissions, begins_as_html, is_ui_uri, page_meta
from .._limits import check_given, check_options
from ._application import Application, Registration
from ._extensions import ServerExtension
from ._listing import Description, described
from ._reading import Reading, ResourceSource
from ._resources import ResourceOptions

if TYPE_CHECKING:
    from .._core._uri_matching import Found


_BEGINNING: Final = 16_384
"""How much of a file is read when it is registered, in characters: it must begin as a page does."""


class AppOptions(Description, total=False):
    """The options of `Server.add_app`, which describes them."""

    csp: AppCsp | None
    permissions: AppPermissions | None
    domain: str | None
    prefers_border: bool | None
    listed: bool
    ttl: float
    scope: types.CacheScope


@final
@attrs.frozen(eq=False, kw_only=True)
class AppSource(ResourceSource):
    """A page.

    Attributes:
        resource: What clients see of it.
        html: The page; `None` for one in a file.
        path: The file, which is read each time.
        listed: Whether it is among the resources that are listed.
    """

    resource: types.Resource
    html: str | None
    path: str | None
    listed: bool

    def resources(self) -> Iterator[types.Resource]:
        """Yield the page, if it is listed."""
        if self.listed:
            yield self.resource

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult:
        """Return the page, with what is said of it.

        Raises:
            OSError: The file cannot be read.
            FileTooLarge: It is too large.
            ValueError: It is no text, or no document of HTML5.
        """
        del found
        if self.path is None:
            html = self.html or ""
            await trio.lowlevel.checkpoint()
        else:
            html = await reading.threads.run(_read_page, self.path, reading.limits.max_file_bytes)
        resource = self.resource
        contents = types.TextResourceContents(
            uri=reading.uri, mime_type=resource.mime_type, text=html, meta=resource.meta
        )
        return types.ReadResourceResult(contents=(contents,))


def _read_page(path: str, max_bytes: int) -> str:
    from ._files import read_file

    return _checked(read_file(path, max_bytes).decode(), path)


def _checked(html: str, where: str) -> str:
    if not begins_as_html(html):
        raise ValueError(f"{where}: a page begins with <!doctype html>, not {html[:40]!r}")
    return html


class AppRegistration(Registration):
    """Registers what `Registration` does, and pages; a server is one."""

    def add_app(self, uri: str, page: str | os.PathLike[str], **options: Unpack[AppOptions]) -> None:
        """Register a page that hosts can show for tools: ``server.add_app("ui://clock", Path("clock.html"))``.

        Tools name it: ``@server.tool(ui="ui://clock")``. A file is read anew each time, in a thread, up to
        `Limits.max_file_bytes`. The extension ``io.modelcontextprotocol/ui`` is declared to every client.

        Args:
            uri: The URI, which begins with ``ui://``.
            page: The page itself, or the path of its file.
            **options: As follows; each has a default.

        Keyword Args:
            csp: The origins elsewhere that the page needs. Default: none.
            permissions: What of the browser it asks for. Default: nothing.
            domain: The origin that it would like to be shown from; which are possible, each host says.
            prefers_border: Whether it would like a border and a background. Default: the host decides.
            listed: Whether it is among the resources that are listed. Default: yes. Hosts find it by its tools.
            name, title, description, icons, scopes, rate, ttl, scope: As for `add_resource`.
            meta: Its `_meta`, beside ``ui``.

        Raises:
            FileNotFoundError: There is no such file.
            TypeError: There is no such option.
            ValueError: The URI does not begin with ``ui://``, or is taken; or the page is no document of HTML5.

        Spec: SEP-1865, 2026-01-26, "UI Resource Format".
        """
        check_options(options, AppOptions)
        check_given(AppRegistration.add_app, {"uri": uri, "page": page})
        if not is_ui_uri(uri):
            raise ValueError(f"the URI of a page begins with ui://, not {uri!r:.200}")
        html = path = None
        if isinstance(page, str):
            if not begins_as_html(page):
                hint = "" if "<" in page else f": for a file write Path({page!r:.80})"
                raise ValueError(f"{uri}: a page begins with <!doctype html>, not {page[:40]!r}{hint}")
            html = page
        else:
            path = str(Path(page).absolute())
            with Path(path).open(encoding="utf-8") as file:
                _checked(file.read(_BEGINNING), path)
        meta = options.get("meta") or {}
        if "ui" in meta:
            raise ValueError("meta has ui, which add_app makes of csp, permissions, domain and prefers_border")
        ui = page_meta(
            csp=options.get("csp"),
            permissions=options.get("permissions"),
            domain=options.get("domain"),
            prefers_border=options.get("prefers_border"),
        )
        options["meta"] = {**meta, "ui": ui} if ui else meta or None
        resource = types.Resource(
            uri=uri, mime_type=MIME_TYPE, **described(options, uri.rstrip("/").rpartition("/")[2] or uri)
        )
        source = AppSource(
            resource=resource, html=html, path=path, listed=options.get("listed", True), template=None
        )
        self._check(uri)
        self._add(
            uri,
            source,
            ResourceOptions(
                ttl=options.get("ttl", 0),
                scope=options.get("scope", "private"),
                scopes=options.get("scopes"),
                rate=options.get("rate"),
            ),
        )
        declare_apps(self._application)


def declare_apps(application: Application) -> None:
    """Declare the extension to clients from now on, unless the server's author does so."""
    if not application.extensions.has(EXTENSION):
        application.extensions.add(ServerExtension(EXTENSION))


def check_pages(application: Application) -> None:
    """Check that the server has the page of each tool that names one, before it is served.

    Raises:
        ValueError: It lacks one.
    """
    if not application.tools.has_apps:
        return
    declare_apps(application)
    by_hand = "resources/read" in application.custom
    for entry in application.tools.entries.visible:
        page = entry.item.page
        if page is not None and not by_hand and not application.resources.knows(page):
            raise ValueError(
                f"the tool {entry.name} is shown by {page}, which this server does not have: "
                f"add it by add_app({page!r}, ...), or as a resource"
            )
