"""What is kept, for how long and for whom. Spec: 2026-07-28, server/utilities/caching."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import CACHEABLE, CacheKey, CacheStore, cache_key

from trio_mcp import Change, PromptsListChanged, ResourcesListChanged, ResourceUpdated, Resynced, ToolsListChanged

ME, YOU = object(), object()


def key(method: str = "tools/list", context: object = "server", **params: Any) -> CacheKey:
    made = cache_key(context, method, params)
    assert made is not None
    return made


def put(store: CacheStore, what: CacheKey, value: object = "value", **changes: Any) -> None:
    options: dict[str, Any] = {"size": 10, "scope": "private", "ttl": 5.0, "now": 0.0, **changes}
    store.put(what, ME, value, **options)


def test_a_result_is_fresh_until_its_time_is_over() -> None:
    """ "Freshness Calculation": now < t_received + ttlMs."""
    store = CacheStore(10, 1000)
    put(store, key(), now=100.0)
    assert store.get(key(), ME, 104.999) == "value"
    assert store.get(key(), ME, 105.0) is None
    assert len(store) == store.size == 0, "what is stale is let go"


@pytest.mark.parametrize("ttl", [0.0, -1.0])
def test_a_result_that_is_stale_at_once_takes_the_old_one_along(ttl: float) -> None:
    """ "Time-to-Live (TTL) Field"."""
    store = CacheStore(10, 1000)
    put(store, key())
    put(store, key(), "newer", ttl=ttl)
    assert store.get(key(), ME, 1.0) is None


@pytest.mark.parametrize(
    "other",
    [
        key("prompts/list"),
        key(cursor="2"),
        key(cursor=None),
        key(context="another server"),
        key("resources/read", uri="a:b"),
    ],
)
def test_another_request_is_not_served(other: CacheKey) -> None:
    """ "Cache Key"."""
    store = CacheStore(10, 1000)
    put(store, key())
    assert store.get(other, ME, 1.0) is None


def test_what_does_not_affect_the_result_is_not_in_the_key() -> None:
    """ "Cache Key": the order of parameters, and `_meta`."""
    assert key(cursor="1", _meta={"progressToken": 1}) == key(_meta={"progressToken": 2}, cursor="1")
    assert key(a=1, b=2) == key(b=2, a=1)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("prompts/get", {}),
        ("resources/read", {"uri": "a:b", "inputResponses": {}}),
        ("resources/read", {"uri": "a:b", "requestState": "s"}),
    ],
)
def test_what_must_not_be_kept_has_no_key(method: str, params: dict[str, Any]) -> None:
    """ "Cacheable Results"; "Cache Key": results of retries depend on more than the key says."""
    assert cache_key("server", method, params) is None


def test_private_results_are_for_their_partition_and_public_ones_for_all() -> None:
    """ "Cache Scope Field"."""
    store = CacheStore(10, 1000)
    put(store, key())
    put(store, key("prompts/list"), scope="public")
    assert store.get(key(), ME, 1.0) == "value"
    assert store.get(key(), YOU, 1.0) is None
    assert store.get(key("prompts/list"), YOU, 1.0) == "value"


@pytest.mark.parametrize(("first", "second"), [("private", "public"), ("public", "private")])
def test_the_newer_result_replaces_the_older_whatever_its_scope(first: str, second: str) -> None:
    store = CacheStore(10, 1000)
    put(store, key(), "old", scope=first)
    put(store, key(), "new", scope=second)
    assert store.get(key(), ME, 1.0) == "new"
    assert store.get(key(), YOU, 1.0) == ("new" if second == "public" else None)
    assert len(store) == 1


def test_the_least_recently_used_go_first() -> None:
    store = CacheStore(2, 1000)
    put(store, key(cursor="1"))
    put(store, key(cursor="2"))
    assert store.get(key(cursor="1"), ME, 1.0)
    put(store, key(cursor="3"))
    assert store.get(key(cursor="2"), ME, 1.0) is None
    assert store.get(key(cursor="1"), ME, 1.0)


def test_what_is_too_large_is_not_kept_and_displaces_nothing() -> None:
    store = CacheStore(10, 25)
    put(store, key(cursor="1"))
    put(store, key(cursor="2"), size=26)
    assert store.get(key(cursor="1"), ME, 1.0)
    put(store, key(cursor="3"), size=20)
    assert store.get(key(cursor="1"), ME, 1.0) is None
    assert store.size == 20


@pytest.mark.parametrize(
    ("change", "outdated"),
    [
        (ToolsListChanged(), {"tools/list"}),
        (PromptsListChanged(), {"prompts/list"}),
        (ResourcesListChanged(), {"resources/list", "resources/templates/list", "skills/list", "skills/get"}),
        (ResourceUpdated("a:b"), {"resources/read"}),
        (Resynced("why"), CACHEABLE),
    ],
)
def test_a_change_outdates_what_it_concerns(change: Change, outdated: set[str]) -> None:
    """ "Interaction with Notifications"."""
    store = CacheStore(10, 1000)
    stamps = {method: store.stamp(method) for method in CACHEABLE}
    for method in CACHEABLE:
        put(store, key(method, uri="a:b"))
    store.outdate(change)
    assert {method for method in CACHEABLE if store.get(key(method, uri="a:b"), ME, 1.0) is None} == outdated
    assert {method for method in CACHEABLE if store.stamp(method) != stamps[method]} == outdated


@pytest.mark.parametrize(
    ("changed", "is_outdated"),
    [("a:b/c", True), ("a:b", True), ("a:b/c/d", True), ("a:x", False), ("a:b/cd", False)],
)
def test_an_update_outdates_the_resource_its_parts_and_what_holds_it(changed: str, is_outdated: bool) -> None:
    store = CacheStore(10, 1000)
    put(store, key("resources/read", uri="a:b/c"))
    put(store, CacheKey("server", "resources/read", b"{}"))
    store.outdate(ResourceUpdated(changed))
    assert (store.get(key("resources/read", uri="a:b/c"), ME, 1.0) is None) is is_outdated
    assert store.get(CacheKey("server", "resources/read", b"{}"), ME, 1.0) is not None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(1, 40), st.sampled_from(["public", "private"]), st.floats(-1, 10)
        )
    )
)
def test_it_is_never_larger_than_allowed(puts: list[tuple[int, int, str, float]]) -> None:
    store = CacheStore(3, 60)
    kept: dict[int, int] = {}
    for now, (cursor, size, scope, ttl) in enumerate(puts):
        put(store, key(cursor=str(cursor)), (cursor, size), size=size, scope=scope, ttl=ttl, now=float(now))
        kept[cursor] = size
        assert len(store) <= 3
        assert 0 <= store.size <= 60
        found = store.get(key(cursor=str(cursor)), ME, float(now))
        assert found in {None, (cursor, size)}
    store.clear()
    assert len(store) == store.size == 0
