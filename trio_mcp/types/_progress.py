"""How far a request has come. Spec: basic/patterns/progress (basic/utilities/progress until 2025-11-25)."""

from typing import final

from .._revisions import Revision
from ._fields import member, wire
from ._messages import NotificationParams, ProgressToken

__all__ = ["ProgressNotificationParams"]


@final
@wire
class ProgressNotificationParams(NotificationParams):
    """Tell whoever sent a request how far it has come.

    Attributes:
        progress_token: The token that came with the request.
        progress: How much is done. It grows from one notification to the next.
        total: How much there is to do, if that is known.
        message: What is being done, for people.
    """

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = member(default=None, hint=True)
    message: str | None = member(default=None, hint=True, since=Revision.V2025_03_26)
