"""Start a program that shares all streams, and exit with status 7 once there is some input.

Arguments: "in-our-group" or "in-its-own-session", then the program with its arguments.
"""

from __future__ import annotations

import os
import subprocess
import sys

place, *arguments = sys.argv[1:]
subprocess.Popen([sys.executable, *arguments], start_new_session=place == "in-its-own-session")
os.read(0, 1)
os._exit(7)
