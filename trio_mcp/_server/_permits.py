"""Who may use a tool, a resource or a prompt: by scopes, or by what a function says of the principal.

What somebody may not use is not listed for them, and refused when it is used. Over HTTP the endpoint refuses it
first, where more scopes can help (`_endpoint._authorization`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias, cast, final

import attrs

from .._channel import Origin
from .._errors import INVALID_REQUEST, RequestError
from .._oauth._principal import Principal, as_principal

Scopes: TypeAlias = Collection[str] | Callable[[Principal | None], bool]
"""Who may use something: the scopes that a principal needs, all of them; or a function of the principal, which is
`None` for an anonymous client, and returns whether it may. Over stdio and in memory, where a client is whoever
has started the server, nothing is asked."""


@final
@attrs.frozen
class Permit:
    """Who may use one thing.

    Attributes:
        scopes: The scopes that it needs.
        decide: Says whether a principal may use it; `None` if the scopes alone decide.
    """

    scopes: frozenset[str]
    decide: Callable[[Principal | None], bool] | None = None

    def allows(self, origin: Origin | None) -> bool:
        """Whether it may be used by whoever has sent a message."""
        if origin is None:
            return True
        principal = as_principal(origin.principal)
        return self.decide(principal) if self.decide is not None else self.lacking(principal) is None

    def lacking(self, principal: Principal | None) -> frozenset[str] | None:
        """Return its scopes, if a principal lacks any of them; `None` if not, and if no scope would help."""
        has = frozenset[str]() if principal is None else principal.scopes
        return None if self.decide is not None or self.scopes <= has else self.scopes

    def refusal(self, unknown: RequestError) -> RequestError:
        """Return the error for who may not use it.

        Args:
            unknown: The error for what does not exist. Where no scope would help, it shows no more than that.
        """
        if self.decide is not None:
            return unknown
        needed = sorted(self.scopes)
        return RequestError(INVALID_REQUEST, f"this needs the scopes {', '.join(needed)}", {"scopes": needed})


def read_scopes(scopes: Scopes | None) -> Permit | None:
    """Return the permit that the option `scopes` stands for; `None` if everybody may use it.

    Raises:
        TypeError: It is a string, or neither a function nor a collection of strings.
    """
    if scopes is None:
        return None
    if callable(scopes):
        return Permit(frozenset(), scopes)
    _check_names(scopes)
    return Permit(frozenset(scopes)) if scopes else None


def _check_names(given: object) -> None:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"scopes must be several strings or a function, not {given!r}")
    for name in cast("Collection[object]", given):
        if not isinstance(name, str) or not name or " " in name:
            raise TypeError(f"scopes must be strings without spaces, not {name!r}")
