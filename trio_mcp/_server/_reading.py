"""What a kind of resource must be able to do, and what it is given to do it with.

What bytes are: guessed from a name, from how they begin, and from whether they can be read as text.
"""

from __future__ import annotations

import functools
import mimetypes
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import attrs

from .. import types
from .._limits import Limits
from ._context import Context
from ._input_required import NonFinalResult
from ._threads import Threads

if TYPE_CHECKING:
    from .._core._uri_matching import Found


@final
@attrs.frozen
class Reading:
    """One request to read a resource.

    Attributes:
        uri: What is asked for, as the client has written it.
        context: The request.
        threads: How many threads there may be.
        limits: How large a file may be.
    """

    uri: str
    context: Context[Any]
    threads: Threads
    limits: Limits


class ResourceSource(Protocol):
    """Where the contents of one resource, or of many, come from."""

    @property
    def template(self) -> types.ResourceTemplate | None:
        """What clients are told about all of its resources, if it is no single one."""
        ...

    @property
    def blocks(self) -> bool:
        """Whether `resources` looks at the disk, so that it is called in a thread."""
        ...

    def match(self, uri: str) -> Found | None:
        """Return what a URI, normalised, says to `read`; `None` if it is not one of this source.

        A single resource is found by its URI, and only asked about that.
        """
        ...

    def resources(self) -> Iterator[types.Resource]:
        """Yield what clients are told, resource by resource, as far as that can be listed."""
        ...

    def check(self, values: Mapping[str, str]) -> None:
        """Check what a client has typed for variables of the template, before a function completes it.

        Raises:
            ValueError: A value is none that could be read with; see `VariableRule`.
        """
        ...

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """For each variable of the template, all strings it can be, if it can be only a few; else none."""
        ...

    @property
    def may_ask(self) -> bool:
        """Whether reading is given a context, by which the client can be asked."""
        ...

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult | NonFinalResult:
        """Return the contents.

        Raises:
            ResourceNotFound: There is no such resource.
            RequestError: The answer is this error.
        """
        ...


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
