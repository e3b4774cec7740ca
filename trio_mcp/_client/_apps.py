"""Apps, for hosts: which tools are for models, and the page of a tool as a server has sent it.

Which policies there are is decided in `_core/_apps`; what a page asks for is done in `_views`.
"""

from __future__ import annotations

import base64
from typing import Final

from .._core._apps import (
    EXTENSION,
    MIME_TYPE,
    AppPage,
    is_app_type,
    is_ui_uri,
    page_of,
    read_page,
    visibility_of,
)
from .._errors import RemoteProtocolError
from ..types import BlobResourceContents, ListToolsResult, ReadResourceResult, TextResourceContents, Tool
from ..types._fields import evolve
from ._dispatch import ClientExtension

SHOWS_APPS: Final = ClientExtension(EXTENSION, settings={"mimeTypes": [MIME_TYPE]})
"""Declares that a host shows pages of servers: ``open_client(…, extensions=[SHOWS_APPS])``.

Spec: SEP-1865, 2026-01-26, "Client (Host) Capabilities".
"""


def without_app_tools(page: ListToolsResult) -> ListToolsResult:
    """Return a page of a list without the tools that are not for models."""
    tools = [tool for tool in page.tools if "model" in visibility_of(tool)]
    return page if len(tools) == len(page.tools) else evolve(page, tools=tools)


def uri_of(tool: Tool | str) -> str:
    """Return the URI of a tool's page, or the URI itself.

    Raises:
        RemoteProtocolError: The tool names something that is not the URI of a page.
        ValueError: The tool has no page, or it is no such URI.
    """
    if isinstance(tool, str):
        if not is_ui_uri(tool):
            raise ValueError(f"read_app takes a tool, or a URI that begins with ui://, not {tool!r:.200}")
        return tool
    uri = page_of(tool)
    if uri is None:
        raise ValueError(f"the tool {tool.name:.200} has no page")
    return uri


def page_in(uri: str, result: ReadResourceResult, max_bytes: int) -> AppPage:
    """Return the page that a server has sent.

    Raises:
        RemoteProtocolError: It is larger than `max_bytes`, or of another type; or what is said of it is wrong.
    """
    if len(result.contents) != 1:
        raise RemoteProtocolError(f"the page {uri:.200} has {len(result.contents)} contents instead of one")
    (contents,) = result.contents
    if not is_app_type(contents.mime_type):
        raise RemoteProtocolError(f"the page {uri:.200} has the type {contents.mime_type!r:.80}, not {MIME_TYPE}")
    html = _text_of(uri, contents, max_bytes)
    size = len(html.encode())
    if size > max_bytes:
        raise RemoteProtocolError(f"the page {uri:.200} has {size} bytes, more than max_bytes, {max_bytes}")
    return read_page(uri, html, contents.meta)


def _text_of(uri: str, contents: TextResourceContents | BlobResourceContents, max_bytes: int) -> str:
    if isinstance(contents, TextResourceContents):
        return contents.text
    if len(contents.blob) > max_bytes * 2:
        raise RemoteProtocolError(f"the page {uri:.200} has more than max_bytes, {max_bytes}")
    try:
        return base64.b64decode(contents.blob, validate=True).decode()
    except ValueError as error:  # of text beyond ASCII it is no `binascii.Error`
        raise RemoteProtocolError(f"the page {uri:.200} is no text in base64: {error}") from error
