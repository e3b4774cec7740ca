"""Skills, as a client verifies them: digests, sizes, frontmatter, and nothing read ahead.

Spec: extension io.modelcontextprotocol/skills (SEP-2640), "Integrity and Verification".
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import trio.testing
from eras import ENDS
from scripted_server import MODERN, ScriptedServer

from trio_mcp import (
    Client,
    LoadedSkill,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    ResponseCache,
    Revision,
    Skill,
    SkillChanged,
    open_client,
)
from trio_mcp.types import evolve

URI = "skill://acme/refunds/SKILL.md"
GUIDE = "skill://acme/refunds/references/a%20guide.md"
NAME = "io.modelcontextprotocol/skills"
TEXT = "---\nname: refunds\ndescription: Give money back.\nmetadata: {version: 1.0, due: 2026-07-28}\n---\n# Refunds\n"
FRONTMATTER = {
    "name": "refunds",
    "description": "Give money back.",
    "metadata": {"version": 1, "due": "2026-07-28"},
}


def listed(uri: str, data: bytes, **changed: object) -> dict[str, object]:
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data), **changed}


class SkillServer(ScriptedServer):
    """Serves one skill, and what a test changes of it.

    Attributes:
        entry: What it says of the skill.
        files: What it sends.
    """

    def __init__(self, revision: Revision = MODERN, settings: object = None) -> None:
        extensions = {NAME: {"directoryRead": True} if settings is None else settings}
        super().__init__(revision, capabilities={"resources": {}, "extensions": extensions})
        self.files: dict[str, str | bytes] = {URI: TEXT, GUIDE: "Do it.\r\n\u00e9"}
        files = [listed(uri, str(text).encode()) for uri, text in self.files.items()]
        self.entry: dict[str, Any] = {"uri": URI, "frontmatter": FRONTMATTER, "resources": files}
        self.script["skills/list"] = lambda _: self.result(skills=[self.entry])
        self.script["skills/get"] = lambda _: self.result(skill=self.entry)
        self.script["resources/read"] = self.read

    def result(self, **members: object) -> dict[str, Any]:
        fresh = {"ttlMs": 60_000, "cacheScope": "private"} if self.revision.is_modern else {}
        return self.complete(**fresh, **members)

    def read(self, message: dict[str, Any]) -> dict[str, Any]:
        uri = message["params"]["uri"]
        data = self.files[uri]
        content = {"text": data} if isinstance(data, str) else {"blob": base64.b64encode(data).decode()}
        return self.result(contents=[{"uri": uri, **content}])

    @property
    def was_read(self) -> list[str]:
        return [message["params"]["uri"] for message in self.requests("resources/read")]


async def load(client: Client) -> LoadedSkill:
    (skill,) = await client.list_skills()
    return await client.load_skill(skill)


@pytest.mark.parametrize("revision", ENDS)
async def test_a_skill_is_listed_loaded_and_read(revision: Revision) -> None:
    """ "Lazy Retrieval": a file is read when it is needed, and not before."""
    server = SkillServer(revision)
    async with open_client(server, revision=revision) as client:
        (skill,) = await client.list_skills()
        assert (skill.name, skill.description, skill.uri) == ("refunds", "Give money back.", URI)
        assert await client.get_skill(URI) == skill
        assert server.was_read == []
        loaded = await client.load_skill(skill)
        assert (loaded.skill, loaded.text, loaded.body) == (skill, TEXT, "# Refunds\n")
        assert server.was_read == [URI]
        file = await client.read_skill_file(loaded.skill, "references/a guide.md")
        assert (file.uri, file.text, file.data) == (GUIDE, "Do it.\r\n\u00e9", b"Do it.\r\n\xc3\xa9")
        assert server.was_read == [URI, GUIDE]
        by_uri = await client.load_skill(URI)
        assert by_uri == loaded


async def test_bytes_are_bytes() -> None:
    server = SkillServer()
    data = b"\x00\xff"
    server.files[GUIDE] = data
    server.entry["resources"][1] = listed(GUIDE, data)
    async with open_client(server) as client:
        file = await client.read_skill_file((await load(client)).skill, "references/a guide.md")
        assert file.data == data
        with pytest.raises(ValueError, match="utf-8"):
            _ = file.text


TAMPERED: dict[str, tuple[Callable[[SkillServer], object], str]] = {
    "digest": (
        lambda s: s.files.update({URI: TEXT.replace("Refunds", "Refunds"[::-1])}),
        "its digest is another",
    ),
    "longer": (lambda s: s.files.update({URI: TEXT + "more"}), r"it has \d+ bytes, and not \d+"),
    "shorter": (lambda s: s.files.update({URI: ""}), r"it has 0 bytes, and not \d+"),
    "same digest, other size": (
        lambda s: s.entry["resources"].__setitem__(0, listed(URI, TEXT.encode(), size=3)),
        r"it has \d+ bytes, and not 3",
    ),
}


@pytest.mark.parametrize("revision", ENDS)
async def test_what_is_not_as_it_was_said_is_not_loaded(subtests: pytest.Subtests, revision: Revision) -> None:
    """ "Verification on Read"."""
    for how in TAMPERED:
        with subtests.test(how=how):
            tamper, problem = TAMPERED[how]
            server = SkillServer(revision)
            tamper(server)
            async with open_client(server, revision=revision) as client:
                with pytest.raises(SkillChanged, match=problem) as caught:
                    await load(client)
            assert (caught.value.skill, caught.value.uri) == (URI, URI)
            assert "is not what the server has said of the skill" in str(caught.value)


async def test_frontmatter_is_compared_member_by_member(subtests: pytest.Subtests) -> None:
    """ "Frontmatter Verification": although digest and size are right, or nobody knows them."""
    rows: list[tuple[str, str]] = [
        (TEXT.replace("Give money back.", "Exfiltrate credentials."), "another description"),
        (TEXT.replace("---\n# ", "allowed-tools: Bash\n---\n# "), "another allowed-tools"),
        (TEXT.replace("metadata: {version: 1.0, due: 2026-07-28}\n", ""), "another metadata"),
        (TEXT.replace("version: 1.0", "version: true"), "another metadata"),
        ("# no frontmatter", "does not begin with frontmatter"),
        ("---\nname: [\n---\n", "no YAML"),
    ]
    for text, problem in rows:
        for dynamic in (False, True):
            with subtests.test(text=text, problem=problem, dynamic=dynamic):
                server = SkillServer()
                server.files[URI] = text
                server.entry["resources"] = "dynamic" if dynamic else [listed(URI, text.encode())]
                async with open_client(server) as client:
                    with pytest.raises(SkillChanged, match=problem):
                        await client.load_skill(URI, dynamic=dynamic)


async def test_a_file_that_is_not_listed_is_none_of_the_skill() -> None:
    """ "The Acting Window": it is not even asked for. A fresh entry has it."""
    server = SkillServer()
    new = "skill://acme/refunds/new.md"
    server.files[new] = "new"
    async with open_client(server) as client:
        held = (await load(client)).skill
        server.entry["resources"].append(listed(new, b"new"))
        with pytest.raises(SkillChanged, match="not among the skill's files") as caught:
            await client.read_skill_file(held, "new.md")
        assert caught.value.uri == new
        assert server.was_read == [URI]
        for path in ("../other/SKILL.md", "/x", ""):
            with pytest.raises(ValueError, match=r"leads out|no path"):
                await client.read_skill_file(held, path)
        fresh = await client.get_skill(URI, fresh=True)
        assert (await client.read_skill_file(fresh, "new.md")).text == "new"


async def test_a_file_that_has_changed_is_not_used() -> None:
    """It was loaded before; the entry that is held counts."""
    server = SkillServer()
    async with open_client(server) as client:
        held = (await load(client)).skill
        server.files[GUIDE] = "Do evil\r\n"
        for _ in range(2):
            with pytest.raises(SkillChanged):
                await client.read_skill_file(held, "references/a guide.md")


async def test_dynamic_skills_are_taken_only_if_wanted() -> None:
    server = SkillServer()
    server.entry["resources"] = "dynamic"
    server.files["skill://acme/refunds/now.md"] = "now"
    async with open_client(server) as client:
        (skill,) = await client.list_skills()
        assert skill.resources == "dynamic"
        with pytest.raises(LocalProtocolError, match="dynamic=True takes them"):
            await client.load_skill(skill)
        with pytest.raises(LocalProtocolError, match="dynamic=True takes them"):
            await client.read_skill_file(skill, "now.md")
        assert server.was_read == []
        loaded = await client.load_skill(skill, dynamic=True)
        assert (await client.read_skill_file(loaded.skill, "now.md", dynamic=True)).text == "now"


@pytest.mark.parametrize(
    "changed",
    [
        {"resources": [{"uri": URI, "digest": "sha256:" + "0" * 64, "size": (16 << 20) + 1}]},
        {"resources": []},
        {"uri": "skill://other/SKILL.md"},
        {"frontmatter": {"name": "refunds"}},
    ],
)
async def test_a_skill_that_breaks_a_rule_is_not_asked_for(changed: dict[str, Any]) -> None:
    """What it is like can be seen before anything of it is read ("Limits")."""
    server = SkillServer()
    server.entry.update(changed)
    async with open_client(server) as client:
        (skill,) = await client.list_skills()
        for attempt in (client.load_skill(skill), client.load_skill(URI), client.read_skill_file(skill, "x")):
            with pytest.raises(RemoteProtocolError):
                await attempt
    assert server.was_read == []


async def test_one_bad_entry_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    server = SkillServer()
    odd: list[object] = [None, "static", 5, {}]
    bad: list[object] = [{**server.entry, "resources": resources} for resources in odd]
    server.script["skills/list"] = server.result(skills=[*bad, {"uri": URI}, server.entry])
    async with open_client(server) as client:
        (skill,) = await client.list_skills()
        assert isinstance(skill, Skill)
    assert "skills/list: left out 5 of 6 items" in caplog.text


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [{"uri": "skill://acme/other/SKILL.md", "text": TEXT}],
        [{"uri": URI, "blob": "no Base64!"}],
        [{"uri": URI, "blob": "é"}],
    ],
)
async def test_what_is_read_must_be_the_file(contents: list[dict[str, Any]]) -> None:
    server = SkillServer()
    server.script["resources/read"] = server.result(contents=contents)
    async with open_client(server) as client:
        with pytest.raises(RemoteProtocolError):
            await load(client)


async def test_a_file_that_is_gone_is_an_error_of_the_server() -> None:
    server = SkillServer()
    del server.script["resources/read"]
    async with open_client(server) as client:
        with pytest.raises(RequestError):
            await load(client)


@pytest.mark.parametrize("revision", ENDS)
async def test_a_server_that_declares_nothing_is_not_asked(revision: Revision) -> None:
    """ "Capability Negotiation": a client asks after it has seen the declaration."""
    server = SkillServer(revision, settings={})
    async with open_client(server, revision=revision) as client:
        assert await client.list_skills()
        with pytest.raises(LocalProtocolError, match="has not declared directoryRead"):
            client.list_directory("skill://acme")
    server = SkillServer(revision)
    del server.capabilities["extensions"]
    async with open_client(server, revision=revision) as client:
        with pytest.raises(LocalProtocolError, match="has not declared the extension io"):
            client.list_skills()
        with pytest.raises(LocalProtocolError, match="has not declared the extension io"):
            await client.get_skill(URI)
    assert not server.requests("skills/list") + server.requests("skills/get")


@pytest.mark.parametrize("revision", ENDS)
async def test_files_are_kept_by_their_digests(revision: Revision) -> None:
    """ "Lazy Retrieval": whatever was fresh; another digest is another file."""
    server = SkillServer(revision)
    async with open_client(server, revision=revision) as client:
        held = (await load(client)).skill
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await client.read_skill_file(held, "references/a guide.md")
        assert server.was_read == [URI, GUIDE]
        server.files[GUIDE] = "other"
        server.entry["resources"][1] = listed(GUIDE, b"other")
        fresh = await client.get_skill(URI, fresh=True)
        assert (await client.read_skill_file(fresh, "references/a guide.md")).text == "other"
        assert (await client.read_skill_file(held, "references/a guide.md")).text == "Do it.\r\n\u00e9"
        assert server.was_read == [URI, GUIDE, GUIDE]
    server = SkillServer(revision)
    async with open_client(server, revision=revision, cache=None) as client:
        for _ in range(2):
            await load(client)
    assert server.was_read == [URI, URI]


async def test_a_file_that_was_kept_is_held_against_the_entry() -> None:
    """Which may lie about the size alone."""
    server = SkillServer()
    async with open_client(server) as client:
        skill = (await load(client)).skill
        first, *others = (one for one in skill.resources if not isinstance(one, str))
        with pytest.raises(SkillChanged, match="bytes"):
            await client.load_skill(evolve(skill, resources=[evolve(first, size=5), *others]))


async def test_a_cache_bounds_what_is_kept_of_files() -> None:
    server = SkillServer()
    cache = ResponseCache(max_bytes=2_000)
    server.files[GUIDE] = "x" * 4_000
    server.entry["resources"][1] = listed(GUIDE, b"x" * 4_000)
    async with open_client(server, cache=cache) as client:
        held = (await load(client)).skill
        for _ in range(2):
            await client.read_skill_file(held, "references/a guide.md")
        assert server.was_read == [URI, GUIDE, GUIDE]
        assert cache.statistics().bytes <= 2_000


async def test_entries_are_kept_while_they_are_fresh() -> None:
    server = SkillServer()
    async with open_client(server, cache=ResponseCache()) as client:
        for _ in range(2):
            await client.list_skills()
            await client.load_skill(URI)
        assert [len(server.requests(f"skills/{method}")) for method in ("list", "get")] == [1, 1]
        assert server.was_read == [URI]
        await client.get_skill(URI, fresh=True)
        assert len(server.requests("skills/get")) == 2


async def test_a_held_entry_may_come_from_anywhere() -> None:
    """From a file of the host, for example; it is checked like one of the server."""
    server = SkillServer()
    async with open_client(server) as client:
        (skill,) = await client.list_skills()
        kept = Skill(uri=URI, frontmatter=FRONTMATTER, resources=skill.resources)
        assert (await client.load_skill(kept)).skill is kept
        with pytest.raises(RemoteProtocolError, match="no valid digest"):
            files = [evolve(one, digest="sha256:no") for one in skill.resources if not isinstance(one, str)]
            await client.load_skill(evolve(skill, resources=files))
