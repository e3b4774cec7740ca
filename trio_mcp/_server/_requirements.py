"""What a client must be able to do for a question, whichever way it is asked."""

from __future__ import annotations

from ..types import CreateMessageRequestParams, ElicitRequestFormParams, ElicitRequestURLParams
from ._asking import Abilities
from ._elicitation import require_form, require_urls
from ._roots import require_roots
from ._sampling import require_sampling

__all__ = ["require_for"]


def require_for(client: Abilities, params: object) -> None:
    """Check that a client can be asked what these parameters ask.

    Raises:
        CapabilityMissing: It has not declared it, or its revision lacks it.
    """
    match params:
        case ElicitRequestFormParams():
            require_form(client, params.requested_schema)
        case ElicitRequestURLParams():
            require_urls(client)
        case CreateMessageRequestParams():
            require_sampling(client, params)
        case _:
            require_roots(client)
