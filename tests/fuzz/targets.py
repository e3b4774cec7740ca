"""All targets: importing this module makes them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent))

import fuzz_authorization as fuzz_authorization
import fuzz_files as fuzz_files
import fuzz_messages as fuzz_messages
import fuzz_streams as fuzz_streams
import fuzz_texts as fuzz_texts
from fuzzing import TARGETS as TARGETS
