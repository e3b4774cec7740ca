"""Take no notice of the input, but clean up and exit on SIGTERM. Argument: the file that tells so."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType


def exit_when_asked(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(5)


signal.signal(signal.SIGTERM, exit_when_asked)
try:
    print("ready", flush=True)
    while True:
        time.sleep(60)
finally:
    Path(sys.argv[1]).write_text("cleaned up", encoding="utf-8")
