"""What objects of the protocol say in text, and where roots are, for a human reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from trio_mcp.types import (
    BlobResourceContents,
    CallToolResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    Root,
    TextContent,
    TextResourceContents,
)

PICTURE = ImageContent(data="", mime_type="image/png")


def test_results_of_tools_in_text() -> None:
    """What is no text is left out."""
    result = CallToolResult(content=[TextContent(text="one"), PICTURE, TextContent(text="two")])
    assert result.text == "one\ntwo"
    assert CallToolResult(content=[PICTURE]).text == ""


def test_resources_in_text() -> None:
    """Parts that are bytes are left out."""
    text, blob = TextResourceContents(uri="a:b", text="one"), BlobResourceContents(uri="a:c", blob="AAAA")
    assert ReadResourceResult(contents=[text, blob]).text == "one"
    assert ReadResourceResult(contents=[]).text == ""


def test_messages_of_prompts_in_text() -> None:
    """A message is one block."""
    assert PromptMessage(role="user", content=TextContent(text="hello")).text == "hello"
    assert PromptMessage(role="user", content=PICTURE).text == ""


@pytest.mark.parametrize("name", ["plain", "with space", "per%cent", "Größe", "a#b?c"])
def test_the_path_of_a_root(name: str, tmp_path: Path) -> None:
    """There and back again."""
    assert Root(uri=(tmp_path / name).as_uri()).path == tmp_path / name


def test_the_path_of_a_root_on_this_machine_by_name() -> None:
    """RFC 8089, section 2: `localhost` is this machine."""
    assert Root(uri="file://localhost/srv").path == Root(uri="file:///srv").path


@pytest.mark.parametrize(
    "uri",
    [
        "file://host/x",
        "file://[::1/x",
        "file:///a%00b",
        "file:///a\0b",
        "file://",
        "file://localhost",
        "http://x/",
    ],
)
def test_what_is_no_file_of_this_machine_has_no_path(uri: str) -> None:
    """It was the same path on this machine, the working directory, or a path that every function falls over."""
    with pytest.raises(ValueError, match=r"^must "):
        _ = Root(uri=uri).path
