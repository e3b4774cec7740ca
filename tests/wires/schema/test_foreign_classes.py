"""Classes of pydantic and msgspec, which bring their own schema and conversion."""

from __future__ import annotations

import subprocess
import sys


def test_neither_library_is_needed() -> None:
    """They cost start-up time, and need not be installed."""
    code = (
        "import sys, attrs; sys.modules.update(msgspec=None, pydantic=None); "
        "from trio_mcp._schema import JsonType; "
        "print(JsonType(attrs.make_class('A', {'x': attrs.field(type=int)})).decode({'x': 5}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "A(x=5)\n"
