"""Log messages from server to client. Spec: server/utilities/logging. Deprecated since 2026-07-28 (SEP-2577)."""

from typing import Literal, TypeAlias, final

from .._absent import ABSENT, Absent
from .._revisions import Revision
from ._fields import member, wire
from ._messages import NotificationParams, RequestParams

__all__ = ["LoggingLevel", "LoggingMessageNotificationParams", "SetLevelRequestParams"]

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How severe a log message is, mildest first, as in RFC 5424, section 6.2.1."""


@final
@wire(until=Revision.V2025_11_25)
class SetLevelRequestParams(RequestParams):
    """Ask for log messages of a level and above. From 2026-07-28 on a key of each request's `_meta` does this."""

    level: LoggingLevel


@final
@wire
class LoggingMessageNotificationParams(NotificationParams):
    """One log message.

    Attributes:
        level: How severe it is.
        logger: What it comes from.
        data: Any JSON value, often a string or an object. All revisions require it, but peers that drop every
            ``null`` drop this one as well; then it is `ABSENT`.
    """

    level: LoggingLevel
    logger: str | None = member(default=None, hint=True)
    data: object | Absent = member(default=ABSENT, required_in=tuple(Revision))
