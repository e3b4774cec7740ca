"""What is measured beside ours, at exact versions: as its users install it, and a second host for HTTP."""

from __future__ import annotations

from typing import Final

from benchmarks.environments import NODE, NodeEnvironment, PythonEnvironment

HOST: Final = ("hypercorn==0.18.0", "trio==0.35.0", "uvicorn==0.54.0", "httptools==0.9.0", "uvloop==0.23.0")
"""Our host for HTTP, so that implementations can be compared and not hosts; and theirs, as fast as it can be."""

PYTHON_1: Final = PythonEnvironment("bench-python-1", ("mcp==1.30.0", *HOST))
PYTHON_2: Final = PythonEnvironment("bench-python-2", ("mcp==2.3.0", *HOST))
FASTMCP: Final = PythonEnvironment("bench-fastmcp", ("fastmcp==4.1.0", *HOST))
TYPESCRIPT_1: Final = NodeEnvironment("bench-typescript-1", ("@modelcontextprotocol/sdk@1.32.2",))
TYPESCRIPT_2: Final = NodeEnvironment(
    "bench-typescript-2",
    (
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/core@2.4.0",
        "@modelcontextprotocol/node@2.1.2",
        "@modelcontextprotocol/server@2.4.0",
    ),
)
ENVIRONMENTS: Final = (NODE, PYTHON_1, PYTHON_2, FASTMCP, TYPESCRIPT_1, TYPESCRIPT_2)
