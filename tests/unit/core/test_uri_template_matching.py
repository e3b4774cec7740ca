"""From a URI to the variables of its template."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside_core import MAX_PARTS, UriMatcher

from trio_mcp import UriTemplate


def match(template: str, uri: str) -> Any:
    return UriMatcher(UriTemplate(template)).match(uri)


def test_matching() -> None:
    """2026-07-28, server/resources, "Resource Templates"; RFC 6570, section 1.4, read backwards."""
    cases: list[tuple[str, str, object]] = [
        # Simple expansion: one path segment, or a part of it.
        ("orders://{id}", "orders://7", {"id": "7"}),
        ("orders://{id}", "ORDERS://7", {"id": "7"}),
        ("orders://{id}", "orders://", None),
        ("orders://{id}", "orders://7/lines", None),
        ("orders://{id}", "orders://a%2Fb", {"id": "a/b"}),
        ("orders://{id}", "orders://gr%C3%BCn", {"id": "grün"}),
        ("orders://{id}", "orders://%C3%28", None),  # not UTF-8
        ("orders://{id}", "orders://50%", None),
        ("orders://{id}", "orders://a@b:c,d", {"id": "a@b:c,d"}),  # written by hand
        ("orders://{id}/lines/{n}", "orders://7/lines/2", {"id": "7", "n": "2"}),
        ("x:{a}:{b}", "x:1:2", {"a": "1", "b": "2"}),
        ("x:{a}:{b}", "x:1:2:3", {"a": "1", "b": "2:3"}),
        ("x:{a,b}", "x:1,2", {"a": "1", "b": "2"}),
        ("x:{a,b}", "x:1", None),
        ("x:{a*}", "x:1,2", {"a": ["1", "2"]}),
        ("x:{a*}", "x:%C3", None),
        ("x:{a*,b}", "x:1,2,3", {"a": ["1", "2"], "b": "3"}),
        ("x:a{v}b", "x:aab-bb", {"v": "ab-b"}),
        ("x:a{v}b", "x:aab-bc", None),
        ("caf%C3%A9:{x}", "caf%c3%a9:%31", {"x": "1"}),
        ("x:caf%C3%A9/%61/{x}", "x:caf%c3%a9/a/1", {"x": "1"}),
        ("x:y", "x:y", {}),
        ("x:y", "x:yz", None),
        # Prefixes.
        ("x:{a:3}", "x:abc", {"a": "abc"}),
        ("x:{a:3}", "x:ab", {"a": "ab"}),
        ("x:{a:3}", "x:abcd", None),
        ("x:{a:1}/{a}", "x:d/dune", {"a": "dune"}),
        ("x:{a:1}/{a}", "x:e/dune", None),
        ("x:{a:1}/{a:3}", "x:d/dun", {"a": "dun"}),
        ("x:{a}/{a}", "x:1/1", {"a": "1"}),
        ("x:{a}/{a}", "x:1/2", None),
        ("x:{a*}/{a:1}", "x:1/1", None),
        # Reserved expansion: paths.
        ("file:///{+path}", "file:///a/b%20c.txt", {"path": "a/b c.txt"}),
        ("file:///{+path}", "file:///a?b#c", {"path": "a?b#c"}),
        ("file:///{+path}/{name}", "file:///a/b/c", {"path": "a/b", "name": "c"}),
        ("file:///{+path}/{name}", "file:///c", None),
        ("file:///{+path}.json", "file:///a/b.json", {"path": "a/b"}),
        ("file:///{+path}.json", "file:///a/b.xml", None),
        ("file:///{+path}{?rev}", "file:///a/b?rev=2", {"path": "a/b", "rev": "2"}),
        ("file:///{+path}{#line}", "file:///a?b#L2", {"path": "a?b", "line": "L2"}),
        ("x:{+a:2}", "x:/b", {"a": "/b"}),
        # Segments and labels.
        ("x:a{/b}", "x:a", {}),
        ("x:a{/b}", "x:a/", {"b": ""}),
        ("x:a{/b}", "x:a/1", {"b": "1"}),
        ("x:a{/b}", "x:a/1/2", None),
        ("x:a{/b}/c", "x:a/c", {}),
        ("x:a{/b}/c", "x:a/1/c", {"b": "1"}),
        ("x:a{/b}/c", "x:a1/c", None),
        ("x:a{/b,c}", "x:a/1/2", {"b": "1", "c": "2"}),
        ("x:a{/b,c}", "x:a//", {"b": "", "c": ""}),
        ("x:a{/b*}", "x:a", {}),
        ("x:a{/b*}", "x:a/1//2", {"b": ["1", "", "2"]}),
        ("x:a{/b*}{?q}", "x:a/1/2?q=3", {"b": ["1", "2"], "q": "3"}),
        ("x:{a}{/b}", "x:1", {"a": "1"}),
        ("x:{a}{/b}", "x:1/2", {"a": "1", "b": "2"}),
        ("x:a/b{.ext}", "x:a/b", {}),
        ("x:a/b{.ext}", "x:a/b.tar.gz", {"ext": "tar.gz"}),
        # Queries: any order, each optional.
        ("x:a{?q,r}", "x:a", {}),
        ("x:a{?q,r}", "x:a?q=1&r=2", {"q": "1", "r": "2"}),
        ("x:a{?q,r}", "x:a?r=2&q=1", {"q": "1", "r": "2"}),
        ("x:a{?q,r}", "x:a?r=", {"r": ""}),
        ("x:a{?q,r}", "x:a?r", {"r": ""}),
        ("x:a{?q}", "x:a?q=a=b/c?d", {"q": "a=b/c?d"}),
        ("x:a{?q}", "x:a?q=1+1", {"q": "1+1"}),
        ("x:a{?q}", "x:a?", None),
        ("x:a{?q}", "x:a?q=1&q=1", None),
        ("x:a{?q}", "x:a?other=1", None),
        ("x:a{?q}", "x:a?q=%C3", None),
        ("x:a{?q}", "x:a?q=1#f", None),
        ("x:a{?q:2}", "x:a?q=123", None),
        ("x:a{?q*}", "x:a?q=1&q=2", {"q": ["1", "2"]}),
        ("x:a{?q}{&r}", "x:a?r=1", {"r": "1"}),
        ("x:a{?caf%c3%a9}", "x:a?caf%C3%A9=1", {"caf%c3%a9": "1"}),
        ("x:a?v=1{&q,r}", "x:a?v=1&r=2", {"r": "2"}),
        ("x:a?v=1{&q,r}", "x:a?v=1", {}),
        ("x:a?v=1{&q,r}", "x:a", None),
        ("x:a?v=1&w=2{&q}", "x:a?v=1&w=2&q=3", {"q": "3"}),
        ("x:a?v={v}&w=2{&q}", "x:a?v=1&w=2&q=3", {"v": "1", "q": "3"}),
        ("x:{+p}/a?v=1{&q}", "x:b&c/a?v=1&q=3", {"p": "b&c", "q": "3"}),
        ("x:a?q={q}&r={r}", "x:a?q=1&r=2", {"q": "1", "r": "2"}),
        # Fragments.
        ("x:a{#f}", "x:a", {}),
        ("x:a{#f}", "x:a#", {"f": ""}),
        ("x:a{#f}", "x:a#/b?c", {"f": "/b?c"}),
        ("x:a{?q}{#f}", "x:a?q=1#2", {"q": "1", "f": "2"}),
        ("x:a{?q}{#f}", "x:a#2", {"f": "2"}),
    ]
    for template, uri, found in cases:
        assert match(template, uri) == found


def test_what_could_be_read_in_two_ways_is_refused(subtests: pytest.Subtests) -> None:
    """At registration, not when the wrong variable arrives; they can still be expanded."""
    cases: list[tuple[str, str]] = [
        ("x:{a}{b}", "where a ends and b begins"),
        ("x:{a}-{b}", "where a ends and b begins"),
        ("x:{name}.{ext}", "where name ends and ext begins"),
        ("x:{name}{.ext}", "where name ends and ext begins"),
        ("x:{+a}/{+b}", "where a ends and b begins"),
        ("x:{+a,b}", "where a ends and b begins"),
        ("x:{+a}{/b}", "where a ends and b begins"),
        ("x:{/a*}{/b*}", "where a ends and b begins"),
        ("x:a{.b,c}", "where b ends and c begins"),
        ("x:{+a*}", "may contain ','"),
        ("x:a{.b*}", r"may contain '\.'"),
        ("x:a{#b,c}", "several ways"),
        ("x:a{;b}", "path parameters"),
        ("x:a{&b}", r"needs a \?"),
        ("x:a?b=1{?c}", r"write \{&"),
        ("x:a{?b}{?c}", r"write \{&"),
        ("x:a#b{?c}", "after a #"),
        ("x:a{?b,b}", "twice"),
        ("x:a{?b}/c", "after the end"),
        ("x:a{?b}{c}", "after the end"),
        ("x:a{#b}c", "after the end"),
        ("x:a?b={+b}{&c}", "may contain the &"),
        ("x:" + "{a}/" * MAX_PARTS, f"at most {MAX_PARTS}"),
    ]
    for template, reason in cases:
        with subtests.test(template=template):
            parsed = UriTemplate(template)
            with pytest.raises(ValueError, match=reason):
                UriMatcher(parsed)
            assert parsed.expand()


def test_it_is_known_what_may_be_missing_and_what_is_a_list() -> None:
    """Registration compares that with the function."""
    matcher = UriMatcher(UriTemplate("x:{a}{/b*}{?c,d*}{#e}"))
    assert matcher.optional == {"b", "c", "d", "e"}
    assert matcher.lists == {"b", "d"}


# What was expanded is found again.

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FILLED = TEXT.filter(bool)
# `{+x}` hands on what looks encoded as it is, so two values have one expansion.
RESERVED = FILLED.filter(lambda text: "%" not in text)
PATHS = RESERVED.filter(lambda text: not set("?#") & set(text))
LISTS = st.lists(TEXT, min_size=1, max_size=4)
# As simple expansion, a list of one empty text is nothing.
FILLED_LISTS = LISTS.filter(lambda parts: parts != [""])


def of(**variables: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(variables)


def perhaps(needed: dict[str, st.SearchStrategy[Any]], **variables: st.SearchStrategy[Any]) -> Any:
    return st.fixed_dictionaries(needed, optional=variables)


ROUND_TRIPS: list[tuple[str, st.SearchStrategy[dict[str, Any]]]] = [
    ("x:{a}", of(a=FILLED)),
    ("x://{a}/y/{b}:{c}", of(a=FILLED, b=FILLED, c=FILLED)),
    ("x:{a,b}", of(a=FILLED, b=FILLED)),
    ("x:{a*}", of(a=FILLED_LISTS)),
    ("x:{a*,b}/{c}", of(a=FILLED_LISTS, b=FILLED, c=FILLED)),
    ("x:a{v}.json", of(v=FILLED)),
    ("x:{a:3}", of(a=st.text(min_size=1, max_size=3))),
    ("x:{a:1}/{a}", of(a=FILLED)),
    ("x:{+p}", of(p=RESERVED)),
    ("x:{+p}/{a}", of(p=PATHS, a=FILLED)),
    ("x:{+p}/{a}.txt", of(p=PATHS, a=FILLED)),
    ("x:{a}/{+p}{?q}{#f}", perhaps({"a": FILLED, "p": PATHS}, q=TEXT, f=TEXT.filter(lambda t: "%" not in t))),
    ("x:{a}{/b}{?c,d*}", perhaps({"a": FILLED}, b=TEXT, c=TEXT, d=LISTS)),
    # Without c, RFC 6570 would write no question mark.
    ("x:a{/b*}{?c}{&d,e}", perhaps({"c": TEXT}, b=LISTS, d=TEXT, e=TEXT)),
    ("x:a{/b,c}/{d}", of(b=TEXT, c=TEXT, d=FILLED)),
    ("x:a/b{.ext}", perhaps({}, ext=TEXT)),
    ("x:a{/b}/c", perhaps({}, b=TEXT)),
    ("x:a?b={b}&c=1{&d,e*}{#f}", perhaps({"b": FILLED}, d=TEXT, e=LISTS, f=TEXT.filter(lambda t: "%" not in t))),
    ("x:{+p}/a?b=1{&d}", perhaps({"p": PATHS}, d=TEXT)),
]


@pytest.mark.parametrize(("template", "variables"), ROUND_TRIPS)
@settings(max_examples=settings().max_examples // 3)  # for each template
@given(data=st.data())
def test_what_was_expanded_is_found_again(
    template: str, variables: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    """RFC 6570 alone decides what a URI of a supported template means."""
    parsed = UriTemplate(template)
    values = data.draw(variables)
    assert UriMatcher(parsed).match(parsed.expand(values)) == values


# Any template at all, of the smallest parts.
PIECES = ("{a}", "{b}", "{+c}", "{/d}", "{/e*}", "{.f}", "{g*}", "{h,i}", "/", "-", ".", "x", ":")


@given(
    pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=5, unique=True),
    tail=st.sampled_from(["", "{?q,r*}", "{#s}", "{?q}{#s}"]),
    data=st.data(),
)
def test_a_template_is_refused_or_read_rightly(pieces: list[str], tail: str, data: st.DataObject) -> None:
    """There is no third way: whatever is not refused gives back what was expanded."""
    parsed = UriTemplate("t:" + "".join(pieces) + tail)
    try:
        matcher = UriMatcher(parsed)
    except ValueError:
        return
    short = st.text("a-./:,", max_size=3)
    values: dict[str, Any] = {}
    for name in parsed.variables:
        if name in matcher.lists:
            drawn: Any = data.draw(st.lists(short, min_size=1, max_size=3).filter(lambda parts: parts != [""]))
        else:
            drawn = data.draw(short if name in matcher.optional else short.filter(bool))
        if name not in matcher.optional or data.draw(st.booleans()):
            values[name] = drawn
    assert matcher.match(parsed.expand(values)) == values


@given(st.text("ab%2F-/?#&=.", max_size=40))
def test_no_text_is_too_odd(text: str) -> None:
    """Whatever comes is matched or not; it never fails."""
    for template, _ in ROUND_TRIPS:
        match(template, text)
