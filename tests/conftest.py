"""What every test folder shares."""

from __future__ import annotations

import sys
from pathlib import Path

# Test modules import the helpers that lie beside them; what several folders need lies in `support`.
sys.path.insert(0, str(Path(__file__).parent / "support"))
