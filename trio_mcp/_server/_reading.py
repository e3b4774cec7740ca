"""The interface of sources of resources, and the types of contents, found by name or by bytes.

The sources themselves are in `_resources` and `_files`.
"""

from __future__ import annotations

import abc
import base64
import functools
import mimetypes
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import attrs

from .. import types
from .._limits import Limits
from ._context import Context
from ._input_required import Asking, NonFinalResult
from ._threads import Threads

if TYPE_CHECKING:
    from .._core._uri_matching import Found


@final
@attrs.frozen
class Reading:
    """One request to read a resource.

    Attributes:
        uri: The URI, as the client has written it.
        context: The request.
        threads: The threads that read files and call functions.
        limits: Limits the size of files.
    """

    uri: str
    context: Context[Any]
    threads: Threads
    limits: Limits


@attrs.frozen(eq=False, kw_only=True)
class ResourceSource(abc.ABC):
    """Gives the contents of one resource, or of many.

    Attributes:
        template: What clients see of all its resources; `None` if it is a single one.
        blocks: Whether `resources` looks at the disk, so that it is called in a thread.
    """

    blocks: ClassVar[bool] = False
    template: types.ResourceTemplate | None

    def match(self, uri: str) -> Found | None:
        """Return the variables of a URI, normalised, for `read`; `None` if it is not one of this source.

        A single resource is only called with its own URI, and has none.
        """
        del uri
        return {}

    @abc.abstractmethod
    def resources(self) -> Iterator[types.Resource]:
        """Yield the resources that can be listed, as clients see them."""

    def check(self, values: Mapping[str, str | list[str]]) -> None:
        """Check what a client has typed for variables of the template, before a function completes it.

        Raises:
            ValueError: A resource could not be read with a value; see `VariableRule`.
        """

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """For each variable of the template, all texts it can be, if it can be only a few; else empty.

        Empty for directories, too: completion discloses no names of files.
        """
        return {}

    @property
    def asking(self) -> Asking:
        """Whether reading it may ask the client, and what happens to the handler meanwhile."""
        return Asking.NEVER

    @abc.abstractmethod
    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult | NonFinalResult:
        """Return the contents.

        Raises:
            ResourceNotFound: There is no such resource.
            RequestError: The answer is this error.
        """


BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"
PLAIN_TEXT: Final = "text/plain"

# Types that Python's table lacks, or lacked in 3.11, or names as no browser does.
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
    # Python's own table, not the system's, so that types do not depend on the machine.
    table = mimetypes.MimeTypes()
    for extension, kind in _MORE.items():
        table.add_type(kind, extension)
    return table


def guess_type(name: str) -> str | None:
    """Return the type that a file of this name has, or `None` if the name does not show it."""
    kind, packed = _table().guess_type(f"file:{name}" if ":" in name else name)
    return kind if packed is None else _PACKED.get(packed, BINARY)


def type_by_uri(uri: str) -> str | None:
    """Return the type that the end of a URI's path shows, or `None`."""
    return guess_type(uri.partition("?")[0].partition("#")[0].rpartition("/")[2])


def type_of_result(uri: str, hint: Any) -> str | None:
    """Return the type that a resource probably has: by the end of its URI, or by what its function returns.

    Args:
        uri: The URI, or the text of the template.
        hint: The function's return annotation, or the type of the contents.
    """
    by_name = type_by_uri(uri)
    return PLAIN_TEXT if by_name is None and hint is str else by_name


def sniff_type(data: bytes) -> str | None:
    """Return the type of data by its first bytes, or `None` if they show none."""
    return next((kind for pattern, kind in _BEGINNINGS if re.match(pattern, data, re.DOTALL)), None)


def blob_of(uri: str, data: bytes, kind: str | None) -> types.BlobResourceContents:
    """Return bytes as the contents of a resource; without a type, their first bytes decide."""
    blob = base64.b64encode(data).decode("ascii")
    return types.BlobResourceContents(uri=uri, mime_type=kind or sniff_type(data) or BINARY, blob=blob)


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
