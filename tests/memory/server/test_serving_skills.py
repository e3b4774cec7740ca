"""Skills of a server: what is listed and read, with which digests, and what is refused.

Spec: extension io.modelcontextprotocol/skills (SEP-2640).
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from eras import ENDS

from trio_mcp import (
    Client,
    Limits,
    RequestError,
    ResourcesListChanged,
    Revision,
    Server,
    ServerExtension,
    open_client,
)

MODERN = Revision.V2026_07_28

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a skill, and return its directory."""

    def write(path: str, files: Mapping[str, str | bytes] | None = None, **members: object) -> Path:
        directory = tmp_path / "skills" / path
        directory.mkdir(parents=True, exist_ok=True)
        said = {"name": directory.name, "description": f"About {directory.name}.", **members}
        lines = [f"{name}: {value}" for name, value in said.items()]
        whole: dict[str, str | bytes] = {"SKILL.md": "\n".join(["---", *lines, "---", "Do it."]), **(files or {})}
        for name, content in whole.items():
            file = directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return directory

    return write


async def skills_of(client: Client) -> dict[str, dict[str, Any]]:
    result = await client.request("skills/list")
    return {skill["uri"]: skill for skill in result["skills"]}


async def entries_of(client: Client, uri: str) -> list[tuple[str, str | None]]:
    result = await client.request("resources/directory/read", {"uri": uri})
    return [(resource["uri"], resource.get("mimeType")) for resource in result["resources"]]


def files_in(skill: Mapping[str, Any]) -> list[str]:
    root = skill["uri"].removesuffix("SKILL.md")
    return [resource["uri"].removeprefix(root) for resource in skill["resources"]]


@pytest.mark.parametrize("revision", ENDS)
async def test_what_is_said_of_a_skill(revision: Revision, write: Write) -> None:
    """To every client, whatever it declares: frontmatter as it is written, each file with digest and size."""
    data = b"\x00\xff"
    directory = write(
        "refunds", {"references/GUIDE.md": "é\r\n", "a b.bin": data}, metadata='{version: "1.10", on: [no, 2]}'
    )
    server = Server("s")
    server.add_skill(directory, prefix="acme/billing")
    async with open_client(server, revision=revision) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions == {
            "io.modelcontextprotocol/skills": {"directoryRead": True}
        }
        assert client.server_capabilities.resources is not None
        result = await client.request("skills/list")
        (skill,) = result["skills"]
        assert skill["uri"] == "skill://acme/billing/refunds/SKILL.md"
        assert skill["frontmatter"] == {
            "name": "refunds",
            "description": "About refunds.",
            "metadata": {"version": "1.10", "on": ["no", 2]},
        }
        assert files_in(skill) == ["SKILL.md", "a%20b.bin", "references/GUIDE.md"]
        assert {
            "uri": "skill://acme/billing/refunds/a%20b.bin",
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "size": 2,
        } in skill["resources"]
        got = await client.request("skills/get", {"uri": skill["uri"]})
        assert got["skill"] == skill
        if revision.is_modern:
            for answer in (result, got):
                assert (answer["ttlMs"], answer["cacheScope"], answer["resultType"]) == (0, "private", "complete")
        assert "nextCursor" not in got


@pytest.mark.parametrize("uri", ["skill://nope/SKILL.md", "skill://refunds", "skill://refunds/a.md", "x:y", ""])
async def test_what_is_no_skill_is_not_found(uri: str, write: Write) -> None:
    server = Server("s")
    server.add_skill(write("refunds", {"a.md": ""}))
    async with open_client(server) as client:
        for method in ("skills/get", "resources/directory/read"):
            if (method, uri) != ("resources/directory/read", "skill://refunds"):
                with pytest.raises(RequestError) as caught:
                    await client.request(method, {"uri": uri})
                assert caught.value.code == -32602
                assert caught.value.data == {"uri": uri}
        for params in ({}, {"uri": 5}):
            with pytest.raises(RequestError) as caught:
                await client.request("skills/get", params)
            assert caught.value.code == -32602


@pytest.mark.parametrize("revision", ENDS)
async def test_files_are_resources(revision: Revision, write: Write) -> None:
    """ "Resource Metadata": SKILL.md is called what its frontmatter says."""
    server = Server("s")
    server.add_skill(write("refunds", {"x/GUIDE.md": "read me", "data": b"\x00\x01", ".hidden": "no"}))
    async with open_client(server, revision=revision) as client:
        listed = {resource.uri: resource for resource in await client.list_resources()}
        assert list(listed) == ["skill://refunds/SKILL.md", "skill://refunds/data", "skill://refunds/x/GUIDE.md"]
        main = listed["skill://refunds/SKILL.md"]
        assert (main.name, main.description, main.mime_type) == ("refunds", "About refunds.", "text/markdown")
        assert listed["skill://refunds/x/GUIDE.md"].name == "GUIDE.md"
        assert (await client.read_resource("skill://refunds/x/GUIDE.md")).text == "read me"
        (blob,) = (await client.request("resources/read", {"uri": "skill://refunds/data"}))["contents"]
        assert blob["blob"] == "AAE="
        for uri in ("skill://refunds/.hidden", "skill://refunds", "skill://refunds/x", "skill://refunds/../y"):
            with pytest.raises(RequestError):
                await client.read_resource(uri)


async def test_nothing_outside_is_read(tmp_path: Path, write: Write) -> None:
    """Symbolic links that lead out are no files of the skill; those within are."""
    (tmp_path / "secret").write_text("secret")
    directory = write("refunds", {"real.md": "real"})
    (directory / "out.md").symlink_to(tmp_path / "secret")
    (directory / "up.md").symlink_to("../../secret")
    (directory / "in.md").symlink_to("real.md")
    (directory / "folder").symlink_to(tmp_path)
    os.mkfifo(directory / "pipe")
    server = Server("s")
    server.add_skill(directory)
    async with open_client(server) as client:
        (skill,) = (await skills_of(client)).values()
        assert files_in(skill) == ["SKILL.md", "in.md", "real.md"]
        assert (await client.read_resource("skill://refunds/in.md")).text == "real"
        for name in ("out.md", "up.md", "folder/secret", "pipe", "%2e%2e/secret"):
            with pytest.raises(RequestError) as caught:
                await client.read_resource(f"skill://refunds/{name}")
            assert caught.value.code == -32602


async def test_a_directory_of_skills(write: Write) -> None:
    """The directories between are part of the URIs; what is in no skill is not served."""
    write("refunds", {"a.md": ""})
    top = write("acme/support/refunds").parents[2]
    (top / "README.md").write_text("not served")
    (top / "empty").mkdir()
    server = Server("s")
    server.add_skills(top, prefix="team")
    async with open_client(server) as client:
        assert list(await skills_of(client)) == [
            "skill://team/acme/support/refunds/SKILL.md",
            "skill://team/refunds/SKILL.md",
        ]
        assert await entries_of(client, "skill://team") == [
            ("skill://team/acme", "inode/directory"),
            ("skill://team/refunds", "inode/directory"),
        ]
        with pytest.raises(RequestError):
            await client.read_resource("skill://team/README.md")


@pytest.mark.parametrize("nested", [True, False])
async def test_skills_within_skills(write: Write, *, nested: bool) -> None:
    """ "Nested Skills": their files are files of both; the list is flat."""
    directory = write("outer", {"a.md": ""})
    write("outer/sub/inner", {"b.md": ""})
    server = Server("s")
    server.add_skill(directory, nested=nested)
    async with open_client(server) as client:
        skills = await skills_of(client)
        inner = "skill://outer/sub/inner/SKILL.md"
        assert list(skills) == (["skill://outer/SKILL.md", inner] if nested else ["skill://outer/SKILL.md"])
        assert files_in(skills["skill://outer/SKILL.md"]) == [
            "SKILL.md",
            "a.md",
            "sub/inner/SKILL.md",
            "sub/inner/b.md",
        ]
        if nested:
            assert files_in(skills[inner]) == ["SKILL.md", "b.md"]
        named = {resource.uri: resource.name for resource in await client.list_resources()}
        assert named[inner] == ("inner" if nested else "SKILL.md")


async def test_directories_are_read_one_at_a_time(write: Write) -> None:
    """ "Reading Directories": direct children, no slash at the end, empty ones too."""
    directory = write("refunds", {"x/y/z.md": "", "x/a.txt": ""})
    (directory / "empty").mkdir()
    server = Server("s")
    server.add_skill(directory)
    async with open_client(server) as client:
        assert await entries_of(client, "skill://refunds") == [
            ("skill://refunds/SKILL.md", "text/markdown"),
            ("skill://refunds/empty", "inode/directory"),
            ("skill://refunds/x", "inode/directory"),
        ]
        assert await entries_of(client, "skill://refunds/x") == [
            ("skill://refunds/x/a.txt", "text/plain"),
            ("skill://refunds/x/y", "inode/directory"),
        ]
        assert await entries_of(client, "skill://refunds/empty") == []
        for uri in ("skill://refunds/x/", "skill://refunds/SKILL.md", "skill://refunds/nope"):
            with pytest.raises(RequestError) as caught:
                await entries_of(client, uri)
            assert caught.value.code == -32602


async def test_pages(write: Write) -> None:
    """Skills and directories come in pages; a cursor is good for its own list only; an entry is never split."""
    for name in ("b", "c"):
        write(name, {f"{n}.md": "" for n in range(4)})
    top = write("a", {f"{n}.md": "" for n in range(4)}).parent
    server = Server("s", page_size=2)
    server.add_skills(top)
    async with open_client(server) as client:
        pages = [page async for page in client.list_skills().pages()]
        assert [[skill.name for skill in page.skills] for page in pages] == [["a", "b"], ["c"]]
        assert all(len(skill.resources) == 5 for page in pages for skill in page.skills)
        listed = [[r.name for r in page.resources] async for page in client.list_directory("skill://a").pages()]
        assert listed == [["0.md", "1.md"], ["2.md", "3.md"], ["a"]]
        cursor = pages[0].next_cursor
        for method, uri in (("resources/directory/read", "skill://a"), ("resources/list", None)):
            with pytest.raises(RequestError, match="cursor"):
                await client.request(
                    method, {"cursor": cursor} if uri is None else {"cursor": cursor, "uri": uri}
                )


async def test_freshness_is_the_least_of_all(write: Write) -> None:
    one, two = write("one"), write("two")
    server = Server("s")
    server.add_skill(one, ttl=60, scope="public")
    async with open_client(server, revision=MODERN) as client:
        result = await client.request("skills/list")
        assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")
        read = await client.request("resources/read", {"uri": "skill://one/SKILL.md"})
        assert (read["ttlMs"], read["cacheScope"]) == (60_000, "public")
    server.add_skill(two, ttl=5)
    async with open_client(server, revision=MODERN) as client:
        result = await client.request("skills/list")
        assert (result["ttlMs"], result["cacheScope"]) == (5_000, "private")
        got = await client.request("skills/get", {"uri": "skill://one/SKILL.md"})
        assert (got["ttlMs"], got["cacheScope"]) == (60_000, "public")


# What changes.


async def test_files_that_change_have_other_digests(write: Write) -> None:
    """Also at once after the change, when the clock of the file system may not have moved on."""
    directory = write("refunds", {"a.md": "one"})
    server = Server("s")
    server.add_skill(directory)
    async with open_client(server) as client:
        for n in range(3):
            (directory / "a.md").write_text(f"{n}{n}{n}")
            (skill,) = (await skills_of(client)).values()
            digest = next(r["digest"] for r in skill["resources"] if r["uri"].endswith("a.md"))
            assert digest == f"sha256:{hashlib.sha256(f'{n}{n}{n}'.encode()).hexdigest()}"
        (directory / "new.md").write_text("new")
        assert (await client.read_resource("skill://refunds/new.md")).text == "new"
        (directory / "a.md").unlink()
        (skill,) = (await skills_of(client)).values()
        assert files_in(skill) == ["SKILL.md", "new.md"]
        with pytest.raises(RequestError):
            await client.read_resource("skill://refunds/a.md")


async def test_files_that_do_not_change_are_read_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write("refunds", {"a.md": "one"})
    for path in (directory / "a.md", directory / "SKILL.md"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    # The time at which they got these times is recent, too, and nobody can set it.
    import time

    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 60_000_000_000)
    opened: list[str] = []
    real = os.open

    def count(path: Any, *args: Any, **options: Any) -> int:
        if str(path).endswith(".md"):
            opened.append(str(path))
        return real(path, *args, **options)

    server = Server("s")
    server.add_skill(directory)
    monkeypatch.setattr(os, "open", count)
    async with open_client(server) as client:
        await skills_of(client)
        await skills_of(client)
        assert opened == []
        (directory / "a.md").write_text("other")
        await skills_of(client)
        assert opened == ["a.md"]


async def test_a_change_that_is_found_is_told(write: Write) -> None:
    """To who listens to the list of resources, which is what skills are."""
    directory = write("one")
    server = Server("s")
    server.add_skills(directory.parent)
    async with (
        open_client(server, revision=MODERN) as client,
        client.listen(resources_list_changed=True) as events,
    ):
        await skills_of(client)
        write("two")
        assert len(await skills_of(client)) == 2
        with trio.fail_after(5):
            assert await anext(events) == ResourcesListChanged()


async def test_what_has_become_invalid_is_left_out(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    """And logged, once; the others are served."""
    write("good")
    bad = write("bad")
    server = Server("s")
    server.add_skills(bad.parent)
    (bad / "SKILL.md").write_text("---\nname: other\ndescription: x\n---\n")
    async with open_client(server) as client:
        for _ in range(2):
            assert list(await skills_of(client)) == ["skill://good/SKILL.md"]
        with pytest.raises(RequestError) as caught:
            await client.request("skills/get", {"uri": "skill://bad/SKILL.md"})
        assert caught.value.code == -32602
        assert caplog.text.count("its name is 'other'") == 1
        for path in sorted(bad.parent.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        assert await skills_of(client) == {}


async def test_who_asks_at_once_shares_a_look(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests do not walk the directory a hundred times."""
    server = Server("s")
    server.add_skill(write("refunds"))
    from inside_server import SkillCatalog

    looks: list[None] = []
    real, go_on = SkillCatalog._look, threading.Event()

    def look(self: Any, *args: Any) -> Any:
        looks.append(None)
        go_on.wait(5)
        return real(self, *args)

    monkeypatch.setattr(SkillCatalog, "_look", look)
    async with open_client(server) as client, trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(skills_of, client)
        while not looks:
            await trio.sleep(0.01)
        await trio.sleep(0.1)
        go_on.set()
    assert len(looks) <= 3


# What is refused when it is added.


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"SKILL.md": "no frontmatter"}, "does not begin with frontmatter"),
        ({"SKILL.md": "---\nname: other\ndescription: x\n---\n"}, "its name is 'other', and its directory"),
        ({"SKILL.md": "---\nname: refunds\n---\n"}, "its description must be a text"),
        ({"SKILL.md": "---\nname: refunds\ndescription: [x]\n---\n"}, "its description must be a text"),
        ({"SKILL.md": b"---\nname: refunds\ndescription: \xff\n---\n"}, "not UTF-8"),
        (
            {"sub/SKILL.md": "---\nname: other\ndescription: x\n---\n"},
            r"sub cannot be served: its name is 'other'",
        ),
        ({str(n): "" for n in range(512)}, "it has 513 files; a skill may have 512"),
        ({f"{n}.bin": bytes(6 << 20) for n in range(3)}, "its files have .* bytes; .* may have 16777216"),
        ({"large.bin": bytes((8 << 20) + 1)}, r"large\.bin cannot be read: .*Limits\.max_file_bytes is 8388608"),
    ],
)
def test_a_skill_that_breaks_a_rule_is_refused(files: dict[str, str | bytes], problem: str, write: Write) -> None:
    server = Server("s")
    directory = write("refunds", files)
    with pytest.raises(ValueError, match=problem):
        server.add_skill(directory)
    (directory / "SKILL.md").write_text("---\nname: refunds\ndescription: x\n---\n")


def test_as_many_files_as_are_allowed(write: Write) -> None:
    server = Server("s")
    server.add_skill(write("refunds", {str(n): "" for n in range(511)}))


@pytest.mark.parametrize("name", ["Refunds", "re_funds", "-refunds", "re--funds", "x" * 65])
def test_names_of_skills(name: str, write: Write) -> None:
    with pytest.raises(ValueError, match="no name of a skill"):
        Server("s").add_skill(write(name))


def test_what_is_no_skill_is_refused(tmp_path: Path, write: Write) -> None:
    server, five = Server("s"), cast("str", 5)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"is no skill: there is no SKILL\.md in it"):
        server.add_skill(tmp_path / "empty")
    for path in (tmp_path / "empty", tmp_path / "not there"):
        with pytest.raises(ValueError, match="there is no skill below"):
            server.add_skills(path)
    for prefix in ("/acme", "acme/", "acme//x", "..", "a/../b"):
        with pytest.raises(ValueError, match="a prefix is a path such as acme/billing"):
            server.add_skill(write("refunds"), prefix=prefix)
    with pytest.raises(ValueError, match="ttl"):
        server.add_skill(write("refunds"), ttl=-1)
    with pytest.raises(TypeError, match="prefix takes"):
        server.add_skill(write("refunds"), prefix=five)


def test_a_directory_with_too_much_in_it_is_refused(write: Write) -> None:
    directory = write("refunds", {str(n): "" for n in range(20)})
    from inside_server import SkillCatalog, SkillRoot

    catalog = SkillCatalog(Limits(), lambda: None, max_scanned=10)
    root = SkillRoot(path=str(directory), prefix=("refunds",), is_skill=True, nested=True)
    with pytest.raises(ValueError, match="more than 10 files and folders"):
        catalog.add(root, lambda _: False)


async def test_no_skill_is_where_another_one_is(write: Write, tmp_path: Path) -> None:
    """Two directories never make up the files of one skill. What was refused leaves nothing behind."""
    server = Server("s")
    one = write("one")
    server.add_skill(one, prefix="acme")
    other = write("elsewhere/one")
    with pytest.raises(ValueError, match=r"there is another skill at skill://acme/one/SKILL\.md already"):
        server.add_skill(other, prefix="acme")
    inner = write("elsewhere/inner")
    with pytest.raises(ValueError, match=r"of which skill://acme/one/inner/SKILL\.md would be a part"):
        server.add_skill(inner, prefix="acme/one")
    acme = write("elsewhere/acme")
    with pytest.raises(ValueError, match="or the reverse"):
        server.add_skill(acme)
    server.add_skill(other, prefix="acme/more")
    async with open_client(server) as client:
        assert list(await skills_of(client)) == ["skill://acme/more/one/SKILL.md", "skill://acme/one/SKILL.md"]


def test_an_extension_of_this_name_leaves_no_place_for_skills(write: Write) -> None:
    server = Server("s", extensions=[ServerExtension("io.modelcontextprotocol/skills")])
    with pytest.raises(ValueError, match="two extensions claim the identifier io"):
        server.add_skill(write("refunds"))


async def test_a_server_without_skills_says_nothing_of_them() -> None:
    async with open_client(Server("s")) as client:
        assert client.server_capabilities is not None
        assert client.server_capabilities.extensions is None
        with pytest.raises(RequestError) as caught:
            await client.request("skills/list")
        assert caught.value.code == -32601
