"""Files, pictures, sound and bytes as results of tools and as contents of resources."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, Final

import pytest
from eras import ENDS
from inside_base import repetitions

from trio_mcp import Audio, File, Image, Limits, Revision, Server, open_client
from trio_mcp.types import Annotations, CallToolResult, TextContent

REVISIONS = pytest.mark.parametrize("revision", list(Revision))
PNG: Final = b"\x89PNG\r\n\x1a\n rest"
WAV: Final = b"RIFF\0\0\0\0WAVE rest"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in {"a.md": b"# Hi", "b.bin": b"\0", "c.png": PNG, "picture": PNG, "d.wav": WAV}.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


async def call(server: Server, name: str, revision: Revision = Revision.V2026_07_28) -> CallToolResult:
    async with open_client(server, revision=revision) as client:
        return await client.call_tool(name)


async def content(returned: Any, revision: Revision, limits: Limits | None = None) -> list[dict[str, Any]]:
    """Return the blocks of the result of a tool that returns this."""
    server = Server("s", limits=limits)

    @server.tool
    async def give() -> Any:
        return returned

    async with open_client(server, revision=revision) as client:
        result = await client.request("tools/call", {"name": "give", "arguments": {}})
    assert "structuredContent" not in result
    blocks: list[dict[str, Any]] = result["content"]
    return blocks


def giving(returned: Any, annotation: Any) -> Any:
    """Return a tool that returns a value, with a return annotation."""

    async def give() -> Any:
        return returned

    give.__annotations__["return"] = annotation
    return give


@pytest.mark.parametrize("revision", ENDS)
async def test_pictures(folder: Path, revision: Revision) -> None:
    """Server/tools, "Image Content": base64 and a type, which the name or the bytes tell."""
    image = {"type": "image", "data": b64(PNG), "mimeType": "image/png"}
    assert await content(Image(folder / "c.png"), revision) == [image]
    assert await content(Image(str(folder / "picture")), revision) == [image]
    assert await content(Image(PNG), revision) == [image]
    assert await content(Image(b"?", mime_type="image/x"), revision) == [
        {"type": "image", "data": b64(b"?"), "mimeType": "image/x"}
    ]
    assert await content(PNG, revision) == [image]


@REVISIONS
async def test_sound(folder: Path, revision: Revision) -> None:
    """Server/tools, "Audio Content"; the first revision is told in words."""
    if revision is Revision.V2024_11_05:
        audio: dict[str, Any] = {"type": "text", "text": f"[audio: audio/wav, {len(WAV)} bytes]"}
    else:
        audio = {"type": "audio", "data": b64(WAV), "mimeType": "audio/wav"}
    assert await content(Audio(folder / "d.wav"), revision) == [audio]
    assert await content(Audio(WAV), revision) == [audio]
    assert await content(WAV, revision) == [audio]


@pytest.mark.parametrize("revision", ENDS)
async def test_files(folder: Path, revision: Revision) -> None:
    """Server/tools, "Embedded Resources": text as text, all else in base64; the folder is not told."""
    assert await content(File(folder / "a.md"), revision) == [
        {"type": "resource", "resource": {"uri": "file:///a.md", "mimeType": "text/markdown", "text": "# Hi"}}
    ]
    binary = {"uri": "x:b", "mimeType": "x/y", "blob": "AA=="}
    assert await content(File(folder / "b.bin", uri="x:b", mime_type="x/y"), revision) == [
        {"type": "resource", "resource": binary}
    ]


@pytest.mark.parametrize("revision", ENDS)
async def test_bytes_of_which_nothing_is_known(revision: Revision) -> None:
    """They are embedded, and named by what they are (RFC 6920, whose example this is)."""
    (block,) = await content(b"Hello World!", revision)
    assert block == {
        "type": "resource",
        "resource": {
            "uri": "ni:///sha-256;f4OxZX_x_FO5LcGBSKHWXfwtSx-j1ncoSt3SABJtkGk",
            "mimeType": "application/octet-stream",
            "blob": b64(b"Hello World!"),
        },
    }
    assert await content(bytearray(b"Hello World!"), revision) == [block]


async def test_hints_for_the_client_and_meta(folder: Path) -> None:
    """Given with the file, sent with the block."""
    hints = Annotations(priority=1)
    for media in (
        File(folder / "a.md", annotations=hints, meta={"k": 1}),
        Image(folder / "c.png", annotations=hints, meta={"k": 1}),
        Audio(WAV, annotations=hints, meta={"k": 1}),
    ):
        (block,) = await content(media, Revision.V2026_07_28)
        assert (block["annotations"], block["_meta"]) == ({"priority": 1}, {"k": 1})


async def test_lists_of_what_is_shown(folder: Path) -> None:
    """Text, blocks, bytes and files make a result together; with anything else, it is a value."""
    returned = ["look:", Image(PNG), TextContent(text="and"), b"\0", File(folder / "a.md")]
    blocks = await content(returned, Revision.V2026_07_28)
    assert [block["type"] for block in blocks] == ["text", "image", "text", "resource", "resource"]
    (block,) = await content([1, b"x"], Revision.V2026_07_28)
    assert block == {"type": "text", "text": '[1,"eA=="]'}


async def test_what_is_shown_has_no_output_schema(folder: Path) -> None:
    """A picture is looked at; a program that wants bytes in an object still has them in base64."""
    server = Server("s")

    @server.tool
    def picture() -> Image:
        return Image(PNG)

    @server.tool
    def either() -> Image | File | str | None:
        return File(folder / "a.md")

    @server.tool
    def several() -> list[bytes]:
        return [PNG, WAV]

    @server.tool
    def raw() -> bytes:
        return PNG

    @server.tool
    def structured() -> dict[str, bytes]:
        return {"a": b"\0"}

    async with open_client(server) as client:
        schemas = {tool.name: tool.output_schema async for tool in client.list_tools()}
        assert {name for name, schema in schemas.items() if schema is not None} == {"structured"}
        assert [block.type for block in (await client.call_tool("several")).content] == ["image", "audio"]
        assert [block.type for block in (await client.call_tool("raw")).content] == ["image"]
        assert [block.type for block in (await client.call_tool("either")).content] == ["resource"]
        assert (await client.call_tool("structured")).structured_content == {"a": "AA=="}


async def test_what_is_content_is_no_part_of_json(
    folder: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """It would be an object with the names of our attributes. The log says where it is."""
    image, file = Image(PNG), File(folder / "a.md")
    rows: list[tuple[Any, Any, str]] = [
        (dict[str, Any], {"chart": image}, "chart: Image"),
        (list[dict[str, Any]], [{}, {"a b": (Audio(WAV),)}], '[1]["a b"][0]: Audio'),
        (Any, {"files": [file]}, "files[0]: File"),
        (Any, [image, [file]], "[0]: File"),
    ]
    for annotation, returned, place in rows:
        with subtests.test(annotation=annotation, returned=returned):
            caplog.clear()
            repetitions.forget()
            server = Server("s")
            server.tool(name="give")(giving(returned, annotation))
            result = await call(server, "give")
            assert result.is_error
            assert (
                result.text
                == "give has run, but its result cannot be sent. Do not repeat the call; the log says why."
            )
            assert f"{place} is content, not a part of JSON: return it alone or in a list" in caplog.text


@pytest.mark.parametrize(
    "annotation", [dict[str, Image], tuple[int, Audio], list[File | dict[str, int]], Image | dict[str, Any]]
)
def test_content_within_json_is_refused_where_a_tool_is_registered(annotation: Any) -> None:
    """So is a parameter: a client does not say which file the server reads."""
    match = r"(Image|Audio|File) is content, not a part of JSON: return it alone or in a list"
    with pytest.raises(TypeError, match=rf"give\(\): return value.*: {match}"):
        Server("s").tool(name="give")(giving(None, annotation))

    async def take(source: Any) -> None:
        del source

    take.__annotations__["source"] = annotation
    with pytest.raises(TypeError, match=rf"take\(\): parameter 'source'.*: {match}"):
        Server("s").tool(take)


async def test_files_that_cannot_be_sent(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Missing, too large, no picture: the tool has failed, and the log says why."""
    server = Server("s", limits=Limits(max_file_bytes=4))

    @server.tool
    def missing() -> File:
        return File(folder / "none")

    @server.tool
    def large() -> Image:
        return Image(folder / "c.png")

    @server.tool
    def wrong() -> Image:
        return Image(folder / "a.md")

    @server.tool
    def exact() -> File:
        return File(folder / "a.md")

    for name, said in [
        ("missing", "FileNotFoundError"),
        ("large", "max_file_bytes is 4"),
        ("wrong", "give mime_type"),
    ]:
        caplog.clear()
        result = await call(server, name)
        assert result.is_error
        assert str(folder) not in str(result)
        assert said in caplog.text
    assert not (await call(server, "exact")).is_error


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Image(b"text"), "give mime_type"),
        (lambda: Image(WAV), "give mime_type"),
        (lambda: Audio(PNG), "give mime_type"),
        (lambda: Image(PNG, mime_type="audio/wav"), "begins with image/"),
        (lambda: Audio("x", mime_type="image/png"), "begins with audio/"),
    ],
)
def test_what_is_no_picture_is_refused_where_it_is_made(make: Any, reason: str) -> None:
    """There the traceback says who did it."""
    with pytest.raises(ValueError, match=reason):
        make()


def test_paths_are_those_of_when_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its directory still means the same file."""
    monkeypatch.chdir(tmp_path)
    file, image = File("a"), Image("b")
    os.chdir("/")
    assert (file.path, image.source) == (tmp_path / "a", tmp_path / "b")
    assert "15 bytes" in repr(Image(PNG[:8] + b"1234567"))
    assert str(tmp_path / "b") in repr(image)


@pytest.mark.parametrize("revision", ENDS)
async def test_resources_give_files_too(folder: Path, revision: Revision) -> None:
    """With the URI that was asked for."""
    server = Server("s")

    @server.resource("x:{name}")
    async def give(name: str) -> object:
        return {
            "text": File(folder / "a.md"),
            "image": Image(folder / "picture"),
            "audio": Audio(WAV),
            "both": [File(folder / "a.md"), "text"],
        }[name]

    text = {"mimeType": "text/markdown", "text": "# Hi"}
    async with open_client(server, revision=revision) as client:
        for name, expected in [
            ("text", [text]),
            ("image", [{"mimeType": "image/png", "blob": b64(PNG)}]),
            ("audio", [{"mimeType": "audio/wav", "blob": b64(WAV)}]),
            ("both", [text, {"mimeType": "text/plain", "text": "text"}]),
        ]:
            result = await client.request("resources/read", {"uri": f"x:{name}"})
            assert result["contents"] == [{"uri": f"x:{name}", **part} for part in expected]
