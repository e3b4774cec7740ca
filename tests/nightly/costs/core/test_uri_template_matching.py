"""From a URI to the variables of its template."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st
from inside_core import UriMatcher
from processor_time import costs_of

from trio_mcp import UriTemplate


def of(**variables: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(variables)


def test_a_hostile_uri_costs_little() -> None:
    """There is nothing to backtrack over; a regular expression for this would not end."""
    template = "x:" + "/".join(f"{{v{n}}}" for n in range(25)) + "{/rest*}/end{?q*}"
    matcher = UriMatcher(UriTemplate(template))

    def refuse(length: int) -> None:
        assert matcher.match("x:" + "a/" * length + "?" + "q=1&" * length) is None

    short, long = costs_of(partial(refuse, 7_500), partial(refuse, 30_000))
    assert long / short < 9, (short, long)
