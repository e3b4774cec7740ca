"""Asking the client for its roots. Spec: client/roots. Deprecated since 2026-07-28 (SEP-2577)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import types
from ._asking import Abilities, Inquiry, unusable

__all__ = ["list_roots"]

_METHOD: Final = "roots/list"


async def list_roots(inquiry: Inquiry) -> Sequence[types.Root]:
    """Ask for the roots; see `Context.list_roots`."""
    require_roots(inquiry)
    result = await inquiry.ask(_METHOD, types.ListRootsRequestParams(), types.ListRootsResult)
    for number, root in enumerate(result.roots):
        # Whoever gets a root takes it for a path ("Data Types": it must be a file URI).
        if not root.uri.startswith("file://"):
            raise unusable(_METHOD, f"roots[{number}].uri: must begin with file://, is {root.uri[:60]!r}")
        try:
            _ = root.path
        except ValueError as error:
            raise unusable(_METHOD, f"roots[{number}].uri: {error}") from error
    return result.roots


def require_roots(client: Abilities) -> None:
    """Check that the client has roots.

    Raises:
        CapabilityMissing: It has not.
    """
    if client.capabilities.roots is None:
        raise client.missing("roots", types.ClientCapabilities(roots=types.RootsCapability()))
