"""From what a resource's function returned to the contents its reader gets."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

from .. import types
from .._codec import _json
from .._schema import to_json
from ._media import contents_of_media, is_media
from ._mime import BINARY, JSON, PLAIN_TEXT, sniff_type, type_by_uri
from ._reading import Reading

__all__ = ["Contents", "contents_of", "plain_contents"]

Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

_WIRE: Final = (types.TextResourceContents, types.BlobResourceContents)


async def contents_of(returned: Any, kind: str | None, reading: Reading) -> types.ReadResourceResult:
    """Return the result for what a function returned.

    Text and bytes are what they are; contents and results of the protocol are sent as they are; of a list with
    any of those and nothing else in it, each is a part. Every other value, also a list of nothing but text, is
    sent as JSON. So contents are never empty, which nobody could tell from a resource that does not exist.

    Args:
        returned: What it returned.
        kind: The type the resource is said to have; else its name tells, and then what it is.
        reading: The request.

    Raises:
        InvalidValue: The value has no form in JSON.
        OSError: A file cannot be read.
        FileTooLarge: A file is too large.

    Spec: 2026-07-28, server/resources, "Reading Resources", "Error Handling".
    """
    if isinstance(returned, types.ReadResourceResult):
        return returned
    parts = _parts(returned)
    if parts is None:
        text = _json.encode(to_json(returned)).decode()
        whole = types.TextResourceContents(uri=reading.uri, mime_type=kind or JSON, text=text)
        return types.ReadResourceResult(contents=(whole,))
    kind = kind or type_by_uri(reading.uri)
    return types.ReadResourceResult(contents=[await _part(part, kind, reading) for part in parts])


def _parts(returned: Any) -> Sequence[Any] | None:
    if _is_part(returned):
        return (returned,)
    if not isinstance(returned, (list, tuple)):
        return None
    parts = cast("Sequence[Any]", returned)
    is_all_text = all(isinstance(part, str) for part in parts)
    return parts if not is_all_text and all(map(_is_part, parts)) else None


def _is_part(value: object) -> bool:
    return isinstance(value, (str, bytes, bytearray, memoryview, *_WIRE)) or is_media(value)


async def _part(part: Any, kind: str | None, reading: Reading) -> Contents:
    if isinstance(part, _WIRE):
        return part
    if is_media(part):
        return await contents_of_media(part, reading.uri, reading.threads, reading.limits.max_file_bytes)
    return plain_contents(part, reading.uri, kind)


def plain_contents(content: str | bytes | bytearray | memoryview, uri: str, kind: str | None) -> Contents:
    """Return text or bytes as the contents of a resource.

    Args:
        content: The text or the bytes.
        uri: The resource's URI.
        kind: Its type, if it is known.
    """
    if isinstance(content, str):
        return types.TextResourceContents(uri=uri, mime_type=kind or PLAIN_TEXT, text=content)
    data = bytes(content)
    blob = base64.b64encode(data).decode("ascii")
    return types.BlobResourceContents(uri=uri, mime_type=kind or sniff_type(data) or BINARY, blob=blob)
