"""A request of ours, before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import attrs

from .._core._headers import HeaderField
from ._target import HttpTarget

__all__ = ["HttpRequest"]


@final
@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        method: In capitals.
        target: Where it goes.
        headers: What it says of itself, beside `Host`, `Content-Length` and what the connection needs.
        body: What it carries.
        on_sent: Called before its last bytes go, since from then on the server may have all of it.
    """

    method: str
    target: HttpTarget
    headers: Sequence[HeaderField] = ()
    body: bytes = b""
    on_sent: Callable[[], object] | None = attrs.field(default=None, eq=False, repr=False)
