"""What tools of several servers are called together: one name for each, that models' APIs accept, and back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_core import GroupNames

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def underscored(*servers: str) -> GroupNames:
    return GroupNames({server: f"{server}_" for server in servers})


def test_names_are_plain_or_marked(subtests: pytest.Subtests) -> None:
    """The marks are written out: a host that has kept a name finds the tool again with the next version."""
    cases: list[tuple[str, str, str]] = [
        ("files", "read", "files_read"),
        ("my files", "read", "my_files_read"),  # the prefix alone is no reason for a mark
        ("files", "dir.list", "files_dir_list_2e11fd8fd6"),
        ("files", "x" * 58, "files_" + "x" * 58),
        ("files", "x" * 59, "files_" + "x" * 47 + "_2ef27fa722"),
        ("files", "read_0123456789", "files_read_0123456789_7bb068edb5"),
        ("files", "old_read", "files_old_read_fd0b1ced7e"),  # could be `read` of `files_old`
        ("files_old", "read", "files_old_read"),
    ]
    for server, own, name in cases:
        with subtests.test(server=server, own=own):
            names = underscored("files", "my files", "files_old")
            made = names.name(server, own)
            assert re.sub(r"_[0-9a-f]{10}\Z", "", made) == re.sub(r"_[0-9a-f]{10}\Z", "", name)
            assert names.is_marked(made) is names.is_marked(name)
            assert len(made) <= 64
            assert made == name


def test_names_depend_on_nothing_but_the_configuration() -> None:
    """Not on what the other server has, or on whether it is there."""
    names = GroupNames({"a": "", "b": ""})
    assert names.name("a", "read") == "read"
    assert re.fullmatch(r"read_[0-9a-f]{10}", names.name("b", "read"))
    assert names.unmarked("read") == ("a", "read")
    assert names.unmarked(names.name("b", "read")) is None


@pytest.mark.parametrize("name", ["", "x", "files", "files_", "other_read", "files_a.b", "files_read_0123456789"])
def test_what_is_no_name_leads_nowhere(name: str) -> None:
    """What no listing can have shown."""
    assert underscored("files").unmarked(name) is None


SERVERS = st.lists(st.text("ab_ .", min_size=1, max_size=4), min_size=1, max_size=4, unique=True)
OWN = st.text("ab_.é", min_size=1, max_size=70)


@given(SERVERS, st.sampled_from(["{}_", "{}", "", "mcp_{}_"]), st.lists(OWN, min_size=1, max_size=4, unique=True))
def test_no_two_tools_have_the_same_name(servers: list[str], prefix: str, own: list[str]) -> None:
    """And each is one that is accepted; a plain one leads back by itself."""
    names = GroupNames({server: prefix.format(server) for server in servers})
    made = {(server, name): names.name(server, name) for server in servers for name in own}
    assert len(set(made.values())) == len(made)
    for (server, name), whole in made.items():
        assert ACCEPTED.fullmatch(whole)
        assert names.unmarked(whole) == (None if names.is_marked(whole) else (server, name))
