"""``python -m benchmarks``."""

import sys

from trio_mcp._cli._benching import check_installed
from trio_mcp._cli._parser import Failure

if __name__ == "__main__":
    try:
        check_installed()
    except Failure as failure:
        sys.exit(f"python -m benchmarks: {failure.message}; in a checkout, make bench does")
    from .command_line import main

    main()
