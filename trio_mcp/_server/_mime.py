"""What bytes are: guessed from a name, from how they begin, and from whether they can be read as text."""

from __future__ import annotations

import functools
import mimetypes
import re
from typing import Any, Final

__all__ = ["BINARY", "JSON", "PLAIN_TEXT", "guess_type", "sniff_type", "text_of", "type_by_uri", "type_of_result"]

BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"
PLAIN_TEXT: Final = "text/plain"

# What Python's own table lacks, or lacked in 3.11, or calls by a name that no browser knows.
_MORE: Final = {
    ".flac": "audio/flac",
    ".jsonl": "application/jsonl",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".rst": "text/x-rst",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_PACKED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

_TEXTUAL: Final = re.compile(
    r"text/.*|.*\+(?:json|xml|yaml)|"
    r"application/(?:json|jsonl|xml|yaml|toml|javascript|ecmascript|sql|x-sh|x-yaml|x-www-form-urlencoded)"
)
_NOT_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

# Compiled when the first bytes are looked at: a server that serves none starts without.
_BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF.{4}WEBP", "image/webp"),
    (rb"BM.{4}\0\0\0\0", "image/bmp"),
    (rb"(?:II\*\0|MM\0\*)", "image/tiff"),
    (rb".{4}ftypavi[fs]", "image/avif"),
    (rb"\s{0,64}(?:<\?xml[^>]{0,256}>\s{0,64})?<svg[\s>]", "image/svg+xml"),
    (rb"RIFF.{4}WAVE", "audio/wav"),
    (rb"ID3|\xff[\xfb\xf3\xf2]", "audio/mpeg"),
    (rb"OggS", "audio/ogg"),
    (rb"fLaC", "audio/flac"),
    (rb".{4}ftypM4A", "audio/mp4"),
    (rb"%PDF-", "application/pdf"),
    (rb"PK\x03\x04", "application/zip"),
    (rb"\x1f\x8b", "application/gzip"),
)


@functools.cache
def _table() -> mimetypes.MimeTypes:
    # Python's own table, not the system's, so that a server says the same everywhere.
    table = mimetypes.MimeTypes()
    for extension, kind in _MORE.items():
        table.add_type(kind, extension)
    return table


def guess_type(name: str) -> str | None:
    """Return the type that a file of this name has, or `None` if the name does not tell."""
    kind, packed = _table().guess_type(f"file:{name}" if ":" in name else name)
    return kind if packed is None else _PACKED.get(packed, BINARY)


def type_by_uri(uri: str) -> str | None:
    """Return the type that the end of a URI's path tells, or `None` if it does not."""
    return guess_type(uri.partition("?")[0].partition("#")[0].rpartition("/")[2])


def type_of_result(uri: str, hint: Any) -> str | None:
    """Return the type that a resource probably has: what its URI ends with says, or what its function returns.

    Args:
        uri: The URI, or the text of the template.
        hint: The function's return annotation, or the type of the contents.
    """
    by_name = type_by_uri(uri)
    return PLAIN_TEXT if by_name is None and hint is str else by_name


def sniff_type(data: bytes) -> str | None:
    """Return the type of bytes that begin like these, or `None` if they could be anything."""
    return next((kind for pattern, kind in _BEGINNINGS if re.match(pattern, data, re.DOTALL)), None)


def text_of(data: bytes, kind: str | None) -> str | None:
    """Return the text that bytes are, or `None` if they are sent as bytes.

    Args:
        data: The bytes.
        kind: Their type; without one, they are text if they look like it.
    """
    if kind is None:
        if _NOT_TEXT.search(data) is not None or sniff_type(data) is not None:
            return None
    elif _TEXTUAL.fullmatch(kind.partition(";")[0].strip().lower()) is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
