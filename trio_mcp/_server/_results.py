"""From what a tool returned to the result its caller gets."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any, Final, Union, cast, get_args, get_origin

from .._absent import ABSENT
from .._codec import _json
from .._schema import CallSpec, is_unstructured, to_json
from ..types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from ._threads import Threads

__all__ = ["has_no_schema", "tool_result", "with_media_read"]

_MEDIA: Final = f"{__package__}._media"
_BYTES: Final = (bytes, bytearray)
_BLOCKS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)


def has_no_schema(hint: Any) -> bool:
    """Whether a tool annotated so returns what is shown, not structured output.

    That is text, bytes, files, pictures, sound, blocks, and a whole result. A list of text is a value with a
    schema; a list with blocks in it is shown.
    """
    if is_unstructured(hint) or _is_block(hint):
        return True
    parts = [part for part in get_args(hint) if part is not Ellipsis]
    if get_origin(hint) in {Union, types.UnionType}:
        return all(has_no_schema(part) for part in parts)
    is_list = get_origin(hint) in {list, tuple, Sequence}
    return is_list and all(has_no_schema(part) for part in parts) and any(_has_block(part) for part in parts)


def _read_first() -> tuple[type, ...]:
    """Return what must be read before it can be shown: bytes, files, pictures and sound.

    The latter are not imported for that: there can only be one where its class was imported.
    """
    media = sys.modules.get(_MEDIA)
    return _BYTES if media is None else (*_BYTES, media.File, media.Image, media.Audio)


def _is_block(hint: Any) -> bool:
    return hint is CallToolResult or hint in _BLOCKS or hint in _read_first()


def _has_block(hint: Any) -> bool:
    return _is_block(hint) or any(_has_block(part) for part in get_args(hint))


async def with_media_read(returned: Any, threads: Threads, max_bytes: int) -> Any:
    """Return what a tool returned, with blocks in the place of bytes, files, pictures and sound.

    Where something else is in a list with them, it is left as it is.

    Args:
        returned: What it returned.
        threads: How many threads there may be.
        max_bytes: How large a file may be.

    Raises:
        OSError: A file cannot be read.
        FileTooLarge: A file is too large.
        ValueError: A file is no picture, or no sound, although it should be.
    """
    read_first = _read_first()
    if isinstance(returned, read_first):
        return await _as_read_block(returned, threads, max_bytes)
    parts = _parts(returned)
    if parts is None or not any(isinstance(part, read_first) for part in parts):
        return returned
    if not all(_is_shown(part) or isinstance(part, read_first) for part in parts):
        return returned
    return [await _as_read_block(part, threads, max_bytes) for part in parts]


async def _as_read_block(part: Any, threads: Threads, max_bytes: int) -> Any:
    from ._media import block_of_bytes, block_of_media, is_media

    if isinstance(part, (bytes, bytearray)):
        return block_of_bytes(bytes(part))
    return await block_of_media(part, threads, max_bytes) if is_media(part) else part


def tool_result(returned: object, spec: CallSpec) -> CallToolResult:
    """Return the result for what a tool returned.

    With an output schema that is structured output, and the same as text for clients that only read text
    (2025-06-18, server/tools, "Structured Content"). Without, text and blocks are shown as they are, and any
    other value as JSON.

    Raises:
        InvalidValue: It does not fit what the tool is annotated with.
        TypeError: It has no form in JSON.
    """
    if isinstance(returned, CallToolResult):
        return returned
    if spec.output_schema is not None:
        value = spec.encode_result(returned)
        return CallToolResult(content=(_as_text(value),), structured_content=value)
    if returned is None:
        return CallToolResult(content=())
    if _is_shown(returned):
        return CallToolResult(content=(_as_block(returned),))
    parts = _parts(returned)
    if parts is not None and all(_is_shown(part) for part in parts):
        return CallToolResult(content=tuple(_as_block(part) for part in parts))
    plain = to_json(returned)
    return CallToolResult(
        content=(_as_text(plain),), structured_content=plain if _json.is_object(plain) else ABSENT
    )


def _parts(value: Any) -> Sequence[object] | None:
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def _is_shown(value: object) -> bool:
    return isinstance(value, (str, *_BLOCKS))


def _as_block(value: Any) -> Any:
    return TextContent(text=value) if isinstance(value, str) else value


def _as_text(value: object) -> TextContent:
    return TextContent(text=value if isinstance(value, str) else _json.encode(value).decode())
