"""What `Annotated` says about a type besides the type: `Field`, text, raw keywords, other libraries' bounds.

Metadata is read by its attributes, so that annotated-types, msgspec and pydantic are understood without being
imported. What a bound means for a given type is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast, final

import attrs

from .._core._header_marks import HEADER_KEYWORD

__all__ = ["BOUNDS", "Field", "Remark", "read_metadata"]

BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
"""Attributes of metadata objects that limit a value."""


@final
@attrs.frozen(eq=False, repr=False)
class Field:
    """What to tell about a parameter or attribute, inside `Annotated`.

    Example::

        def reserve(title: str, copies: Annotated[int, Field("How many.", ge=1)] = 1) -> None: ...

    Bounds are stated in the schema and enforced. A bound that does not apply to the type is an error when the
    function is registered.

    Attributes:
        description: One sentence or more for people and models; wins over the docstring.
        name: The name in JSON, where it is not the Python name (``from`` for ``from_``).
        title: A short name to display.
        examples: Values of the annotated type.
        ge: The least value.
        gt: What the value must be greater than.
        le: The greatest value.
        lt: What the value must be less than.
        multiple_of: What the value must be a multiple of; above 0.
        min_length: The least number of characters, items, members or bytes.
        max_length: The greatest number of characters, items, members or bytes.
        header: The name under which HTTP also carries the value, as ``Mcp-Param-<name>``, for whoever routes
            requests without reading them (2026-07-28, server/tools, "x-mcp-header"). Nothing secret; only text,
            whole numbers and booleans.
        pattern: A regular expression to be found in the text, in the part of the syntax that ECMA-262 and
            Python share. `$` matches at the very end only. It runs on whatever a peer sends: beware of
            repetitions inside repetitions.
        keywords: JSON Schema keywords to add to the schema as they are. Those that are assertions on
            numbers and sizes, or `pattern`, are enforced too.
    """

    description: str | None = None
    name: str | None = attrs.field(default=None, kw_only=True)
    title: str | None = attrs.field(default=None, kw_only=True)
    examples: Sequence[object] = attrs.field(default=(), kw_only=True)
    ge: Any = attrs.field(default=None, kw_only=True)
    gt: Any = attrs.field(default=None, kw_only=True)
    le: Any = attrs.field(default=None, kw_only=True)
    lt: Any = attrs.field(default=None, kw_only=True)
    multiple_of: Any = attrs.field(default=None, kw_only=True)
    min_length: int | None = attrs.field(default=None, kw_only=True)
    max_length: int | None = attrs.field(default=None, kw_only=True)
    pattern: str | None = attrs.field(default=None, kw_only=True)
    header: str | None = attrs.field(default=None, kw_only=True)
    keywords: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)

    def __repr__(self) -> str:
        told = ((field.name, getattr(self, field.name)) for field in attrs.fields(Field))
        return f"Field({', '.join(f'{name}={value!r}' for name, value in told if value not in (None, ()))})"


@final
@attrs.define(eq=False, repr=False)
class Remark:
    """One piece of metadata, read.

    Attributes:
        keywords: JSON Schema keywords: description, title and raw ones.
        bounds: Limits by their names in `BOUNDS`.
        examples: Values of the annotated type.
        name: The name in JSON.
    """

    keywords: dict[str, object] = attrs.field(factory=dict[str, object])
    bounds: dict[str, Any] = attrs.field(factory=dict[str, Any])
    examples: tuple[object, ...] = ()
    name: str | None = None


def read_metadata(metadata: Iterable[object]) -> list[Remark]:
    """Read the metadata of `Annotated`, in order; what is not understood is left out."""
    remarks: list[Remark] = []
    for item in metadata:
        if isinstance(item, str):
            remarks.append(Remark({"description": item}))
        elif isinstance(item, Mapping):
            remarks.append(Remark(dict(cast("Mapping[str, object]", item))))
        elif not isinstance(item, type):
            remarks.append(_read_object(item))
            # pydantic's FieldInfo keeps its bounds as a list of further metadata.
            further = getattr(item, "metadata", None)
            if isinstance(further, list):
                remarks += read_metadata(cast("list[object]", further))
    return remarks


def _read_object(item: object) -> Remark:
    remark = Remark()
    for source in ("keywords", "json_schema_extra", "extra_json_schema"):  # ours, pydantic's, msgspec's
        extra = getattr(item, source, None)
        if isinstance(extra, Mapping):
            remark.keywords.update(cast("Mapping[str, object]", extra))
    for source, keyword in (("documentation", "description"), ("description", "description"), ("title", "title")):
        text = getattr(item, source, None)
        if isinstance(text, str):
            remark.keywords[keyword] = text
    for bound in BOUNDS:
        limit = getattr(item, bound, None)
        if limit is not None and not callable(limit):
            remark.bounds[bound] = (
                cast("re.Pattern[str]", limit).pattern if isinstance(limit, re.Pattern) else limit
            )
    examples = getattr(item, "examples", None)
    if isinstance(examples, list | tuple):
        remark.examples = tuple(cast("Iterable[object]", examples))
    if isinstance(item, Field):
        remark.name = item.name
        if item.header is not None:
            remark.keywords[HEADER_KEYWORD] = item.header
    return remark
