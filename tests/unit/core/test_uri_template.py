"""Expanding URI templates: the test suite of RFC 6570, and what it leaves open."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from inside_core import MAX_TEMPLATE
from places import DATA

from trio_mcp import UriTemplate

TEMPLATES: Final = DATA / "uritemplate"


def cases(*names: str) -> list[tuple[str, Any, dict[str, Any]]]:
    found: list[tuple[str, Any, dict[str, Any]]] = []
    for name in names:
        groups: dict[str, Any] = json.loads((TEMPLATES / f"{name}.json").read_text(encoding="utf-8"))
        for group in groups.values():
            found += [(template, expected, group["variables"]) for template, expected in group["testcases"]]
    assert len(found) > 30
    return found


def test_expansion(subtests: pytest.Subtests) -> None:
    """RFC 6570, all four levels."""
    for template, expected, variables in cases("spec-examples", "spec-examples-by-section", "extended-tests"):
        with subtests.test(template=template):
            allowed = [expected] if isinstance(expected, str) else expected
            assert UriTemplate(template).expand(variables) in allowed


def test_what_is_no_template_is_refused(subtests: pytest.Subtests) -> None:
    """RFC 6570, section 3: an error is shown, not a URI that might be something else."""
    for template, expected, variables in cases("negative-tests"):
        with subtests.test(template=template):
            assert expected is False
            with pytest.raises(ValueError, match=r".+"):
                UriTemplate(template).expand(variables)


def test_values_by_name_and_by_keyword() -> None:
    """A keyword wins; what has no value leaves no trace."""
    template = UriTemplate("orders://{id}{?page,sort}")
    assert template.expand({"id": 1, "page": 2}, id=7) == "orders://7?page=2"
    assert template.expand(id="a/b", sort=None) == "orders://a%2Fb"
    assert template.expand() == "orders://"
    assert (str(template), repr(template)) == (
        "orders://{id}{?page,sort}",
        "UriTemplate('orders://{id}{?page,sort}')",
    )


def test_numbers_and_booleans_are_written_as_in_json() -> None:
    """The suite has numbers; booleans are ours."""
    assert UriTemplate("{a},{b},{c}").expand(a=6, b=-122.427, c=True) == "6,-122.427,true"
    assert UriTemplate("{?list*}").expand(list=[1, False]) == "?list=1&list=false"


@pytest.mark.parametrize("value", [object(), {1, 2}, [None], {"a": [1]}, [[1]]])
def test_what_no_variable_can_be_is_refused(value: Any) -> None:
    """A template does not guess how an object is written."""
    with pytest.raises(TypeError, match="text"):
        UriTemplate("{x}").expand(x=value)


def test_pairs_with_empty_values() -> None:
    """RFC 6570, section 3.2.1: what is named and empty keeps its equals sign where the operator says so."""
    pairs = {"keys": {"a": "", "b": "1"}}
    assert UriTemplate("{?keys*}").expand(pairs) == "?a=&b=1"
    assert UriTemplate("{;keys*}").expand(pairs) == ";a;b=1"
    assert UriTemplate("{/keys*}").expand(pairs) == "/a=/b=1"


def test_variables_are_known_once_and_in_order() -> None:
    """Registration looks at them."""
    assert UriTemplate("x:{b}{/a:3}{?b,c*}").variables == ("b", "a", "c")


def test_a_template_has_a_size() -> None:
    """The limit is named in the error."""
    UriTemplate("x" * MAX_TEMPLATE)
    with pytest.raises(ValueError, match=str(MAX_TEMPLATE)):
        UriTemplate("x" * (MAX_TEMPLATE + 1))


def test_literals_that_no_uri_contains_are_refused(subtests: pytest.Subtests) -> None:
    """RFC 6570, section 2.1. An apostrophe is let through: RFC 3986 allows it, and an erratum, too."""
    for template in ("a b", 'a"b', "a<b>", "a\x00b", "a%zzb", "a|b", "a\\b", "a^b"):
        with subtests.test(template=template), pytest.raises(ValueError, match="must be percent-encoded"):
            UriTemplate(template)
    assert UriTemplate("it's").expand() == "it's"
