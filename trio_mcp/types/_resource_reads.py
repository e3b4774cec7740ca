"""Reading a resource. Spec: server/resources, "Reading Resources"."""

from collections.abc import Sequence
from typing import final

from ._fields import wire
from ._input_required import InputResponseRequestParams
from ._messages import CacheableResult
from ._resources import BlobResourceContents, TextResourceContents

__all__ = ["ReadResourceRequestParams", "ReadResourceResult"]


@final
@wire
class ReadResourceRequestParams(InputResponseRequestParams):
    """Ask for the contents of a resource."""

    uri: str


@final
@wire
class ReadResourceResult(CacheableResult):
    """The contents of a resource, in one part or several."""

    contents: Sequence[TextResourceContents | BlobResourceContents]

    @property
    def text(self) -> str:
        """What it says in text, without anything else; several parts are on lines of their own."""
        return "\n".join(part.text for part in self.contents if isinstance(part, TextResourceContents))
