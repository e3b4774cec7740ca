"""What every test folder shares."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

# Test modules import the helpers that lie beside them; what several folders need lies in `support`.
sys.path.insert(0, str(Path(__file__).parent / "support"))

# How long an example takes says more about the machine's neighbours than about the code; what made a test fail
# somewhere else can be tried again here.
settings.register_profile("trio_mcp", deadline=None, print_blob=True)
settings.load_profile("trio_mcp")
