"""What the protocol's own errors say in `data`. Their codes and the error itself live with the exceptions."""

from collections.abc import Sequence
from typing import final

from .._revisions import Revision
from ._capabilities import ClientCapabilities
from ._elicitation import ElicitRequestURLParams
from ._fields import wire

__all__ = [
    "MissingRequiredClientCapabilityData",
    "URLElicitationRequiredData",
    "UnsupportedProtocolVersionData",
]


@final
@wire(since=Revision.V2026_07_28)
class UnsupportedProtocolVersionData:
    """The server does not speak the revision of the request (-32022).

    Attributes:
        supported: The revisions it speaks.
        requested: The revision of the request.
    """

    supported: Sequence[str]
    requested: str


@final
@wire(since=Revision.V2026_07_28)
class MissingRequiredClientCapabilityData:
    """The server cannot answer a client that can do so little (-32021).

    Attributes:
        required_capabilities: What the client must be able to do.
    """

    required_capabilities: ClientCapabilities


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class URLElicitationRequiredData:
    """The user must go to a URL before the request can be answered (-32042).

    Attributes:
        elicitations: What to ask the user.
    """

    elicitations: Sequence[ElicitRequestURLParams]
