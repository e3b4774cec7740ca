"""What is known of the client that has sent a request or a notification: the base of the contexts."""

from __future__ import annotations

from operator import attrgetter

import attrs

from .._core._apps import EXTENSION, mime_types_in
from .._core._lifecycle import Agreement
from .._revisions import Revision
from ..types import ClientCapabilities, Implementation
from ._asking import read_declared


@attrs.define(eq=False, repr=False)
class ClientContext:
    """What is known of the client that has sent a request or a notification.

    Args:
        agreement: What was agreed on with it.

    Attributes:
        revision: The revision in use: the session's, or else that of the request, or the newest for a
            notification.
    """

    _agreement: Agreement
    revision: Revision = attrs.field(
        default=attrs.Factory(attrgetter("_agreement.revision"), takes_self=True), init=False
    )

    def _agree(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self.revision = agreement.revision

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version as it has declared them, if it has. They are not verified."""
        info = self._agreement.client_info
        return None if info is None else read_declared(info, Implementation)

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The capabilities the client has declared; empty for modern notifications, which have none."""
        return read_declared(self._agreement.client_capabilities, ClientCapabilities)

    @property
    def client_apps(self) -> tuple[str, ...] | None:
        """The types of pages that the client shows, in every revision; `None` if it has not declared that.

        A tool with a page may return less text if ``"text/html;profile=mcp-app"`` is among them.

        Spec: SEP-1865, 2026-01-26, "Capability Negotiation".
        """
        return mime_types_in((self.client_capabilities.extensions or {}).get(EXTENSION))


attrs.resolve_types(ClientContext)  # for the `__init__` of its subclasses, whose modules know no Agreement
