"""Variables of templates that lead out of where a function puts them are refused before it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from eras import ENDS

from trio_mcp import RequestError, Revision, Server, open_client


def make_server(seen: list[Any]) -> Server[Any]:
    server: Server[Any] = Server("files")

    @server.resource("file:///logs/{name}")
    async def log(name: str) -> str:
        seen.append(name)
        return name

    @server.resource("tree:///{+path}{?part,tags*}")
    async def tree(path: str, part: str = "", tags: Sequence[str] = ()) -> str:
        seen.append((path, part, list(tags)))
        return path

    @server.resource("parts:///top{/parts*}")
    async def parts(parts: Sequence[str] = ()) -> str:
        seen.append(list(parts))
        return "/".join(parts)

    @server.resource("any:///{name}/{other}", unsafe_variables=["name"])
    async def anything(name: str, other: str) -> str:
        seen.append((name, other))
        return name

    @server.completion("file:///logs/{name}", "name")
    async def names(value: str, arguments: dict[str, str]) -> list[str]:
        seen.append((value, arguments))
        return [value]

    @server.completion("any:///{name}/{other}", "name")
    async def any_names(value: str) -> list[str]:
        seen.append(value)
        return [value]

    return server


ELSEWHERE = (
    "file:///logs/..%2F..%2Fetc%2Fpasswd",
    "file:///logs/..",
    "file:///logs/%2e%2e",
    "file:///logs/%252e%252e%252fetc",
    "file:///logs/%2Fetc%2Fpasswd",
    "file:///logs/a%2Fb",
    "file:///logs/..%5C..%5Cboot.ini",
    "file:///logs/C:%5Cboot.ini",
    "file:///logs/a%00.txt",
    "tree:///../../etc/passwd",
    "tree:///a/../b",
    "tree:///a/%2e%2E/b",
    "tree:////etc/passwd",
    "tree:///%2Fetc%2Fpasswd",
    "tree:///a%00b",
    "tree:///a?part=..%2Fb",
    "tree:///a?part=/etc",
    "tree:///a?tags=a&tags=../b",
    "parts:///top/a/../b",
    "parts:///top/a%2Fb",
    "parts:///top//etc/passwd",
    "any:///a/..",
)


@pytest.mark.parametrize("revision", ENDS)
async def test_a_value_that_leads_elsewhere_is_refused(revision: Revision) -> None:
    """The function that opens `logs / name` was given `../../etc/passwd`, decoded, to open."""
    seen: list[Any] = []
    async with open_client(make_server(seen), revision=revision) as client:
        for uri in ELSEWHERE:
            with pytest.raises(RequestError) as refused:
                await client.request("resources/read", {"uri": uri})
            assert refused.value.code == -32602
            assert refused.value.data == {"uri": uri}
            assert "the variable" in refused.value.message
    assert seen == []


LET_THROUGH: list[tuple[str, Any]] = [
    ("file:///logs/a..b%20c.txt", "a..b c.txt"),
    ("file:///logs/50%25", "50%"),
    ("tree:///a/b.c/d", ("a/b.c/d", "", [])),
    ("tree:///a?part=b/c&tags=x/y&tags=z", ("a", "b/c", ["x/y", "z"])),
    ("parts:///top/a/b", ["a", "b"]),
    ("any:///..%2F..%2Fetc%00/a", ("../../etc\0", "a")),
]


@pytest.mark.parametrize("revision", ENDS)
async def test_other_values_come_through(subtests: pytest.Subtests, revision: Revision) -> None:
    """Names, paths in `{+path}` and in queries, and whatever the function says that it takes."""
    for uri, value in LET_THROUGH:
        with subtests.test(uri=uri, value=value):
            seen: list[Any] = []
            async with open_client(make_server(seen), revision=revision) as client:
                await client.request("resources/read", {"uri": uri})
            assert seen == [value]


async def complete(server: Server[Any], uri: str, value: str, filled: dict[str, str]) -> Any:
    params = {
        "ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": "name", "value": value},
        "context": {"arguments": filled},
    }
    async with open_client(server) as client:
        return await client.request("completion/complete", params)


async def test_a_completion_is_not_asked_about_what_cannot_be_read() -> None:
    """It looks where the function looks, and would list the directories of the whole machine."""
    seen: list[Any] = []
    server = make_server(seen)
    for value, filled in (("../", {}), ("/etc/", {}), ("a", {"name": "x"}), ("a", {"other": "%2e%2e"})):
        refused = value != "a" or "other" in filled
        if not refused:
            await complete(server, "file:///logs/{name}", value, filled)
            assert seen.pop() == (value, filled)
            continue
        with pytest.raises(RequestError) as caught:
            await complete(server, "file:///logs/{name}", value, filled)
        assert caught.value.code == -32602
    await complete(server, "any:///{name}/{other}", "../", {})
    assert seen == ["../"]


async def test_a_directorys_paths_are_held_to_the_same_when_they_are_typed() -> None:
    """A function that completes the paths of `add_directory` lists directories itself."""
    server: Server[Any] = Server("directory")
    server.add_directory("/tmp", uri="dir:///")
    seen: list[str] = []

    @server.completion("dir:///{+path}", "path")
    async def paths(value: str) -> list[str]:
        seen.append(value)
        return []

    async with open_client(server) as client:
        for value in ("a/b", "a/../../etc"):
            params = {
                "ref": {"type": "ref/resource", "uri": "dir:///{+path}"},
                "argument": {"name": "path", "value": value},
            }
            if ".." in value:
                with pytest.raises(RequestError):
                    await client.request("completion/complete", params)
            else:
                await client.request("completion/complete", params)
    assert seen == ["a/b"]


def test_only_variables_can_be_unsafe() -> None:
    """A name that is misspelled would leave the check on without a word, or off where nobody looks."""
    server: Server[Any] = Server("s")

    def function(name: str = "") -> str:
        return name

    with pytest.raises(ValueError, match="no variable 'nmae'"):
        server.resource("x:{name}", unsafe_variables=["nmae"])(function)
    with pytest.raises(
        TypeError, match=r"^unsafe_variables takes str in a list, not str: write unsafe_variables=\[...\]$"
    ):
        server.resource("x:{name}", unsafe_variables="name")(function)
    with pytest.raises(ValueError, match="no template"):
        server.resource("x:y", unsafe_variables=["name"])
