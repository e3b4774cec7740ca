"""Take no notice of the input, nor of SIGTERM. Prints its process number, so that its end can be watched."""

from __future__ import annotations

import os
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
if "closes-streams" in sys.argv:
    for descriptor in range(3):
        os.close(descriptor)
while True:
    time.sleep(60)
