"""Files, pictures and sound in results, given by path or as bytes, and the contents of resources.

Files are read in threads. Loaded only by servers that use it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard, cast, final
from urllib.parse import quote

import attrs
import trio

from .. import types
from .._codec import _json
from .._schema import result_to_json
from ._files import file_contents, read_file
from ._reading import BINARY, JSON, PLAIN_TEXT, Reading, blob_of, guess_type, sniff_type, type_by_uri
from ._threads import Threads

_Path: TypeAlias = str | os.PathLike[str]


def _shown(source: _Path | bytes) -> str:
    return f"{len(source)} bytes" if isinstance(source, bytes) else repr(os.fspath(source))


def _absolute(path: _Path) -> Path:
    """Make a path absolute now: it is read later, and programs change their directory."""
    return Path(path).absolute()


def _placed(source: _Path | bytes) -> Path | bytes:
    return source if isinstance(source, bytes) else _absolute(source)


@final
@attrs.frozen
class File:
    """A file as a result of a tool, or as the contents of a resource: ``return File("report.pdf")``.

    It is read when it is sent, in a thread, up to `Limits.max_file_bytes`. Text is sent as text, all else in
    base64. In a tool's result it is an embedded resource.

    Attributes:
        path: Where it is.
        uri: Its URI in a tool's result. By default ``file:///`` and its name, which does not disclose its folder.
        mime_type: Its type; by default found by its name, then by its bytes.
        annotations: Hints for the client.
        meta: The block's `_meta`.
    """

    _is_content: ClassVar = True
    path: Path = attrs.field(converter=_absolute)
    uri: str | None = attrs.field(default=None, kw_only=True)
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    annotations: types.Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class _Perceived:
    _is_content: ClassVar = True
    source: Path | bytes = attrs.field(converter=_placed, repr=_shown)
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    annotations: types.Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        family = _FAMILY[type(self)]
        if self.mime_type is not None and not self.mime_type.startswith(family):
            raise ValueError(
                f"the mime_type of {type(self).__name__} begins with {family}, unlike {self.mime_type!r}"
            )
        if isinstance(self.source, bytes):
            _type_of(self, self.source)


@final
@attrs.frozen
class Image(_Perceived):
    """A picture as a result of a tool: ``return Image("chart.png")``, or ``return Image(png_bytes)``.

    A file is read when it is sent, in a thread, up to `Limits.max_file_bytes`.

    Attributes:
        source: Where it is, or its bytes.
        mime_type: Its type; by default found by its name, then by its bytes.
        annotations: Hints for the client.
        meta: The block's `_meta`.

    Raises:
        ValueError: The type is not that of a picture, or the bytes begin like no known picture.
    """


@final
@attrs.frozen
class Audio(_Perceived):
    """Sound as a result of a tool: ``return Audio("answer.wav")``, or ``return Audio(wav_bytes)``.

    A file is read when it is sent, in a thread, up to `Limits.max_file_bytes`.

    Attributes:
        source: Where it is, or its bytes.
        mime_type: Its type; by default found by its name, then by its bytes.
        annotations: Hints for the client.
        meta: The block's `_meta`.

    Raises:
        ValueError: The type is not that of sound, or the bytes begin like no known sound.
    """


Media: TypeAlias = File | Image | Audio
"""Values that are read before they are sent."""

_FAMILY: Final[Mapping[type, str]] = {Image: "image/", Audio: "audio/"}


def is_media(value: object) -> TypeGuard[Media]:
    """Whether a value is read before it is sent."""
    return isinstance(value, (File, Image, Audio))


async def contents_of_media(
    media: Media, uri: str, threads: Threads, max_bytes: int
) -> types.TextResourceContents | types.BlobResourceContents:
    """Read a file, picture or sound as contents of a resource.

    Raises:
        FileTooLarge: It has more than `max_bytes`.
        OSError: It cannot be read.
        ValueError: It is not of the type it was given as.
    """
    data = await _read(media, threads, max_bytes)
    if isinstance(media, File):
        return file_contents(uri, data, media.mime_type, media.path.name)
    return blob_of(uri, data, _type_of(media, data))


async def block_of_media(media: Media, threads: Threads, max_bytes: int) -> types.ContentBlock:
    """Read a file, picture or sound as a block of a result; see `contents_of_media`."""
    data = await _read(media, threads, max_bytes)
    if isinstance(media, File):
        uri = f"file:///{quote(os.fsencode(media.path.name))}" if media.uri is None else media.uri
        contents = file_contents(uri, data, media.mime_type, media.path.name)
        return types.EmbeddedResource(resource=contents, annotations=media.annotations, meta=media.meta)
    kind = types.ImageContent if isinstance(media, Image) else types.AudioContent
    return kind(
        data=_base64(data), mime_type=_type_of(media, data), annotations=media.annotations, meta=media.meta
    )


def block_of_bytes(data: bytes) -> types.ContentBlock:
    """Return the block for bytes of unknown type: a picture or sound if they begin like one.

    Everything else is embedded, with the hash of the bytes as its URI (RFC 6920).
    """
    kind = sniff_type(data) or BINARY
    if kind.startswith("image/"):
        return types.ImageContent(data=_base64(data), mime_type=kind)
    if kind.startswith("audio/"):
        return types.AudioContent(data=_base64(data), mime_type=kind)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
    return types.EmbeddedResource(resource=blob_of(f"ni:///sha-256;{digest}", data, kind))


async def _read(media: Media, threads: Threads, max_bytes: int) -> bytes:
    source = media.path if isinstance(media, File) else media.source
    if isinstance(source, bytes):
        await trio.lowlevel.checkpoint()
        return source
    # A thread that is left behind does no harm: it ends when the file is read.
    return await threads.run(read_file, str(source), max_bytes)


def _type_of(media: _Perceived, data: bytes) -> str:
    by_name = None if isinstance(media.source, bytes) else guess_type(media.source.name)
    for kind in (media.mime_type, by_name, sniff_type(data)):
        if kind is not None and kind.startswith(_FAMILY[type(media)]):
            return kind
    raise ValueError(f"{media!r:.200} has no known type that begins with {_FAMILY[type(media)]}; give mime_type")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

_WIRE: Final = (types.TextResourceContents, types.BlobResourceContents)


async def contents_of(returned: Any, kind: str | None, reading: Reading) -> types.ReadResourceResult:
    """Return the result for what a function returned.

    Text and bytes are what they are; contents and results of the protocol are sent as they are; of a list with
    any of those and nothing else in it, each is a part. Every other value, also a list of nothing but text, is
    sent as JSON. So contents are never empty, which would look like a resource that does not exist.

    Args:
        returned: What it returned.
        kind: The registered type; without one, the URI and then the value decide.
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
        text = _json.encode_answer(result_to_json(returned)).decode()
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
    return blob_of(uri, bytes(content), kind)
