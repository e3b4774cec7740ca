"""Calling a tool. Spec: server/tools, "Calling Tools"."""

from typing import final

from .._revisions import Revision
from ._fields import member, wire
from ._input_required import InputResponseRequestParams
from ._metadata import JSONObject
from ._tasks import TaskMetadata

__all__ = ["CallToolRequestParams"]


@final
@wire
class CallToolRequestParams(InputResponseRequestParams):
    """Ask for a tool to be called.

    Attributes:
        name: The tool.
        arguments: Its arguments, by name.
        task: Ask that the call become a task.
    """

    name: str
    arguments: JSONObject | None = None
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)
