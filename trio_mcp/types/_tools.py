"""Tools: what they are and their lists. Spec: server/tools.

Calling one lives in `_tool_calls`, because it may need more input first.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final

from .._revisions import Revision
from ._fields import member, wire
from ._messages import PaginatedResult
from ._metadata import Icon, JSONObject, MetaObject

__all__ = ["ListToolsResult", "TaskSupport", "Tool", "ToolAnnotations", "ToolExecution"]

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a call of a tool must not, may or must become a task."""


@final
@wire(since=Revision.V2025_03_26)
class ToolAnnotations:
    """Hints about a tool. From a server that is not trusted they prove nothing.

    Attributes:
        title: The tool's name, for people.
        read_only_hint: Whether it leaves its environment as it is. Where it is missing: no.
        destructive_hint: Whether it may destroy something, if it does not only read. Where it is missing: yes.
        idempotent_hint: Whether a second call with the same arguments changes nothing more, if it does not only
            read. Where it is missing: no.
        open_world_hint: Whether it reaches beyond a closed domain, as a search of the web does. Where it is
            missing: yes.
    """

    title: str | None = member(default=None, hint=True)
    read_only_hint: bool | None = member(default=None, hint=True)
    destructive_hint: bool | None = member(default=None, hint=True)
    idempotent_hint: bool | None = member(default=None, hint=True)
    open_world_hint: bool | None = member(default=None, hint=True)


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class ToolExecution:
    """How a tool may be run.

    Attributes:
        task_support: Whether a call may become a task. Where it is missing: ``"forbidden"``.
    """

    task_support: TaskSupport | None = member(default=None, hint=True)


@final
@wire
class Tool:
    """Something a server can do for a model.

    Attributes:
        name: Its name, for programs.
        title: Its name, for people.
        description: What it does, for a model.
        input_schema: The JSON Schema of its arguments, whose `type` is ``"object"``. Kept to the letter.
        output_schema: The JSON Schema of what it gives to programs. Kept to the letter.
        annotations: Hints about it.
        execution: How it may be run.
        icons: What to show for it.
    """

    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)
    description: str | None = member(default=None, hint=True)
    input_schema: JSONObject
    output_schema: JSONObject | None = member(default=None, since=Revision.V2025_06_18)
    annotations: ToolAnnotations | None = member(default=None, hint=True, since=Revision.V2025_03_26)
    execution: ToolExecution | None = member(
        default=None, hint=True, since=Revision.V2025_11_25, until=Revision.V2025_11_25
    )
    icons: Sequence[Icon] | None = member(default=None, hint=True, since=Revision.V2025_11_25)
    meta: MetaObject | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ListToolsResult(PaginatedResult):
    """One page of a server's tools."""

    tools: Sequence[Tool]
