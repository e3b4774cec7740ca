"""What a server says of its pages gets into a policy only if it is an origin; the policies are those of the page."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import (
    MAX_DOMAINS,
    begins_as_html,
    is_app_type,
    mime_types_in,
    page_of,
    read_page,
    tool_meta,
    visibility_of,
)

from trio_mcp import AppCsp, AppPermissions, RemoteProtocolError
from trio_mcp.types import Tool


def page_with(**ui: Any) -> Any:
    return read_page("ui://clock", "<!doctype html>", {"ui": ui})


def directives(policy: str) -> dict[str, list[str]]:
    return {name: sources for name, *sources in (part.split() for part in policy.split(";"))}


def test_the_policy_without_a_declaration_is_the_restrictive_one() -> None:
    """SEP-1865, "Host Behavior", with what "Sandbox proxy", item 5, adds."""
    assert directives(page_with().csp_header) == {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-inline'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "media-src": ["'self'", "data:"],
        "connect-src": ["'none'"],
        "frame-src": ["'none'"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
    }


def test_the_policy_has_what_is_declared_and_no_more() -> None:
    """SEP-1865, "Content Security Policy Enforcement"."""
    page = page_with(
        csp={
            "connectDomains": ["https://api.example.com", "wss://live.example.com:8443"],
            "resourceDomains": ["https://*.cdn.example.com"],
            "frameDomains": ["https://video.example.com"],
            "baseUriDomains": ["https://base.example.com"],
        }
    )
    cdn = "https://*.cdn.example.com"
    assert directives(page.csp_header) == {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-inline'", cdn],
        "style-src": ["'self'", "'unsafe-inline'", cdn],
        "connect-src": ["'self'", "https://api.example.com", "wss://live.example.com:8443"],
        "img-src": ["'self'", "data:", cdn],
        "font-src": ["'self'", cdn],
        "media-src": ["'self'", "data:", cdn],
        "frame-src": ["https://video.example.com"],
        "object-src": ["'none'"],
        "base-uri": ["https://base.example.com"],
    }
    empty = directives(page_with(csp={}).csp_header)
    assert (empty["connect-src"], empty["frame-src"], empty["base-uri"]) == (["'self'"], ["'none'"], ["'self'"])


ATTACKS: list[object] = [
    "https://a.example; script-src *",
    "https://a.example;",
    "https://a.example https://evil.example",
    "https://a.example\nconnect-src *",
    "https://a.example\r\nX-Evil: 1",
    "https://a.example\n",
    "https://a.example\t*",
    "https://a.example, default-src *",
    "https://a.example\x0b*",
    "https://a.example\x85*",
    "https://a.example *",
    "https://a.example\u2028*",
    "https://a.example\x00",
    "https://a.example' 'unsafe-eval'",
    '"https://a.example"',
    "'unsafe-eval'",
    "'none'",
    "'self'",
    "*",
    "*.example.com",
    "https://*",
    "https://*.*.example.com",
    "https:",
    "https://",
    "data:",
    "blob:",
    "javascript:alert(1)",
    "filesystem:https://a.example",
    "ftp://a.example",
    "file:///etc/passwd",
    "https://user:word@a.example",
    "https://a.example/path",
    "https://a.example/;script-src",
    "https://a.example?x=;",
    "https://a.example#*",
    "https://a.example:*",
    "https://a.example:123456",
    "https://a.example:",
    "https://-a.example",
    "https://a..example",
    "https://[::1]",
    "https://ex\u00e4mple.com",
    "https://a\uff0eexample",
    "https://a.example:\u0661\u0662",
    "//a.example",
    "",
    " ",
    "https://" + "a" * 64 + ".example",
    "https://" + "a." * 200 + "example",
    7,
    None,
    True,
    {},
    ["https://a.example"],
]


def test_nothing_but_an_origin_gets_into_the_policy(subtests: pytest.Subtests) -> None:
    """Who writes a semicolon, a space or a line would write directives of their own."""
    for attack in ATTACKS:
        for name in ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"):
            with (
                subtests.test(attack=attack, name=name),
                pytest.raises(RemoteProtocolError, match="csp that cannot be used"),
            ):
                page_with(csp={name: ["https://good.example", attack]})


@given(
    st.lists(st.one_of(st.text(max_size=40), st.from_regex(r"(https|wss)://\S{0,40}")), min_size=1, max_size=4)
)
def test_whatever_is_declared_the_policy_has_the_same_directives(domains: list[str]) -> None:
    """Made-up texts are refused, or are one source each, of the directives that they are for."""
    names = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
    try:
        page = page_with(csp=dict.fromkeys(names, domains))
    except RemoteProtocolError:
        return
    policy = page.csp_header
    assert policy.isascii()
    assert policy.isprintable()
    assert not {'"', ",", "\\"} & set(policy)
    read = directives(policy)
    assert list(read) == list(directives(page_with(csp={}).csp_header))
    assert read["connect-src"] == ["'self'", *domains]
    assert (read["frame-src"], read["base-uri"]) == (domains, domains)
    assert (read["default-src"], read["object-src"]) == (["'none'"], ["'none'"])


def test_origins_are_taken_as_they_are() -> None:
    good = [
        "https://a.example",
        "http://localhost:3000",
        "http://127.0.0.1:8000",
        "https://*.a-b.example",
        "ws://x",
    ]
    assert page_with(csp={"connectDomains": good}).csp == AppCsp(connect=good)


@pytest.mark.parametrize(
    "csp", [cast("object", []), "x", 7, {"connectDomains": "https://a.example"}, {"frameDomains": {}}]
)
def test_a_policy_of_another_form_is_refused(csp: object) -> None:
    """And never taken for none, which would be something else than the server has meant."""
    with pytest.raises(RemoteProtocolError):
        page_with(csp=csp)


def test_origins_are_bounded() -> None:
    many = [f"https://{number}.example" for number in range(MAX_DOMAINS + 1)]
    assert len(page_with(csp={"connectDomains": many[1:]}).csp_header) < 16_384
    with pytest.raises(RemoteProtocolError, match=f"connect has 65 origins, and at most {MAX_DOMAINS}"):
        page_with(csp={"connectDomains": many})


def test_authors_are_told_of_mistakes() -> None:
    with pytest.raises(ValueError, match=r"connect takes origins such as https://example\.com"):
        AppCsp(connect=["example.com"])
    with pytest.raises(TypeError, match="a list of origins"):
        AppCsp(connect="https://a.example")


def test_permissions_become_an_attribute_of_known_words() -> None:
    """Nothing of the server's own texts is in it."""
    page = page_with(permissions={"camera": {}, "clipboardWrite": {}, "microphone": True, 'x"><script>': {}})
    assert page.permissions == AppPermissions(camera=True, clipboard_write=True)
    assert page.allow == "camera; clipboard-write"
    assert page_with().allow == ""


def test_hints_of_another_kind_are_left_out() -> None:
    page = page_with(domain=7, prefersBorder="yes")
    assert (page.domain, page.prefers_border) == (None, None)
    page = page_with(domain="a.example", prefersBorder=False)
    assert (page.domain, page.prefers_border) == ("a.example", False)


def tool(**meta: Any) -> Tool:
    return Tool(name="t", input_schema={"type": "object"}, meta=meta)


def test_a_tool_names_its_page_in_the_new_way_or_the_old() -> None:
    """SEP-1865, "Resource Discovery"."""
    meta = tool_meta({"x": 1}, "ui://clock", {"app", "model"})
    assert meta == {
        "x": 1,
        "ui": {"resourceUri": "ui://clock", "visibility": ["model", "app"]},
        "ui/resourceUri": "ui://clock",
    }
    assert page_of(tool(**meta)) == "ui://clock"
    assert page_of(tool(**{"ui/resourceUri": "ui://old"})) == "ui://old"
    assert page_of(tool(ui={"visibility": ["app"]})) is None
    assert page_of(tool()) is None
    wrongs: list[object] = ["https://evil.example", "ui://", 7, {}]
    for wrong in wrongs:
        with pytest.raises(RemoteProtocolError, match="which is no page"):
            page_of(tool(ui={"resourceUri": wrong}))


SEEN: list[tuple[object, set[str]]] = [
    ({}, {"model", "app"}),
    ({"visibility": ["model"]}, {"model"}),
    ({"visibility": ["app", "other"]}, {"app"}),
    ({"visibility": []}, set()),
    ({"visibility": "model"}, set()),
    ({"visibility": {"model": 1}}, set()),
    ({"visibility": [["model"]]}, set()),
]


@pytest.mark.parametrize(("ui", "seen"), SEEN)
def test_who_may_call_a_tool(ui: Any, seen: set[str]) -> None:
    """What cannot be read lets in nobody: both sides would have to guess."""
    assert visibility_of(tool(ui=ui)) == seen
    assert visibility_of(tool(ui="x")) == {"model", "app"}


def test_what_a_client_shows() -> None:
    assert mime_types_in(None) is None
    assert mime_types_in({}) == ()
    assert mime_types_in({"mimeTypes": ["text/html;profile=mcp-app", 7]}) == ("text/html;profile=mcp-app",)


def test_a_document_begins_as_html5_does() -> None:
    for good in ("<!doctype html><p>", "\ufeff\n <!DOCTYPE HTML>", "<!-- a -->\n<!doctype html>"):
        assert begins_as_html(good)
    for bad in ("", "<html>", "clock.html", "<!doctype svg>", " " * 5_000 + "<!doctype html>"):
        assert not begins_as_html(bad)
    assert is_app_type("text/html; profile=mcp-app")
    assert is_app_type(" Text/HTML ;\tprofile=mcp-app\n")
    for other in (
        None,
        "",
        "text/html",
        "text/html;profile",
        "text/html;profile=mcp-app;",
        "text/html;;profile=mcp-app",
    ):
        assert not is_app_type(other)
