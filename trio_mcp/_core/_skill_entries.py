"""What servers say of skills: the objects that are sent. Classes of the wire, beside those of the core protocol.

Spec: extension io.modelcontextprotocol/skills (SEP-2640).
"""

from collections.abc import Sequence
from typing import Literal, final

from ..types import CacheableResult, Cursor, JSONObject, PaginatedResult, RequestParams, Resource
from ..types._fields import wire


@final
@wire
class SkillResource:
    """A file of a skill.

    Attributes:
        uri: Its URI.
        digest: Of its bytes: ``sha256:`` and 64 hexadecimal digits, in lower case.
        size: How many bytes it has.
    """

    uri: str
    digest: str
    size: int


@final
@wire
class Skill:
    """What a server says of a skill, and of every file in it.

    Attributes:
        uri: The URI of its SKILL.md. Another server may have another skill at the same.
        frontmatter: What SKILL.md says of it before its text, as JSON; `name` and `description` at least.
        resources: All its files, SKILL.md and those of skills within it included; or ``"dynamic"`` if their
            contents are made when they are read, so that nothing can be verified.
    """

    uri: str
    frontmatter: JSONObject
    resources: Sequence[SkillResource] | Literal["dynamic"]

    @property
    def name(self) -> str:
        """Its name, by its URI; a label, which other skills may have too."""
        return self.uri.removesuffix("/SKILL.md").rpartition("/")[2]

    @property
    def description(self) -> str:
        """What it is for, and when; empty if the server says nothing."""
        description = self.frontmatter.get("description")
        return description if isinstance(description, str) else ""


@final
@wire
class ListSkillsResult(PaginatedResult):
    """One page of a server's skills."""

    skills: Sequence[Skill]


@final
@wire
class GetSkillRequestParams(RequestParams):
    """Ask for one skill, by the URI of its SKILL.md."""

    uri: str


@final
@wire
class GetSkillResult(CacheableResult):
    """One skill, as it is now."""

    skill: Skill


@final
@wire
class ReadDirectoryRequestParams(RequestParams):
    """Ask for what is in a directory, by its URI, without a slash at the end."""

    uri: str
    cursor: Cursor | None = None


@final
@wire
class ReadDirectoryResult(PaginatedResult):
    """What is directly in a directory; a directory has the type ``inode/directory``."""

    resources: Sequence[Resource]
