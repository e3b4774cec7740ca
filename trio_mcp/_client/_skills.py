"""Skills of a server: what a client checks before it asks for them, and of what it has read.

The rules are in `_core/_skills`; the calls are methods of `Client`.

Spec: extension io.modelcontextprotocol/skills (SEP-2640), "Integrity and Verification".
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import final

import attrs
import trio

from .._core._skill_entries import ListSkillsResult, Skill
from .._core._skills import (
    IDENTIFIER,
    InvalidSkill,
    check_skill,
    digest_of,
    read_frontmatter,
    same_json,
    split_skill,
)
from .._core._uri_template import normalised
from .._errors import LocalProtocolError, RemoteProtocolError, SkillChanged
from ..types import ReadResourceResult, ServerCapabilities, TextResourceContents
from ._caches import ResultCache
from ._low_level import LISTS

LISTS[ListSkillsResult] = ("skills", Skill)

Read = Callable[[str], Awaitable[ReadResourceResult]]
"""Reads a resource, from the server."""


@final
@attrs.frozen
class SkillFile:
    """A file of a skill, as it was verified.

    Attributes:
        uri: Its URI.
        data: Its bytes.
        mime_type: What the server says that they are.
    """

    uri: str
    data: bytes = attrs.field(repr=False)
    mime_type: str | None = None

    @property
    def text(self) -> str:
        """The file as text.

        Raises:
            ValueError: It is not UTF-8.
        """
        return self.data.decode()


@final
@attrs.frozen
class LoadedSkill:
    """A skill whose SKILL.md was verified. What else belongs to it is read when it is needed.

    Attributes:
        skill: What the server has said of it: all that may be read as a part of it. Keep it for as long as the
            text is in use.
        text: SKILL.md, with its frontmatter.
        body: What follows the frontmatter: the instructions.
    """

    skill: Skill
    text: str = attrs.field(repr=False)
    body: str = attrs.field(repr=False)


def check_declared(capabilities: ServerCapabilities | None, setting: str | None = None) -> None:
    """Check that a server has skills.

    Args:
        capabilities: What it declares.
        setting: What it must have declared beside.

    Raises:
        LocalProtocolError: It has not declared that.
    """
    extensions = (None if capabilities is None else capabilities.extensions) or {}
    if IDENTIFIER not in extensions:
        raise LocalProtocolError(f"the server has not declared the extension {IDENTIFIER}")
    if setting is not None and extensions[IDENTIFIER].get(setting) is not True:
        raise LocalProtocolError(f"the server has not declared {setting} of the extension {IDENTIFIER}")


def check_received(skill: Skill, uri: str | None = None) -> Skill:
    """Check what a server says of a skill.

    Args:
        skill: What it says.
        uri: What it was asked for.

    Raises:
        RemoteProtocolError: It breaks a rule, or it is another skill.
    """
    if uri is not None and normalised(skill.uri) != normalised(uri):
        raise RemoteProtocolError(f"skills/get: the server answers {skill.uri:.200} when asked for {uri:.200}")
    try:
        check_skill(skill)
    except InvalidSkill as error:
        raise RemoteProtocolError(f"the skill {skill.uri:.200} cannot be loaded: {error}") from error
    return skill


def refuse_dynamic(skill: Skill, *, dynamic: bool) -> None:
    """Refuse a skill of which nothing can be verified, unless the caller takes those, too.

    Raises:
        LocalProtocolError: It is such a skill, and the caller does not.
    """
    if skill.resources == "dynamic" and not dynamic:
        raise LocalProtocolError(
            f"the contents of {skill.uri:.200} are dynamic, so they cannot be verified; dynamic=True takes them"
        )


async def load(skill: Skill, read: Read, cache: ResultCache) -> LoadedSkill:
    """Read SKILL.md, and verify it: digest, size, and each member of its frontmatter.

    Args:
        skill: The skill.
        read: Reads it.
        cache: Keeps files by their digests.

    Raises:
        SkillChanged: It is not what the server has said.
    """
    file = await read_file(skill, skill.uri, read, cache)
    try:
        found = read_frontmatter(file.data)
        _, body = split_skill(file.data)
    except InvalidSkill as error:
        raise SkillChanged(skill.uri, skill.uri, str(error)) from error
    names = [name for name in sorted({*found, *skill.frontmatter}) if not _agree(found, skill, name)]
    if names:
        raise SkillChanged(skill.uri, skill.uri, f"its frontmatter has another {', '.join(names)[:200]}")
    return LoadedSkill(skill, file.text, body)


def _agree(found: dict[str, object], skill: Skill, name: str) -> bool:
    given = skill.frontmatter
    return name in found and name in given and same_json(found[name], given[name])


async def read_file(skill: Skill, uri: str, read: Read, cache: ResultCache) -> SkillFile:
    """Read a file of a skill, if it is one, and verify its size and digest, also of one that was kept.

    Args:
        skill: The skill.
        uri: The file.
        read: Reads it.
        cache: Keeps files by their digests.

    Raises:
        SkillChanged: It is not what the server has said, or not listed.
        RemoteProtocolError: What the server sends is no file.
    """
    resources = skill.resources
    if isinstance(resources, str):
        return _file_of(uri, await read(uri))
    known = next((one for one in resources if one.uri == uri), None)
    if known is None:
        await trio.lowlevel.checkpoint()
        raise SkillChanged(skill.uri, uri, "it is not among the skill's files")
    kept = cache.find_file(uri, known.digest)
    if isinstance(kept, SkillFile) and digest_of(kept.data) == known.digest and len(kept.data) == known.size:
        await trio.lowlevel.checkpoint()
        return kept
    file = _file_of(uri, await read(uri))
    if len(file.data) != known.size:
        raise SkillChanged(skill.uri, uri, f"it has {len(file.data)} bytes, and not {known.size}")
    if digest_of(file.data) != known.digest:
        raise SkillChanged(skill.uri, uri, "its digest is another")
    cache.keep_file(uri, known.digest, file, len(file.data))
    return file


def _file_of(uri: str, result: ReadResourceResult) -> SkillFile:
    contents = next((one for one in result.contents if normalised(one.uri) == normalised(uri)), None)
    if contents is None:
        raise RemoteProtocolError(f"resources/read: the result has no contents of {uri:.200}")
    if isinstance(contents, TextResourceContents):
        try:
            return SkillFile(uri, contents.text.encode(), contents.mime_type)
        except UnicodeEncodeError as error:
            raise RemoteProtocolError(f"resources/read: the text of {uri:.200} is no Unicode: {error}") from error
    try:
        return SkillFile(uri, base64.b64decode(contents.blob, validate=True), contents.mime_type)
    except ValueError as error:  # of text beyond ASCII it is no `binascii.Error`
        raise RemoteProtocolError(f"resources/read: {uri:.200} is not in Base64: {error}") from error
