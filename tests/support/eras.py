"""The revisions in which a test runs whose subject they are not: the ends of each era.

What differs within an era is shown by the tests that name the revisions, and by those of the tables of the core.
"""

from __future__ import annotations

from typing import Final

from trio_mcp import Revision

__all__ = ["ENDS", "LEGACY_ENDS"]

LEGACY_ENDS: Final = (Revision.V2024_11_05, Revision.V2025_11_25)
"""The oldest and the newest revision with a handshake."""

ENDS: Final = (*LEGACY_ENDS, Revision.V2026_07_28)
"""These, and the one without."""
