"""Asking for notifications outside any other request. Spec: 2026-07-28, basic/patterns/subscriptions."""

from collections.abc import Sequence
from typing import final

from .._revisions import Revision
from ._fields import member, wire
from ._messages import NotificationParams, RequestParams, Result
from ._metadata import MetaObject

__all__ = [
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
]


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionFilter:
    """Which notifications are wanted, or will come.

    Attributes:
        tools_list_changed: Whether those of changes to the list of tools are.
        prompts_list_changed: Whether those of changes to the list of prompts are.
        resources_list_changed: Whether those of changes to the list of resources are.
        resource_subscriptions: The URIs of the resources whose changes are.
    """

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: Sequence[str] | None = None


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsListenRequestParams(RequestParams):
    """Ask for notifications."""

    notifications: SubscriptionFilter


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsListenResult(Result):
    """The end of a subscription, at the server's wish.

    Attributes:
        meta: It names the subscription and is required.
    """

    meta: MetaObject | None = member(default=None, required_in=(Revision.V2026_07_28,))


@final
@wire(since=Revision.V2026_07_28)
class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The beginning of a subscription.

    Attributes:
        notifications: What will come of what was wanted.
    """

    notifications: SubscriptionFilter
