"""Whether a path is in one of the client's roots: links and ``..``, URIs, both eras, and what is kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from asked import LEGACY, AskedClient, ask_in_tool
from eras import ENDS
from inside_server import MAX_PATH_LENGTH, MAX_ROOTS, with_drive

from trio_mcp import CapabilityMissing, Client, Context, RemoteProtocolError, Revision, Server, open_client
from trio_mcp.types import ClientCapabilities, Root, RootsCapability

MODERN = Revision.V2026_07_28
BOTH = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A root with files and links, inside and out, and a neighbour whose name begins alike."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_text("in")
    (tmp_path / "rootless").mkdir()
    (tmp_path / "secret").write_text("out")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("..")
    (root / "in").symlink_to("sub/file")
    (root / "loop").symlink_to("loop")
    (tmp_path / "door").symlink_to(root)
    return tmp_path


def checking_server(**options: Any) -> Server:
    """Return a server with a tool that says what it makes of paths."""
    server = Server("files")

    @server.tool
    async def check(paths: list[str], ctx: Context) -> list[str | None]:
        found = [await ctx.within_roots(path, **options) for path in paths]
        return [None if path is None else str(path) for path in found]

    return server


@asynccontextmanager
async def opened(
    roots: Any, revision: Revision, **options: Any
) -> AsyncGenerator[tuple[Client, Callable[..., Any]]]:
    """Open a client with roots, and what lets the server check paths."""
    async with open_client(checking_server(), roots=roots, revision=revision, **options) as client:

        async def check(*paths: object) -> Any:
            result = await client.call_tool("check", {"paths": [str(path) for path in paths]})
            assert not result.is_error, result.text
            content: Any = result.structured_content
            return content if revision.is_modern else content["result"]

        yield client, check


@BOTH
async def test_paths_in_a_root_are_found(revision: Revision, house: Path) -> None:
    """Resolved, whether they exist or not, and however the root is named."""
    root = house / "root"
    for given in (root, house / "door", f"file://{root}"):
        async with opened([given], revision) as (_, check):
            assert await check(
                root,
                root / "sub" / "file",
                root / "sub" / ".." / "sub" / "new" / "er",
                root / "in",
                house / "door" / "sub",
                root / "missing" / ".." / "sub",
                (root / "sub").as_uri(),
                f"FILE://localhost{root}/sub",
            ) == [
                str(root),
                str(root / "sub" / "file"),
                str(root / "sub" / "new" / "er"),
                str(root / "sub" / "file"),
                str(root / "sub"),
                str(root / "sub"),
                str(root / "sub"),
                str(root / "sub"),
            ]


@BOTH
async def test_nothing_leads_out_of_a_root(revision: Revision, house: Path) -> None:
    """Neither ``..`` nor links, nor a name that begins alike, nor what is no path of this machine."""
    root = house / "root"
    outside = [
        house,
        house / "rootless",
        house / "secret",
        root / ".." / "secret",
        root / "sub" / ".." / ".." / "secret",
        root / "out",
        root / "up" / "secret",
        root / "missing" / ".." / ".." / "secret",
        root / "loop",
        root / "loop" / ".." / "out",
        "/",
        "relative/file",
        f"{root}/sub\0/file",
        "/" + "x" * 100_000,
        f"file://{root}/%2e%2e/secret",
        f"file://other.host{root}/sub",
        "file://",
        "file://[",
    ]
    async with opened([root], revision) as (_, check):
        assert await check(*outside) == [None] * len(outside)


@BOTH
async def test_a_root_may_be_a_file_and_there_may_be_many_or_none(revision: Revision, house: Path) -> None:
    """client/roots: a root is a directory or a file."""
    file = house / "root" / "sub" / "file"
    async with opened([house / "gone", file], revision) as (_, check):
        assert await check(file, file.parent, file / "x") == [str(file), None, str(file / "x")]
    async with opened([], revision) as (_, check):
        assert await check(file) == [None]


async def test_a_relative_path_begins_where_the_process_works(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everywhere in Python."""
    monkeypatch.chdir(house / "root")
    async with opened([house / "root"], MODERN) as (_, check):
        assert await check("sub", "../secret") == [str(house / "root" / "sub"), None]


@BOTH
async def test_who_requires_it_gets_an_error_that_names_the_path(revision: Revision, house: Path) -> None:
    """A model can read it."""
    async with open_client(checking_server(require=True), roots=[house / "root"], revision=revision) as client:
        assert not (await client.call_tool("check", {"paths": [str(house / "root")]})).is_error
        refused = await client.call_tool("check", {"paths": ["/etc/passwd"]})
    assert refused.is_error
    assert refused.text == "'/etc/passwd' is outside of the roots that the client has shared"


@pytest.mark.parametrize("revision", ENDS)
async def test_a_client_without_roots_is_an_error(revision: Revision) -> None:
    """Not a path that is in none."""
    client = AskedClient({"roots": []}, capabilities=ClientCapabilities())
    with pytest.raises(CapabilityMissing, match="has not declared roots"):
        await ask_in_tool(client, revision, lambda ctx: ctx.within_roots("/srv"))
    assert client.questions == []


@pytest.mark.parametrize("given", [b"/srv", 5, None])
async def test_a_path_is_a_text(given: Any) -> None:
    """Bytes would be compared with nothing."""
    client = AskedClient({"roots": []})
    with pytest.raises(TypeError):
        await ask_in_tool(client, LEGACY[-1], lambda ctx: ctx.within_roots(given))


async def test_too_many_roots_are_the_clients_fault() -> None:
    """Each is resolved for each path."""
    client = AskedClient({"roots": [{"uri": f"file:///{n}"} for n in range(MAX_ROOTS + 1)]})
    with pytest.raises(RemoteProtocolError, match="1001 roots, and a path is compared with 1000 at most"):
        await ask_in_tool(client, LEGACY[-1], lambda ctx: ctx.within_roots("/srv"))


async def test_long_roots_are_the_clients_fault() -> None:
    """Resolving takes as long as they have parts, for each path."""
    roots = [{"uri": f"file:///{'a/' * 2_000}{n}"} for n in range(100)]
    client = AskedClient({"roots": roots})
    with pytest.raises(RemoteProtocolError, match="characters, and a path is compared with 262144 at most"):
        await ask_in_tool(client, LEGACY[-1], lambda ctx: ctx.within_roots("/srv"))


@BOTH
async def test_what_is_too_long_for_a_path_is_not_looked_up(revision: Revision, house: Path) -> None:
    """That would take a time that grows with the square of its length, in one of a few threads for all clients."""
    root = str(house / "root")
    shortest, longest = root + "/.", f"{root}{'/.' * 2_048}"[:MAX_PATH_LENGTH]
    async with opened([root], revision) as (_, check):
        assert await check(shortest, longest, longest + "/") == [root, root, None]
        assert await check("/sub/.." * 300_000, "file://" + root + "/a" * 300_000) == [None, None]


# What is kept.


def counted(roots: list[Path]) -> tuple[Callable[[], list[Path]], list[int]]:
    """Return what gives roots, and how often it was asked."""
    asked: list[int] = []

    def give() -> list[Path]:
        asked.append(len(asked))
        return list(roots)

    return give, asked


async def test_roots_are_kept_until_the_client_says_that_they_have_changed(house: Path) -> None:
    """client/roots, "Root List Changes"."""
    roots = [house / "root"]
    give, asked = counted(roots)
    async with opened(give, LEGACY[-1]) as (client, check):
        for _ in range(2):
            assert await check(house / "root", house / "rootless") == [str(house / "root"), None]
        assert len(asked) == 1
        roots[:] = [house / "rootless"]
        await client.roots_changed()
        assert await check(house / "root", house / "rootless") == [None, str(house / "rootless")]
        assert len(asked) == 2


async def test_an_answer_that_was_on_its_way_while_they_changed_is_not_kept(house: Path) -> None:
    """It may be the old one."""
    roots, asked = [house / "root"], 0
    begun, go_on = trio.Event(), trio.Event()

    async def give() -> list[Path]:
        nonlocal asked
        asked += 1
        answer = list(roots)
        begun.set()
        await go_on.wait()
        return answer

    async with opened(give, LEGACY[-1]) as (client, check):
        found: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def early() -> None:
                found.extend(await check(house / "root"))

            nursery.start_soon(early)
            await begun.wait()
            roots[:] = []
            await client.roots_changed()
            await client.ping()
            go_on.set()
        assert found == [str(house / "root")]
        assert await check(house / "root") == [None]
        assert asked == 2


async def test_a_client_that_notifies_of_nothing_is_asked_each_time(house: Path) -> None:
    """Its roots can change without a word."""
    client = AskedClient(
        {"roots": [{"uri": house.as_uri()}]}, capabilities=ClientCapabilities(roots=RootsCapability())
    )

    async def twice(ctx: Context) -> bool:
        return all([await ctx.within_roots(house), await ctx.within_roots(house / "x")])

    assert await ask_in_tool(client, LEGACY[-1], twice)
    assert len(client.questions) == 2


async def test_long_roots_are_not_kept(house: Path) -> None:
    """What is kept for a session has a bound."""
    long = [house / "root", *(house / ("x" * 200 + str(number)) for number in range(50))]
    give, asked = counted(long)
    async with opened(give, LEGACY[-1]) as (_, check):
        assert await check(house / "root", house / "root") == 2 * [str(house / "root")]
    assert len(asked) == 2


async def test_a_modern_request_asks_once(house: Path) -> None:
    """More questions than `max_input_rounds` could not be answered; the next request asks again."""
    roots = [house / "root"]
    give, asked = counted(roots)
    async with opened(give, MODERN) as (_, check):
        assert await check(*[house / "root"] * 30) == [str(house / "root")] * 30
        assert len(asked) == 1
        roots.clear()
        assert await check(house / "root") == [None]
        assert len(asked) == 2


async def test_nothing_of_a_request_is_left(house: Path) -> None:
    """What it was told goes with it."""
    requests: list[weakref.ref[Any]] = []
    server = Server("files")

    @server.tool
    async def check(ctx: Context) -> None:
        await ctx.within_roots(house)
        requests.append(weakref.ref(ctx))

    async with open_client(server, roots=[house], revision=MODERN) as client:
        for _ in range(3):
            await client.call_tool("check")
        gc.collect()
        assert [request() for request in requests][:-1] == [None, None]


# URIs of other systems.


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/c%3A/Users/a", "/c:/Users/a"),
        ("/C%3a", "/C:"),
        ("/C:/Users", "/C:/Users"),
        ("/srv/c%3A/x", "/srv/c%3A/x"),
        ("/cc%3A/x", "/cc%3A/x"),
    ],
)
def test_the_colon_of_a_drive_may_be_encoded(path: str, plain: str) -> None:
    """As editors send it from Windows."""
    assert with_drive(path) == plain


def test_a_file_uri_becomes_a_path_of_this_system() -> None:
    """On POSIX a drive is a name like any other."""
    assert Root(uri="file:///srv/a%20b").path == Path("/srv/a b")
