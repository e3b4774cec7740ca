"""Where things are: a test that is moved to another folder finds them still."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["DATA", "EXAMPLES", "MEASURED", "PROGRAMS", "ROOT", "TESTS"]

TESTS: Final = Path(__file__).parents[1]
ROOT: Final = TESTS.parent
EXAMPLES: Final = ROOT / "examples"
DATA: Final = TESTS / "data"
"""What is official, and what was recorded."""
PROGRAMS: Final = TESTS / "support" / "programs"
"""What tests start as processes of their own."""
MEASURED: Final = TESTS / "nightly" / "support" / "programs"
"""Those of which nightly tests measure what they take."""
