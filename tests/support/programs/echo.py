"""Send back what comes, until the input ends: a server as it should be."""

from __future__ import annotations

import sys

for line in sys.stdin:
    sys.stdout.write(line)
    sys.stdout.flush()
