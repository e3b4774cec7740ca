"""What a client must be able to do for a question, whichever way it is asked."""

from __future__ import annotations

from .. import types
from ._asking import Abilities
from ._elicitation import require_form, require_urls
from ._roots import require_roots

__all__ = ["require_for"]


def require_for(client: Abilities, params: object) -> None:
    """Check that a client can be asked what these parameters ask.

    Raises:
        CapabilityMissing: It has not declared it, or its revision lacks it.
    """
    match params:
        case types.ElicitRequestFormParams():
            require_form(client, params.requested_schema)
        case types.ElicitRequestURLParams():
            require_urls(client)
        case types.CreateMessageRequestParams():
            from ._sampling import require_sampling  # most servers never get here

            require_sampling(client, params)
        case _:
            require_roots(client)
