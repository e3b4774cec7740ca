"""``python -m benchmarks``."""

from .command_line import main

main()
