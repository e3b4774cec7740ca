"""Between decoded JSON and wire objects: what is accepted, what is refused, and how that is said."""

import subprocess
import sys

# The cost of it.


def test_importing_the_package_builds_and_imports_no_converter() -> None:
    """A server started for one request must not pay for a hundred classes it never sends."""
    code = "import sys, trio_mcp.types, trio_mcp._codec._jsonrpc; assert 'cattrs' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
