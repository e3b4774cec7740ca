"""What clients are told about keeping results."""

from __future__ import annotations

from typing import Any

import pytest
from eras import ENDS

from trio_mcp import CacheHint, Revision, Server, open_client

LISTS = ("tools/list", "prompts/list")


async def nothing() -> str:
    return ""


def stocked(**options: Any) -> Server:
    server = Server("s", page_size=1, **options)
    for name in "abc":
        server.tool(name=name)(nothing)
        server.prompt(name=name)(nothing)
    return server


async def hints(server: Server, method: str, revision: Revision) -> set[tuple[Any, Any]]:
    """Return ttlMs and cacheScope of every page of a list."""
    found: set[tuple[Any, Any]] = set()
    params: dict[str, Any] = {}
    async with open_client(server, revision=revision) as client:
        while True:
            result = await client.request(method, params)
            found.add((result.get("ttlMs"), result.get("cacheScope")))
            if "nextCursor" not in result:
                return found
            params = {"cursor": result["nextCursor"]}


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize("method", LISTS)
async def test_by_default_nothing_is_to_be_kept(revision: Revision, method: str) -> None:
    """2026-07-28, server/utilities/caching, "Cacheable Results": the hints must be there; before, there are none."""
    expected = (0, "private") if revision.is_modern else (None, None)
    assert await hints(stocked(), method, revision) == {expected}


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize("method", LISTS)
async def test_one_hint_is_for_all_lists_and_all_their_pages(revision: Revision, method: str) -> None:
    """2026-07-28, server/utilities/caching, "Interaction with Pagination": the same scope on all pages."""
    expected = (60_500, "public") if revision.is_modern else (None, None)
    assert await hints(stocked(cache=CacheHint(60.5, "public")), method, revision) == {expected}


async def test_hints_can_differ_by_method() -> None:
    server = stocked(cache={"tools/list": CacheHint(ttl=1), "server/discover": CacheHint(2, scope="public")})
    newest = Revision.V2026_07_28
    assert await hints(server, "tools/list", newest) == {(1000, "private")}
    assert await hints(server, "prompts/list", newest) == {(0, "private")}
    assert await hints(server, "server/discover", newest) == {(2000, "public")}
    assert await hints(stocked(), "server/discover", newest) == {(0, "private")}


def test_what_resources_say_is_only_covered_by_name() -> None:
    """It is the likeliest to be somebody's own."""
    everything = Server("s", cache=CacheHint(60, "public"))
    assert everything._application.listing.hint_for("resources/list") == CacheHint(60, "public")
    assert everything._application.listing.hint_for("resources/read") == CacheHint(0, "private")
    assert Server("s", cache={"resources/read": CacheHint(5)})._application.listing.hint_for(
        "resources/read"
    ) == CacheHint(5)


@pytest.mark.parametrize("ttl", [-1, float("inf"), float("nan")])
def test_a_ttl_is_a_finite_number_of_seconds(ttl: float) -> None:
    """2026-07-28, server/utilities/caching, "Time-to-Live (TTL) Field": at least 0, an integer on the wire."""
    with pytest.raises(ValueError, match="ttl must be a finite number of seconds"):
        CacheHint(ttl)


def test_a_scope_is_one_of_two() -> None:
    scope: Any = "shared"
    with pytest.raises(ValueError, match="scope must be one of public, private"):
        CacheHint(1, scope)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "nonsense"])
def test_only_results_that_can_be_kept_have_hints(method: str) -> None:
    with pytest.raises(ValueError, match=f"'{method}' cannot be kept"):
        Server("s", cache={method: CacheHint(1)})
