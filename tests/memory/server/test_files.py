"""Files and directories as resources: what is listed, what is read, and what is never read."""

from __future__ import annotations

import base64
import contextlib
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from descriptors import open_files
from eras import ENDS
from inside_server import (
    MAX_DEPTH,
    MAX_LINKS,
    DirectorySource,
    described_file,
    files_module,
    guess_type,
    is_plain_name,
    sniff_type,
    text_of,
)
from inside_server import files_module as _files

from trio_mcp import Client, Limits, RequestError, Revision, Server, open_client
from trio_mcp.types import Annotations, Resource, ResourceTemplate

REVISIONS = pytest.mark.parametrize("revision", list(Revision))
MOMENT = 1_785_240_000  # 2026-07-28T12:00:00Z


async def read(client: Client, uri: str) -> dict[str, Any]:
    (contents,) = (await client.request("resources/read", {"uri": uri}))["contents"]
    found: dict[str, Any] = contents
    return found


async def refusal(client: Client, uri: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await read(client, uri)
    return caught.value


async def listed(client: Client) -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = (await client.request("resources/list"))["resources"]
    return resources


async def names(client: Client) -> list[str]:
    return [resource["name"] for resource in await listed(client)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with what should be found, and beside it what never should."""
    root = tmp_path / "root"
    for path, data in {
        "root/readme.md": b"# Hi",
        "root/data.bin": b"\0\1",
        "root/a b/\xc3\xa9t\xc3\xa9.txt": "été".encode(),
        "root/sub/deep/x.json": b"{}",
        "root/sub/y.txt": b"y",
        "root/.hidden": b"hidden",
        "root/.git/config": b"hidden",
        "secret.txt": b"secret",
        "rootsecret.txt": b"secret",
    }.items():
        place = tmp_path / os.fsdecode(path.encode("latin-1"))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, (MOMENT, MOMENT))
    return root


# What is listed and read.


@pytest.mark.spec("server/resources", "file://")
@pytest.mark.spec("server/resources", "Resource Templates")
@REVISIONS
async def test_a_directory_lists_its_files_and_is_a_template(root: Path, revision: Revision) -> None:
    """Server/resources: `size`, and `lastModified` where the revision has it; folder after folder, by name."""
    server = Server("s")
    server.add_directory(root, uri="docs://", title="Docs", annotations=Annotations(priority=1))
    async with open_client(server, revision=revision) as client:
        resources = await listed(client)
        templates = (await client.request("resources/templates/list"))["resourceTemplates"]
    annotations: dict[str, Any] = {"priority": 1}
    if revision >= Revision.V2025_06_18:
        annotations["lastModified"] = "2026-07-28T12:00:00Z"
    assert [(r["uri"], r["name"], r.get("mimeType"), r["size"], r["annotations"]) for r in resources] == [
        ("docs://data.bin", "data.bin", "application/octet-stream", 2, annotations),
        ("docs://readme.md", "readme.md", "text/markdown", 4, annotations),
        ("docs://a%20b/%C3%A9t%C3%A9.txt", "a b/été.txt", "text/plain", 5, annotations),
        ("docs://sub/y.txt", "sub/y.txt", "text/plain", 1, annotations),
        ("docs://sub/deep/x.json", "sub/deep/x.json", "application/json", 2, annotations),
    ]
    assert [template["uriTemplate"] for template in templates] == ["docs://{+path}"]


@pytest.mark.parametrize("revision", ENDS)
async def test_everything_that_is_listed_can_be_read(root: Path, revision: Revision) -> None:
    """Text or base64 by type and content (server/resources, "Resource Contents")."""
    server = Server("s")
    server.add_directory(root)
    found: dict[str, str] = {}
    async with open_client(server, revision=revision) as client:
        for resource in await listed(client):
            contents = await read(client, resource["uri"])
            assert contents["uri"] == resource["uri"]
            assert resource["uri"].startswith(root.as_uri() + "/")
            found[resource["name"]] = contents["text" if "text" in contents else "blob"]
    assert found == {
        "data.bin": "AAE=",
        "readme.md": "# Hi",
        "a b/été.txt": "été",
        "sub/y.txt": "y",
        "sub/deep/x.json": "{}",
    }


async def test_a_pattern_says_which_files_there_are(subtests: pytest.Subtests, root: Path) -> None:
    """To be listed, and to be read: what is not listed for this reason does not exist."""
    rows: list[tuple[str, list[str]]] = [
        ("*", ["data.bin", "readme.md"]),
        ("*.md", ["readme.md"]),
        ("**/*.txt", ["a b/été.txt", "sub/y.txt"]),
        ("sub/**/*", ["sub/y.txt", "sub/deep/x.json"]),
        ("sub/*", ["sub/y.txt"]),
        ("**/deep/**/*.json", ["sub/deep/x.json"]),
        ("s?b/[xy].txt", ["sub/y.txt"]),
        ("nothing", []),
    ]
    for pattern, expected in rows:
        with subtests.test(pattern=pattern, expected=expected):
            server = Server("s")
            server.add_directory(root, uri="x:///", pattern=pattern)
            async with open_client(server) as client:
                assert await names(client) == expected
                for name in ("readme.md", "sub/y.txt", "sub/deep/x.json"):
                    if name in expected:
                        await read(client, f"x:///{name}")
                    else:
                        assert (await refusal(client, f"x:///{name}")).code == -32602


def test_patterns_stay_within(subtests: pytest.Subtests) -> None:
    """A pattern that means nothing, or something else, is refused."""
    for pattern in ("", "/etc/*", "../*", "a/../*", "a//b", "./*", "**", "a/**", "a\0"):
        with subtests.test(pattern=pattern), pytest.raises(ValueError, match=r".+"):
            Server("s").add_directory("/tmp", pattern=pattern)


@pytest.mark.parametrize("uri", ["x", "x:/a?b", "x:/a#b", "x: y"])
def test_directories_need_a_uri(uri: str) -> None:
    """What the URIs of its files begin with."""
    with pytest.raises(ValueError, match=r".+"):
        Server("s").add_directory("/tmp", uri=uri)


async def test_hidden_files_are_there_if_wanted(root: Path) -> None:
    """Keys and configurations begin with a dot."""
    server = Server("s")
    server.add_directory(root, uri="shown:", hidden=True)
    server.add_directory(root, uri="other:")
    async with open_client(server) as client:
        shown = [r["uri"] for r in await listed(client) if r["uri"].startswith("shown:/.")]
        assert shown == ["shown:/.hidden", "shown:/.git/config"]
        assert (await read(client, "shown:/.git/config"))["text"] == "hidden"
        for uri in ("other:/.hidden", "other:/.git/config", "other:/%2Egit/config"):
            assert (await refusal(client, uri)).message == "Resource not found"


async def test_a_list_has_an_end(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """MAX_LISTED: the others can be read all the same; the log says so once."""
    for number in range(1_000):
        (root / f"a{number:03}").touch()
    server = Server("s")
    server.add_directory(root, uri="x:")
    async with open_client(server) as client:
        for _ in range(2):
            assert await names(client) == [f"a{number:03}" for number in range(1_000)]
        assert (await read(client, "x:/sub/y.txt"))["text"] == "y"
    assert caplog.text.count("more than 1000 files; not all are listed") == 1


def test_looking_has_an_end(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """MAX_SCANNED: a pattern that fits little must not search the whole disk."""
    template = ResourceTemplate(name="t", uri_template="x:/{+path}")
    source = DirectorySource(
        root=str(root), prefix="x:/", pattern="**/*", hidden=False, template=template, max_scanned=3
    )
    for _ in range(2):
        assert len(list(source.resources())) <= 3
    assert caplog.text.count("more than 3 entries; not all are listed") == 1


@pytest.mark.parametrize("revision", ENDS)
async def test_single_files(root: Path, revision: Revision) -> None:
    """Read anew each time; while there is none, it is not listed and not found."""
    server = Server("s")
    path = root / "readme.md"
    server.add_file(path, title="Read me", ttl=1)
    server.add_file(root / "data.bin", uri="x:data", name="data", mime_type="application/x-data")
    server.add_file(root / "sub", uri="x:sub")
    async with open_client(server, revision=revision) as client:
        first, second = await listed(client)
        assert (first["uri"], first["name"], first["size"]) == (path.as_uri(), "readme.md", 4)
        assert (second["uri"], second["name"], second["mimeType"]) == ("x:data", "data", "application/x-data")
        assert (await read(client, path.as_uri()))["text"] == "# Hi"
        assert (await read(client, "x:data"))["blob"] == "AAE="
        path.write_text("# Ho")
        assert (await read(client, path.as_uri()))["text"] == "# Ho"
        path.unlink()
        assert [resource["uri"] for resource in await listed(client)] == ["x:data"]
        code = -32602 if revision.is_modern else -32002
        for uri in (path.as_uri(), "x:sub"):
            error = await refusal(client, uri)
            assert (error.code, error.data) == (code, {"uri": uri})


async def test_a_file_of_a_directory_may_have_a_name_of_its_own(root: Path) -> None:
    """It is listed once, as it was registered; and if it is hidden, the directory does not give it either."""
    server = Server("s")
    server.add_directory(root, pattern="*.md")
    server.add_file(root / "readme.md", name="mine")
    async with open_client(server) as client:
        assert await names(client) == ["mine"]
        server.disable_resource((root / "readme.md").as_uri())
        assert await names(client) == []
        await refusal(client, (root / "readme.md").as_uri())


async def test_a_file_has_a_size(root: Path) -> None:
    """The error names the limit; what is exactly as large is read."""
    server = Server("s", limits=Limits(max_file_bytes=4))
    server.add_directory(root, uri="x:")
    (root / "large").write_bytes(b"12345")
    async with open_client(server) as client:
        assert (await read(client, "x:/readme.md"))["text"] == "# Hi"
        error = await refusal(client, "x:/large")
        assert (error.code, error.data) == (-32603, {"uri": "x:/large"})
        assert "max_file_bytes is 4" in error.message


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
async def test_a_file_that_says_it_is_empty_has_a_size_too() -> None:
    """Files of /proc have no size until they are read."""
    server = Server("s", limits=Limits(max_file_bytes=100))
    server.add_file("/proc/self/status", uri="x:status")
    server.add_file("/proc/self/oom_score", uri="x:score")
    async with open_client(server) as client:
        assert "max_file_bytes" in (await refusal(client, "x:status")).message
        assert (await read(client, "x:score"))["text"].strip().isdigit()


async def test_what_cannot_be_read_is_a_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of the disk is not "not found"; where the file lies is told to the log alone."""

    real = os.read

    def fail_once(*args: Any) -> bytes:
        if threading.current_thread() is threading.main_thread():
            return real(*args)  # the event loop's own
        raise OSError(5, "Input/output error", str(root))

    monkeypatch.setattr(os, "read", fail_once)
    server = Server("s")
    server.add_directory(root, uri="x:")
    async with open_client(server) as client:
        error = await refusal(client, "x:/readme.md")
        assert error.code == -32603
        assert str(root) not in f"{error.message}{error.data}"
    assert "Input/output error" in caplog.text


async def test_odd_files(root: Path) -> None:
    """Names that are no UTF-8."""
    (root / os.fsdecode(b"\xff.txt")).write_text("odd")
    server = Server("s")
    server.add_directory(root, uri="x:", pattern="*.*")
    async with open_client(server) as client:
        resources = {resource["uri"]: resource for resource in await listed(client)}
        assert resources["x:/%FF.txt"]["name"] == "\ufffd.txt"
        assert (await read(client, "x:/%FF.txt"))["text"] == "odd"


def test_odd_dates() -> None:
    """Some disks have seen much; no calendar has these."""
    status = os.stat_result((stat.S_IFREG, 0, 0, 1, 0, 0, 7, 0, 10**15, 0))
    told = described_file(Resource(uri="x:a", name="a"), status)
    assert (told.size, told.annotations) == (7, Annotations())


async def test_pipes_and_folders_are_no_files(root: Path) -> None:
    """Opening a pipe without a writer would wait for ever."""
    os.mkfifo(root / "pipe")
    server = Server("s")
    server.add_directory(root, uri="x:")
    with trio.fail_after(20):
        async with open_client(server) as client:
            assert "pipe" not in await names(client)
            for uri in ("x:/pipe", "x:/sub", "x:/sub/", "x:/", "x:/readme.md/x"):
                assert (await refusal(client, uri)).message == "Resource not found"


async def test_a_directory_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """It may come later."""
    server = Server("s")
    server.add_directory(tmp_path / "later", uri="x:")
    async with open_client(server) as client:
        assert await names(client) == []
        await refusal(client, "x:/a.txt")
        (tmp_path / "later").mkdir()
        (tmp_path / "later/a.txt").write_text("now")
        assert await names(client) == ["a.txt"]
        assert (await read(client, "x:/a.txt"))["text"] == "now"


# What is never read.

WAYS_OUT = [
    "../secret.txt",
    "%2E%2E/secret.txt",
    "..%2Fsecret.txt",
    "sub/../../secret.txt",
    "sub/../readme.md",  # it would lead back in; URIs are not paths, and have one spelling
    "./readme.md",
    "//etc/passwd",
    "/etc/passwd",
    "%2Fetc%2Fpasswd",
    "sub//y.txt",
    "sub%2Fy.txt",
    "readme.md%00.txt",
    "readme.md%00",
    "%00",
    "readme.md/",
    "readme.md/..",
    "",
    ".",
    "..",
    "readme.md?x=1",
    "readme.md#x",
    "../rootsecret.txt",
    "x/" * (MAX_DEPTH + 1) + "y",
    "n" * 300,
]


@pytest.fixture(params=["walking", "resolving"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are opened: as on POSIX, and as elsewhere."""
    if request.param == "walking" and not _files._WALKS:
        pytest.skip("needs openat")
    monkeypatch.setattr(_files, "_WALKS", request.param == "walking")
    found: str = request.param
    return found


@pytest.mark.spec("server/resources", "Security Considerations")
@pytest.mark.spec("server/resources", "file://")
@pytest.mark.parametrize("revision", ENDS)
async def test_no_spelling_leads_out(root: Path, revision: Revision) -> None:
    """Server/resources, "Security Considerations": file paths are sanitised against traversal."""
    server = Server("s")
    server.add_directory(root, uri="file:///docs", hidden=True)
    async with open_client(server, revision=revision) as client:
        for path in WAYS_OUT:
            error = await refusal(client, f"file:///docs/{path}")
            assert error.code == (-32602 if revision.is_modern else -32002), path
            assert error.message == "Resource not found"
        await refusal(client, "file:///docsecret.txt")


async def test_links_within_are_followed_and_no_others(root: Path, way: str) -> None:
    """Neither when reading, nor in the list, nor on the way to something."""
    links = {
        "in.md": "readme.md",
        "sub/up.md": "../readme.md",
        "sub/deep/round": "../../sub/./y.txt",
        "folder": "sub",
        "chain": "in.md",
        "out.txt": "../secret.txt",
        "sub/out.txt": "../../secret.txt",
        "outside": "..",
        "sub/far": "../../../../../../../../etc",
        "absolute": str(root.parent / "secret.txt"),
        "loop": "loop",
        "dangling": "nothing",
        "pipe_link": "sub/deep/pipe",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "sub/deep/pipe")
    (root / "long0").symlink_to("readme.md")
    for n in range(MAX_LINKS):
        (root / f"long{n + 1}").symlink_to(f"long{n}")
    server = Server("s")
    server.add_directory(root, uri="x:")
    async with open_client(server) as client:
        found = set(await names(client))
        for name in ("in.md", "sub/up.md", "sub/deep/round", "chain"):
            assert (await read(client, f"x:/{name}"))["text"] in {"# Hi", "y"}
            assert name in found
        assert (await read(client, "x:/folder/y.txt"))["text"] == "y"
        assert "folder/y.txt" not in found
        bad = ["out.txt", "sub/out.txt", "outside/secret.txt", "sub/far/passwd", "absolute", "loop", "dangling"]
        if way == "walking":
            bad.append(f"long{MAX_LINKS}")
        for name in (*bad, "pipe_link", "outside", "folder"):
            error = await refusal(client, f"x:/{name}")
            assert error.message == "Resource not found", name
            assert name not in found


async def test_what_is_hidden_is_hidden_from_links_too(root: Path, way: str) -> None:
    """`hidden=False` looked at the names in the URI alone, and a link called `notes.md` gave out `.env`."""
    links = {
        "notes.md": ".hidden",
        "config": ".git/config",
        "sub/up.txt": "../.hidden",
        "chain": "notes.md",
        "folder": ".git",
        "sub/over": "../.git/../readme.md",
        "sub/dot": "./y.txt",
        "sub/plain": "../sub/../readme.md",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / ".git/seen").symlink_to("../readme.md")
    (root / "..data").mkdir()
    (root / "..data/key").write_text("hidden")
    (root / "key").symlink_to("..data/key")
    server = Server("s")
    server.add_directory(root, uri="x:")
    server.add_directory(root, uri="shown:", hidden=True)
    async with open_client(server) as client:
        uris = {resource["uri"] for resource in await listed(client)}
        assert {"x:/sub/dot", "x:/sub/plain"} <= uris
        assert (await read(client, "x:/sub/dot"))["text"] == "y"
        assert (await read(client, "x:/sub/plain"))["text"] == "# Hi"
        hidden = ["notes.md", "config", "sub/up.txt", "chain", "folder/config", "key"]
        if way == "walking":  # elsewhere it counts where the file lies, not the way to it
            hidden += ["sub/over", "folder/seen"]
        for name in hidden:
            assert (await refusal(client, f"x:/{name}")).message == "Resource not found", name
            assert f"x:/{name}" not in uris
            assert (await read(client, f"shown:/{name}"))["text"] in {"hidden", "# Hi"}
        assert {"shown:/notes.md", "shown:/key"} <= uris


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_even_opened(root: Path, way: str) -> None:
    """A process that waits to write into it would be woken, and killed by the closing."""
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    opened = list[str]()
    real = os.open

    def watched(path: Any, *args: Any, **options: Any) -> int:
        opened.append(str(path))
        return real(path, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched)
        for name in ("pipe", "link"):
            with pytest.raises(FileNotFoundError):
                _files.open_below(str(root), [name], hidden=False)
            with pytest.raises(FileNotFoundError):
                _files.read_file(str(root / name), 100)
    assert not [path for path in opened if path.endswith(("pipe", "link"))]


async def test_names_in_lists_are_printable(root: Path) -> None:
    """A client shows them, perhaps on a terminal; by the URI the file is read all the same."""
    odd = "a\nb\x1b[2J\u202e.txt"
    (root / odd).write_text("odd")
    server = Server("s")
    server.add_directory(root, uri="x:", pattern="*.txt")
    async with open_client(server) as client:
        (resource,) = await listed(client)
        assert resource["name"] == r"a\nb\x1b[2J\u202e.txt"
        assert resource["uri"].isascii()
        assert resource["uri"].isprintable()
        assert (await read(client, resource["uri"]))["text"] == "odd"


async def test_a_link_must_not_lead_too_deep(root: Path) -> None:
    """Each folder on the way is a file descriptor."""
    deep = root
    for _ in range(MAX_DEPTH + 2):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "x.txt").write_text("deep")
    (root / "link").symlink_to(deep.relative_to(root) / "x.txt")
    server = Server("s")
    server.add_directory(root, uri="x:")
    async with open_client(server) as client:
        await refusal(client, "x:/link")
        await refusal(client, "x:/" + "d/" * (MAX_DEPTH + 2) + "x.txt")
        assert "readme.md" in await names(client)


def test_renaming_at_any_moment_lets_nothing_out(root: Path, way: str) -> None:
    """Another program swaps a folder for a link that leads out, again and again, while files are opened."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "y.txt").write_text("secret")
    (root / "link").symlink_to("../outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "sub", root / "kept")
            os.rename(root / "link", root / "sub")
            os.rename(root / "sub", root / "link")
            os.rename(root / "kept", root / "sub")

    swapper = threading.Thread(target=swap)
    swapper.start()
    read: set[bytes] = set()
    try:
        for _ in range(1500):
            with contextlib.suppress(OSError):
                read.add(_files.read_open_file(_files.open_below(str(root), ["sub", "y.txt"], hidden=True), 100))
    finally:
        stop.set()
        swapper.join()
    read.add(_files.read_open_file(_files.open_below(str(root), ["sub", "y.txt"], hidden=True), 100))
    assert read == {b"y"}


def test_what_was_opened_is_looked_at_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where paths must be resolved first: what is swapped between that and the opening is noticed."""
    monkeypatch.setattr(_files, "_WALKS", False)
    opened = os.open
    target = root / "sub/y.txt"

    def swapped(path: str, flags: int) -> int:
        target.unlink()
        target.symlink_to("../../secret.txt")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", swapped)
    before = open_files() if Path("/proc/self/fd").exists() else None
    with pytest.raises(PermissionError):
        _files.open_below(str(root), ["sub", "y.txt"], hidden=True)
    assert before is None or not open_files() - before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
async def test_no_descriptor_is_left_open(root: Path, way: str) -> None:
    """Whatever the outcome."""
    (root / "out").symlink_to("../secret.txt")
    (root / "loop").symlink_to("loop")
    server = Server("s", limits=Limits(max_file_bytes=3))
    server.add_directory(root, uri="x:")
    async with open_client(server) as client:
        await listed(client)
        before = open_files()
        for uri in ("x:/out", "x:/loop", "x:/readme.md", "x:/sub/y.txt", "x:/sub", "x:/sub/deep/no"):
            with contextlib.suppress(RequestError):
                await read(client, uri)
        await listed(client)
        assert not open_files() - before


def test_plain_names(subtests: pytest.Subtests) -> None:
    """A name that the system takes for something else is no name."""
    rows: list[tuple[str, bool, bool]] = [
        ("a", True, True),
        ("a b.txt", True, True),
        ("...", True, False),
        ("", False, False),
        (".", False, False),
        ("..", False, False),
        ("a/b", False, False),
        ("a\0", False, False),
        ("a\\b", True, False),
        ("C:", True, False),
        ("a:stream", True, False),
        ("nul", True, False),
        ("COM1.txt", True, False),
        ("con .txt", True, True),
        ("a.", True, False),
        ("a ", True, False),
        ("a*", True, False),
    ]
    for name, posix, windows in rows:
        with subtests.test(name=name, posix=posix, windows=windows):
            assert is_plain_name(name, windows=False) is posix
            assert is_plain_name(name, windows=True) is windows


# What bytes are.


def test_types_by_name(subtests: pytest.Subtests) -> None:
    """The same on every system."""
    rows: list[tuple[str, str | None]] = [
        ("a.md", "text/markdown"),
        ("a.PNG", "image/png"),
        ("a.tar.gz", "application/gzip"),
        ("a.txt.xz", "application/x-xz"),
        ("a.txt.Z", "application/octet-stream"),
        ("a.yaml", "application/yaml"),
        ("a:b.json", "application/json"),
        ("a.wav", "audio/wav"),
        ("a", None),
        ("a.unheard-of", None),
    ]
    for name, kind in rows:
        with subtests.test(name=name, kind=kind):
            assert guess_type(name) == kind


def test_types_by_beginning(subtests: pytest.Subtests) -> None:
    """For bytes without a name."""
    rows: list[tuple[bytes, str | None]] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\n\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", "audio/wav"),
        (b"ID3", "audio/mpeg"),
        (b"\xff\xfb", "audio/mpeg"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
        (b"%PDF-1.7", "application/pdf"),
        (b'<?xml version="1.0"?>\n<svg xmlns="x">', "image/svg+xml"),
        (b"<svg>", "image/svg+xml"),
        (b"hello", None),
        (b"", None),
    ]
    for data, kind in rows:
        with subtests.test(data=data, kind=kind):
            assert sniff_type(data) == kind


def test_what_is_text(subtests: pytest.Subtests) -> None:
    """The type says so and the bytes agree; without a type, the bytes."""
    rows: list[tuple[bytes, str | None, str | None]] = [
        (b"hi", None, "hi"),
        (b"", None, ""),
        ("é\t\r\n".encode(), None, "é\t\r\n"),
        (b"\xe9", None, None),
        (b"a\0", None, None),
        (b"%PDF-1.7", None, None),
        (b"\xe9", "text/plain", None),
        (b"a\0", "text/plain", "a\0"),
        (b"{}", "application/json", "{}"),
        (b"{}", "application/vnd.x+json; charset=utf-8", "{}"),
        (b"<svg>", "image/svg+xml", "<svg>"),
        (b"hi", "application/octet-stream", None),
        (b"hi", "image/png", None),
    ]
    for data, kind, text in rows:
        with subtests.test(data=data, kind=kind, text=text):
            assert text_of(data, kind) == text


async def test_reading_does_not_hold_up_others(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read in threads: a slow disk costs only who asked."""
    release = threading.Event()
    real: Callable[..., Any] = _files.open_below

    def slow(*args: Any, **options: Any) -> int:
        release.wait(10)
        opened: int = real(*args, **options)
        return opened

    monkeypatch.setattr(files_module, "open_below", slow)
    server = Server("s")
    server.add_directory(root, uri="x:")
    server.add_resource("y:now", "now")
    with trio.fail_after(20):
        async with open_client(server) as client:
            done: list[str] = []

            async def ask(uri: str) -> None:
                done.append((await read(client, uri))["text"])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "x:/readme.md")
                await ask("y:now")
                release.set()
            assert done == ["now", "# Hi"]
            release.clear()
            with trio.move_on_after(0.1) as scope:
                await read(client, "x:/readme.md")
            assert scope.cancelled_caught
            release.set()


def test_base64_is_that_of_the_standard() -> None:
    """Server/resources, "Security Considerations": binary data is properly encoded."""
    assert base64.b64decode("AAE=", validate=True) == b"\0\1"
