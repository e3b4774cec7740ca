"""What many objects of the protocol carry: `_meta`, annotations, icons, and the open objects of JSON.

No object with a purpose of its own lives here.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, final

from .._revisions import Revision
from ._fields import member, wire

__all__ = ["Annotations", "Icon", "JSONObject", "MetaObject", "Role"]

JSONObject: TypeAlias = Mapping[str, object]
"""A JSON object whose members the protocol does not say. It is passed on as it is, neither checked nor copied."""

MetaObject: TypeAlias = Mapping[str, object]
"""The content of `_meta`: reserved keys of the protocol, and keys with a prefix of whoever put them there.

Spec: 2026-07-28, basic, "`_meta`".
"""

Role: TypeAlias = Literal["user", "assistant"]
"""Who speaks, or is spoken to, in a conversation."""


@final
@wire
class Annotations:
    """Hints for a client about what to do with an object.

    Attributes:
        audience: Whom it is for.
        priority: How much it matters, from 0 (optional) to 1 (required).
        last_modified: When it last changed, as an ISO 8601 date and time.
    """

    audience: Sequence[Role] | None = member(default=None, hint=True)
    priority: int | float | None = member(default=None, hint=True, minimum=0, maximum=1)
    last_modified: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire(since=Revision.V2025_11_25)
class Icon:
    """A picture that stands for something in a user interface.

    Where it comes from decides whether it can be trusted: fetch it without credentials, and be wary of scripts
    in SVG.

    Attributes:
        src: Its HTTPS or ``data:`` URI.
        mime_type: Its type, where that of the source is missing or too general.
        sizes: The sizes it is made for, each as ``"48x48"`` or ``"any"``.
        theme: The background it is made for; `None` if it suits every one.
    """

    src: str
    mime_type: str | None = member(default=None, hint=True)
    sizes: Sequence[str] | None = member(default=None, hint=True)
    theme: Literal["light", "dark"] | None = member(default=None, hint=True)
