"""Files, pictures and sound as results: given by path or as bytes, read in a thread, sent in base64."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeGuard, final
from urllib.parse import quote

import attrs
import trio

from .. import types
from ._beneath import read_file
from ._files import file_contents
from ._mime import BINARY, guess_type, sniff_type
from ._threads import Threads

__all__ = ["Audio", "File", "Image", "Media", "block_of_bytes", "block_of_media", "contents_of_media", "is_media"]

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
        uri: What it is called in a tool's result. By default ``file:///`` and its name: in which folder of the
            server it lies is nobody's business.
        mime_type: Its type; by default what its name and its bytes say.
        annotations: Hints for the client.
        meta: The block's `_meta`.
    """

    path: Path = attrs.field(converter=_absolute)
    uri: str | None = attrs.field(default=None, kw_only=True)
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    annotations: types.Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)


@final
@attrs.frozen
class Image:
    """A picture as a result of a tool: ``return Image("chart.png")``, or ``return Image(png_bytes)``.

    A file is read when it is sent, in a thread, up to `Limits.max_file_bytes`.

    Attributes:
        source: Where it is, or its bytes.
        mime_type: Its type; by default what its name and its bytes say.
        annotations: Hints for the client.
        meta: The block's `_meta`.

    Raises:
        ValueError: The type is none of a picture, or bytes are given that nobody knows to be one.
    """

    source: Path | bytes = attrs.field(converter=_placed, repr=_shown)
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    annotations: types.Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _check(self)


@final
@attrs.frozen
class Audio:
    """Sound as a result of a tool: ``return Audio("answer.wav")``, or ``return Audio(wav_bytes)``.

    A file is read when it is sent, in a thread, up to `Limits.max_file_bytes`.

    Attributes:
        source: Where it is, or its bytes.
        mime_type: Its type; by default what its name and its bytes say.
        annotations: Hints for the client.
        meta: The block's `_meta`.

    Raises:
        ValueError: The type is none of sound, or bytes are given that nobody knows to be any.
    """

    source: Path | bytes = attrs.field(converter=_placed, repr=_shown)
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    annotations: types.Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _check(self)


Media: TypeAlias = File | Image | Audio
"""What must be read before it can be sent."""

_FAMILY: Final[Mapping[type, str]] = {Image: "image/", Audio: "audio/"}


def is_media(value: object) -> TypeGuard[Media]:
    """Whether a value must be read before it can be sent."""
    return isinstance(value, (File, Image, Audio))


async def contents_of_media(
    media: Media, uri: str, threads: Threads, max_bytes: int
) -> types.TextResourceContents | types.BlobResourceContents:
    """Read a file, picture or sound as contents of a resource.

    Raises:
        FileTooLarge: It has more than `max_bytes`.
        OSError: It cannot be read.
        ValueError: It is not what it was said to be.
    """
    data = await _read(media, threads, max_bytes)
    if isinstance(media, File):
        return file_contents(uri, data, media.mime_type, media.path.name)
    return types.BlobResourceContents(uri=uri, mime_type=_type_of(media, data), blob=_base64(data))


async def block_of_media(media: Media, threads: Threads, max_bytes: int) -> types.ContentBlock:
    """Read a file, picture or sound as a block of a result; see `contents_of_media`."""
    data = await _read(media, threads, max_bytes)
    if isinstance(media, File):
        uri = f"file:///{quote(os.fsencode(media.path.name))}" if media.uri is None else media.uri
        contents = file_contents(uri, data, media.mime_type, media.path.name)
        return types.EmbeddedResource(resource=contents, annotations=media.annotations, meta=media.meta)
    kind = types.ImageContent if isinstance(media, Image) else types.AudioContent
    return kind(
        data=_base64(data),
        mime_type=_type_of(media, data),
        annotations=media.annotations,
        meta=media.meta,
    )


def block_of_bytes(data: bytes) -> types.ContentBlock:
    """Return the block for bytes of which nothing is known: a picture or sound if they begin like one.

    Everything else is embedded, and named after what it is (RFC 6920), since it has no place.
    """
    kind = sniff_type(data) or BINARY
    if kind.startswith("image/"):
        return types.ImageContent(data=_base64(data), mime_type=kind)
    if kind.startswith("audio/"):
        return types.AudioContent(data=_base64(data), mime_type=kind)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
    contents = types.BlobResourceContents(uri=f"ni:///sha-256;{digest}", mime_type=kind, blob=_base64(data))
    return types.EmbeddedResource(resource=contents)


async def _read(media: Media, threads: Threads, max_bytes: int) -> bytes:
    source = media.path if isinstance(media, File) else media.source
    if isinstance(source, bytes):
        await trio.lowlevel.checkpoint()
        return source
    # A thread that is left behind ends by itself and keeps nothing.
    return (await threads.run(read_file, str(source), max_bytes)).data


def _check(media: Image | Audio) -> None:
    family = _FAMILY[type(media)]
    if media.mime_type is not None and not media.mime_type.startswith(family):
        raise ValueError(
            f"the mime_type of {type(media).__name__} begins with {family}, unlike {media.mime_type!r}"
        )
    if isinstance(media.source, bytes):
        _type_of(media, media.source)


def _type_of(media: Image | Audio, data: bytes) -> str:
    by_name = None if isinstance(media.source, bytes) else guess_type(media.source.name)
    for kind in (media.mime_type, by_name, sniff_type(data)):
        if kind is not None and kind.startswith(_FAMILY[type(media)]):
            return kind
    raise ValueError(f"{media!r:.200} is of no type known to be {_FAMILY[type(media)]}; give mime_type")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
