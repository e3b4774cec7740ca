"""What waits for a listener, and which changes concern it."""

from __future__ import annotations

from typing import Any

import pytest
from inside_core import ChangeQueue, changes_in, covers, notification_of, read_change, ungranted, wants

from trio_mcp import (
    Change,
    Notification,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    Resynced,
    ToolsListChanged,
)
from trio_mcp.types import SubscriptionFilter

EVERYTHING = SubscriptionFilter(
    tools_list_changed=True,
    prompts_list_changed=True,
    resources_list_changed=True,
    resource_subscriptions=["a:b"],
)
CHANGES: list[Change] = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), ResourceUpdated("a:b")]


def test_a_queue_gives_back_what_it_was_given_once_and_in_order() -> None:
    queue = ChangeQueue(4, 10_000)
    assert all(queue.push(change) for change in CHANGES + CHANGES[::-1])
    assert len(queue) == 4
    assert [queue.pop() for _ in range(4)] == CHANGES
    with pytest.raises(KeyError):
        queue.pop()
    assert queue.push(CHANGES[0])


def test_a_full_queue_takes_what_it_holds_and_nothing_else() -> None:
    queue = ChangeQueue(2, 10_000)
    assert queue.push(ResourceUpdated("a:1"))
    assert queue.push(ResourceUpdated("a:2"))
    assert queue.push(ResourceUpdated("a:1"))
    assert not queue.push(ResourceUpdated("a:3"))
    assert len(queue) == 2


def test_a_queue_is_full_of_bytes() -> None:
    """Promise 10: the URIs come from the server, and may be as long as a message."""
    queue = ChangeQueue(100, 10_000)
    assert queue.push(ResourceUpdated("a:" + "x" * 1_000))
    assert queue.push(ResourceUpdated("b:" + "x" * 1_000))
    assert not queue.push(ResourceUpdated("c:" + "x" * 1_000))
    queue.pop()
    assert queue.push(ResourceUpdated("c:" + "x" * 1_000))
    assert queue.push(Resynced("all"))
    assert queue.push(ResourceUpdated("d:" + "x" * 2_000))


def test_resynced_stands_for_all_that_waits_before_it() -> None:
    queue = ChangeQueue(2, 10_000)
    queue.push(ResourceUpdated("a:1"))
    queue.push(ResourceUpdated("a:2"))
    assert queue.push(Resynced("first"))
    assert queue.push(ToolsListChanged())
    assert queue.push(Resynced("second"))
    assert [queue.pop() for _ in range(len(queue))] == [Resynced("second")]
    queue.push(ToolsListChanged())
    queue.clear()
    assert len(queue) == 0


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_becomes_a_notification_and_back(change: Change) -> None:
    notification = notification_of(change, {"x": 1})
    assert read_change(notification) == change
    assert notification.params is not None
    assert notification.params["_meta"] == {"x": 1}
    assert "_meta" not in (notification_of(change, {}).params or {})


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}, {"uri": None}])
def test_an_update_of_nothing_is_no_change(params: dict[str, Any] | None) -> None:
    assert read_change(Notification("notifications/resources/updated", params)) is None
    assert read_change(Notification("notifications/message", params)) is None


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wanted_is_what_was_asked_for(change: Change) -> None:
    assert wants(EVERYTHING, change)
    assert not wants(SubscriptionFilter(), change)
    assert wants(SubscriptionFilter(), Resynced("why"))
    assert changes_in(EVERYTHING) == CHANGES


def test_a_resource_covers_its_parts() -> None:
    cases: list[tuple[str, str, bool]] = [
        ("file:///a", "file:///a", True),
        ("file:///a", "file:///a/b", True),
        ("file:///a", "file:///a?b", True),
        ("file:///a", "file:///a#b", True),
        ("file:///a/", "file:///a/b", True),
        ("file:///a", "file:///ab", False),
        ("file:///a/b", "file:///a", False),
        ("file:///a", "other", False),
    ]
    for uri, changed, is_covered in cases:
        assert covers(uri, changed) is is_covered


def test_what_was_not_granted_is_named() -> None:
    assert ungranted(EVERYTHING, EVERYTHING) == []
    assert ungranted(EVERYTHING, SubscriptionFilter(prompts_list_changed=True)) == [
        "tools_list_changed",
        "resources_list_changed",
        "a:b",
    ]
    assert ungranted(SubscriptionFilter(), EVERYTHING) == []
