"""Lists in pages, as clients of every revision see them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from eras import ENDS
from inside_core import BadCursor, CursorSeal, Position

from trio_mcp import Client, RequestError, Revision, Server, open_client

LISTS = pytest.mark.parametrize("kind", ["tools", "prompts"])
NEWEST = Revision.V2026_07_28
KEY = b"a secret of sixteen bytes or more"


async def nothing() -> str:
    return ""


def stocked(names: str = "abcdefg", **options: Any) -> Server:
    """A server with a tool and a prompt of each name."""
    server = Server("s", **options)
    for name in names:
        server.tool(name=name)(nothing)
        server.prompt(name=name)(nothing)
    return server


async def page(client: Client, kind: str, cursor: str | None = None) -> tuple[str, str | None]:
    """Return the names on a page, and the next cursor."""
    result = await client.request(f"{kind}/list", None if cursor is None else {"cursor": cursor})
    assert "nextCursor" not in result or isinstance(result["nextCursor"], str)
    return "".join(item["name"] for item in result[kind]), result.get("nextCursor")


async def rest(client: Client, kind: str, cursor: str | None) -> list[str]:
    pages: list[str] = []
    while cursor is not None:
        names, cursor = await page(client, kind, cursor)
        pages.append(names)
    return pages


@pytest.mark.parametrize("revision", ENDS)
async def test_a_list_comes_in_pages(subtests: pytest.Subtests, revision: Revision) -> None:
    """Every revision, server/utilities/pagination: the last page has no cursor, and none is empty."""
    rows: list[tuple[int | None, list[str]]] = [
        (None, ["abcdefg"]),
        (1, list("abcdefg")),
        (3, ["abc", "def", "g"]),
        (6, ["abcdef", "g"]),
        (7, ["abcdefg"]),
        (100, ["abcdefg"]),
    ]
    for kind in ("tools", "prompts"):
        for page_size, pages in rows:
            with subtests.test(kind=kind, page_size=page_size, pages=pages):
                async with open_client(stocked(page_size=page_size), revision=revision) as client:
                    first, cursor = await page(client, kind)
                    assert [first, *await rest(client, kind, cursor)] == pages


@pytest.mark.parametrize("revision", ENDS)
async def test_our_client_follows_the_pages(revision: Revision) -> None:
    async with open_client(stocked(page_size=2), revision=revision) as client:
        assert "".join([tool.name async for tool in client.list_tools()]) == "abcdefg"


def change_each_character(cursor: str) -> list[str]:
    return [
        cursor[:index] + ("A" if letter != "A" else "B") + cursor[index + 1 :]
        for index, letter in enumerate(cursor)
    ]


@pytest.mark.parametrize("revision", ENDS)
@LISTS
async def test_a_cursor_that_is_not_ours_is_refused(revision: Revision, kind: str) -> None:
    """Every revision, server/utilities/pagination, "Error Handling": -32602. An empty string is a cursor, too."""
    async with open_client(stocked(page_size=3), revision=revision) as client:
        _, cursor = await page(client, kind)
        assert cursor is not None
        _, other = await page(client, "tools" if kind == "prompts" else "prompts")
        assert other is not None
        bad = ["", "x", "=", "~~~~", "ü", cursor + "A", cursor[:-1], cursor + "=", f" {cursor}", other]
        bad += [base64.urlsafe_b64encode(b"2:c").decode(), "A" * 10_000, *change_each_character(cursor)]
        for wrong in bad:
            with pytest.raises(RequestError, match="cursor") as caught:
                await page(client, kind, wrong)
            assert caught.value.code == -32602
        assert (await page(client, kind, cursor))[0] == "def"
        with pytest.raises(RequestError) as caught:
            await client.request(f"{kind}/list", {"cursor": 5})
        assert caught.value.code == -32602


def remove_last(server: Server) -> None:
    server.remove_tool("c")


def hide_last(server: Server) -> None:
    server.disable_tool("c")


def remove_all_before(server: Server) -> None:
    for name in "abc":
        server.remove_tool(name)


def remove_first(server: Server) -> None:
    server.remove_tool("a")


def register_last_again(server: Server) -> None:
    server.remove_tool("c")
    server.tool(name="c")(nothing)


def remove_next(server: Server) -> None:
    server.remove_tool("d")


def add_one(server: Server) -> None:
    server.tool(name="h")(nothing)


def remove_the_rest(server: Server) -> None:
    for name in "defg":
        server.remove_tool(name)


@pytest.mark.parametrize("revision", ENDS)
async def test_what_stays_is_listed_once_whatever_comes_and_goes(
    subtests: pytest.Subtests, revision: Revision
) -> None:
    """Every revision, server/utilities/pagination, "Implementation Guidelines": stable cursors."""
    rows: list[tuple[Callable[[Server], None], list[str]]] = [
        (remove_last, ["def", "g"]),
        (hide_last, ["def", "g"]),
        (remove_all_before, ["def", "g"]),
        (remove_first, ["def", "g"]),
        (register_last_again, ["def", "gc"]),
        (remove_next, ["efg"]),
        (add_one, ["def", "gh"]),
        (remove_the_rest, [""]),
    ]
    for change, pages in rows:
        with subtests.test(change=change, pages=pages):
            server = stocked(page_size=3)
            async with open_client(server, revision=revision) as client:
                names, cursor = await page(client, "tools")
                assert names == "abc"
                change(server)
                assert await rest(client, "tools", cursor) == pages


async def test_cursors_are_good_in_another_connection_but_not_in_another_server() -> None:
    server = stocked(page_size=3)
    async with open_client(server) as client:
        _, cursor = await page(client, "tools")
    async with open_client(server, revision=Revision.V2024_11_05) as client:
        assert (await page(client, "tools", cursor))[0] == "def"
    async with open_client(stocked(page_size=3)) as client:
        with pytest.raises(RequestError):
            await page(client, "tools", cursor)


@pytest.mark.parametrize(
    ("names", "pages"),
    [("abcdefg", ["def", "g"]), ("xabcdefg", ["def", "g"]), ("cde", ["de"]), ("xyz", []), ("vwxyz", ["yz"])],
)
async def test_servers_that_share_a_key_share_their_cursors(names: str, pages: list[str]) -> None:
    """A replica goes by the name, since its numbers may be others; without the name it does what it can."""
    async with open_client(stocked(page_size=3, cursor_key=KEY)) as client:
        _, cursor = await page(client, "tools")
    async with open_client(stocked(names, page_size=3, cursor_key=KEY)) as client:
        assert [names for names in await rest(client, "tools", cursor) if names] == pages
    async with open_client(stocked(names, cursor_key=KEY)) as client:
        assert "".join(await rest(client, "tools", cursor)) == "".join(pages)


@pytest.mark.parametrize("page_size", [0, -1])
def test_a_page_has_at_least_one_item(page_size: int) -> None:
    with pytest.raises(ValueError, match="page_size must be at least 1"):
        Server("s", page_size=page_size)


def test_a_key_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes, not 5"):
        Server("s", cursor_key=b"short")


# The seal by itself.


@pytest.mark.parametrize("name", ["a", "", "a:b", "x://ü/\U0001f600", "\ud800", "n" * 5000])
def test_a_position_survives_its_cursor(name: str) -> None:
    seal = CursorSeal(KEY)
    position = Position("origin", 12, name)
    cursor = seal.seal("tools/list", position)
    assert cursor.isascii()
    assert seal.open("tools/list", cursor) == position
    assert CursorSeal(KEY).open("tools/list", cursor) == position


@pytest.mark.parametrize("serial", range(4))
def test_no_bit_of_a_cursor_can_be_changed(serial: int) -> None:
    """Whatever the length modulo three: the bits of the last character that say nothing included."""
    seal = CursorSeal(KEY)
    cursor = seal.seal("tools/list", Position("o", 10**serial, "tool"))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for index, letter in enumerate(cursor):
        for other in alphabet:
            if other != letter:
                with pytest.raises(BadCursor):
                    seal.open("tools/list", cursor[:index] + other + cursor[index + 1 :])
    for key, method in ((KEY + b"x", "tools/list"), (KEY, "prompts/list"), (KEY, "tools/list\0")):
        with pytest.raises(BadCursor):
            CursorSeal(key).open(method, cursor)


def test_a_cursor_longer_than_any_is_refused_before_it_is_read() -> None:
    """A cursor that was not made here is refused before megabytes of it are decoded."""
    seal = CursorSeal(KEY)
    with pytest.raises(BadCursor, match="longer than any of this server's, 65537 characters"):
        seal.open("tools/list", "A" * 65_537)
    with pytest.raises(BadCursor, match="not one of this server's, or of another list"):
        seal.open("tools/list", "A" * 65_536)


def test_a_cursor_for_a_very_long_name_is_read_again() -> None:
    """Nothing bounds the names that a server gives."""
    seal = CursorSeal(KEY)
    position = Position("o", 1, "n" * 100_000)
    assert seal.open("tools/list", seal.seal("tools/list", position)) == position
