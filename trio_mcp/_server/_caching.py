"""What clients are told about keeping results. Spec: 2026-07-28, server/utilities/caching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final, get_args

import attrs

from .._limits import check_seconds
from ..types import CacheScope

__all__ = ["CacheHint", "CacheHints"]


def _check_ttl(_instance: object, _attribute: attrs.Attribute[Any], value: float) -> None:
    check_seconds("ttl", value, is_told=True)


def _check_scope(_instance: object, _attribute: attrs.Attribute[Any], value: str) -> None:
    if value not in get_args(CacheScope):
        raise ValueError(f"scope must be one of {', '.join(get_args(CacheScope))}, not {value!r}")


@final
@attrs.frozen
class CacheHint:
    """How long a client may keep a result, and for whom. Clients of 2026-07-28 and later are told.

    Attributes:
        ttl: For how many seconds it is fresh; 0 means that it should be asked for each time.
        scope: ``"private"``: for whoever asked only. ``"public"``: for everybody, and gateways may serve it to
            anybody, whatever their authorization; so there must be nothing in it that is not for all.
    """

    ttl: float = attrs.field(default=0.0, validator=_check_ttl)
    scope: CacheScope = attrs.field(default="private", validator=_check_scope)

    @property
    def ttl_ms(self) -> int:
        """How long it is fresh, in milliseconds, as the wire has it."""
        return round(self.ttl * 1000)


NOT_KEPT: Final = CacheHint()
"""What is said where nothing else is: always ask, and share with nobody."""

_LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_ALIKE: Final = frozenset({*_LISTS, "server/discover"})
_CACHEABLE: Final = frozenset({*_ALIKE, "resources/read"})


@final
class CacheHints:
    """The hints of a server, by method.

    Args:
        given: One hint for all lists and `server/discover`, or hints by method, or nothing. What a resource says
            is only covered by name, ``"resources/read"``: it is the likeliest to be private.

    Raises:
        ValueError: A method is none whose result may be kept.
    """

    def __init__(self, given: CacheHint | Mapping[str, CacheHint] | None) -> None:
        if given is None:
            given = {}
        elif isinstance(given, CacheHint):
            given = dict.fromkeys(_ALIKE, given)
        for method in given:
            if method not in _CACHEABLE:
                known = ", ".join(sorted(_CACHEABLE))
                raise ValueError(f"cache: the result of {method!r} cannot be kept, only those of {known}")
        self._by_method = dict(given)

    def of(self, method: str) -> CacheHint:
        """Return what is said about the results of a method."""
        return self._by_method.get(method, NOT_KEPT)
