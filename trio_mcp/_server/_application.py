"""What a connection asks of the server it belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from .._core._lifecycle import Agreement
from .._limits import Limits
from .._revisions import Revision
from ..types import Implementation, ServerCapabilities, Tool
from ._caching import CacheHint
from ._changes import ChangeHub
from ._context import Context
from ._input_required import Asking
from ._interim import ExtensionResult
from ._notifications import NotificationHandler

__all__ = ["Application", "MethodHandler"]

MethodHandler: TypeAlias = Callable[[Mapping[str, Any], Context[Any]], Awaitable[object]]
"""Serves a method: its parameters as plain JSON in; a wire object, plain JSON, or bytes of JSON out."""


class Application(Protocol):
    """A server, as its connections see it."""

    @property
    def info(self) -> Implementation:
        """What the server is."""
        ...

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        ...

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        ...

    @property
    def limits(self) -> Limits:
        """What a connection may cost."""
        ...

    @property
    def changes(self) -> ChangeHub:
        """What has changed, and who wants to know."""
        ...

    def capabilities(self) -> ServerCapabilities:
        """Return what it can do."""
        ...

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method."""
        ...

    def cache_hint(self, method: str) -> CacheHint:
        """Return what is said about keeping the results of a method."""
        ...

    def extension_result(self, result: ExtensionResult, agreement: Agreement) -> Mapping[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        ...

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return who handles the notifications of a method."""
        ...

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask the client, and what becomes of it then."""
        ...

    def find_tool(self, name: str) -> Tool:
        """Return one of its tools.

        Raises:
            ValueError: There is none of this name.
        """
        ...
