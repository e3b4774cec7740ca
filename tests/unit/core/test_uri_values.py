"""Which values of a template's variables are handed to a function."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import UriMatcher, VariableRule

from trio_mcp import UriTemplate

RULE = VariableRule(with_slashes=frozenset({"path"}), windows=False)
ON_WINDOWS = VariableRule(with_slashes=frozenset({"path"}), windows=True)

HONEST = [
    "dune", "", "a.b", "..a", "a..b", "...a", ".hidden", "grün", "50%", "50%25", "a b", "a:b", "12:30", "a\nb",
    "%", "%2", "%zz", "~", "-rf",
]  # fmt: skip
WITH_SLASHES = ["a/b", "a/b/", "a//b", "a/.b", "a/..b", "a/b..", "a\\b", "https://example.com/x", "a%2Fb", "./a"]
REFUSED = [
    "..", "../a", "a/..", "a/../b", "..\\a", "a\\..", "a\\..\\b", "a/..\\b", ".. ", "../", "a/.. /b", "...",
    "/", "/etc/passwd", "//host/share", "\\", "\\\\host\\share", "\\etc", "C:/a", "c:\\a",
    "\0", "a\0", "a\0.txt",
    "%2e%2e", "%2E%2E/a", ".%2e", "a%2f..%2fb", "%2Fetc", "%5Cetc", "..%5ca", "a%00", "c:%5Ca",
    "%252e%252e", "%252Fetc", "%25252e%25252e", "%" + "25" * 100 + "2e", "%2525252525252Fa",
]  # fmt: skip


def test_names_are_names(subtests: pytest.Subtests) -> None:
    """Dots, percent signs and colons in names are nobody's attack."""
    cases: list[str] = [*HONEST, "\u2025", "\uff0e\uff0e\uff0fa"]
    for value in cases:
        with subtests.test(value=value):
            RULE.check({"name": value, "path": value})
            RULE.check({"name": [value], "path": ["a", value]})


def test_slashes_are_allowed_where_a_uri_may_have_them(subtests: pytest.Subtests) -> None:
    """`{+path}` is for paths; in `{name}` a slash can only have been smuggled in, encoded."""
    for value in WITH_SLASHES:
        with subtests.test(value=value):
            RULE.check({"path": value})
            for rule in (RULE, VariableRule(with_slashes=frozenset())):
                with pytest.raises(ValueError, match=r"the variable name contains a slash or a backslash"):
                    rule.check({"name": value})


def test_ways_to_somewhere_else_are_refused(subtests: pytest.Subtests) -> None:
    """Also those that only show when somebody decodes once more what was decoded."""
    for value in REFUSED:
        for name in ("name", "path"):
            with subtests.test(value=value, name=name):
                with pytest.raises(ValueError, match=f"the variable {name} "):
                    RULE.check({name: value})
                with pytest.raises(ValueError, match=f"the variable {name} "):
                    RULE.check({name: ["a", value]})
                VariableRule(with_slashes=frozenset(), unsafe=frozenset({name})).check({name: value})


def test_parts_of_a_list_make_no_absolute_path() -> None:
    """`{/parts*}` of `x://etc/passwd` is an empty part and two more, which `"/".join` makes `/etc/passwd` of."""
    with pytest.raises(ValueError, match="empty part"):
        RULE.check({"name": ["", "etc", "passwd"]})
    RULE.check({"name": ["etc", "", "passwd"]})
    RULE.check({"name": [""]})
    RULE.check({"name": []})


def test_a_drive_without_a_separator_is_one_on_windows_only() -> None:
    """`C:a` is a name elsewhere, and `a:1` somebody's identifier."""
    RULE.check({"name": "C:a"})
    with pytest.raises(ValueError, match="drive"):
        ON_WINDOWS.check({"name": "C:a"})
    with pytest.raises(ValueError, match="drive"):
        ON_WINDOWS.check({"name": "C%3Aa"})


@given(st.text("./\\%2efF5cC0 a:", max_size=30))
def test_accepted_values_stay_below_the_directory(value: str) -> None:
    """Joined to a directory and normalised, by whatever rules, such a value names something below it."""
    for name in ("name", "path"):
        try:
            RULE.check({name: value})
        except ValueError:
            continue
        for text in (value, value.replace("\\", "/")):
            joined = posixpath.normpath(posixpath.join("/root", text))
            assert joined == "/root" or joined.startswith("/root/")
            assert name == "path" or "/" not in text


def test_which_variables_may_have_slashes() -> None:
    """Those in which RFC 6570 lets a slash stand as it is, or a query does."""
    cases: list[tuple[str, set[str]]] = [
        ("x:{a}", set[str]()),
        ("x:{+a}", {"a"}),
        ("x:a{#f}", {"f"}),
        ("x:a{?q,r*}", {"q", "r"}),
        ("x:a?b=1{&q}", {"q"}),
        ("x:a{/b*}", set[str]()),
        ("x:a/b{.ext}", set[str]()),
        ("x:{a}/{+b}{?c}", {"b", "c"}),
        ("x:{a}/{+a}", set[str]()),
    ]
    for template, names in cases:
        assert UriMatcher(UriTemplate(template)).with_slashes == names
