"""The other implementations the tests talk to, at exact versions: ``python tests/nightly/interop/environments.py [NAME ...]``."""

from __future__ import annotations

import sys
from typing import Final

from benchmarks.environments import NODE as NODE
from benchmarks.environments import NodeEnvironment as NodeEnvironment
from benchmarks.environments import PythonEnvironment as PythonEnvironment
from benchmarks.environments import install_all as install_all
from benchmarks.environments import node as node

PYTHON_1_0: Final = PythonEnvironment("python-1.0", ("mcp==1.0.0",))
# Its FastMCP, the first there was, imports what later releases of pydantic do not have.
PYTHON_1_2: Final = PythonEnvironment("python-1.2", ("mcp==1.2.1", "pydantic==2.10.6"))
PYTHON_1_30: Final = PythonEnvironment("python-1.30", ("mcp==1.30.0",))
PYTHON_2_3: Final = PythonEnvironment(
    "python-2.3",
    (
        "mcp==2.3.0",
        "mcp-server-git==2026.10.19",
        "mcp-server-time==2026.10.19",
        "fastmcp-slim[client]==4.1.6",
    ),
)
# What programs of the same behaviour are written with, and their tests.
COMPARED: Final = PythonEnvironment(
    "compared", ("mcp==2.3.0", "fastmcp==4.1.0", "pytest==9.2.0", "pytest-asyncio==1.5.0")
)
TYPESCRIPT_1_4: Final = NodeEnvironment(
    "typescript-1.4", ("@modelcontextprotocol/sdk@1.4.1", "@modelcontextprotocol/server-everything@2025.1.14")
)
TYPESCRIPT_1_32: Final = NodeEnvironment(
    "typescript-1.32", ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/server-everything@2026.8.31")
)
TYPESCRIPT_2_4: Final = NodeEnvironment(
    "typescript-2.4",
    (
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/core@2.4.0",
        "@modelcontextprotocol/server@2.4.0",
    ),
)
INSPECTOR: Final = NodeEnvironment("inspector", ("@modelcontextprotocol/inspector@2.12.0",))
EXT_APPS: Final = NodeEnvironment(
    "ext-apps-2.0",
    (
        "@modelcontextprotocol/ext-apps@2.0.4",
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/core@2.4.0",
        "@modelcontextprotocol/server@2.4.0",
    ),
)
CONFORMANCE: Final = NodeEnvironment(
    "conformance-0.2",
    # The suite speaks through an SDK, of which it would take any later version.
    ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/sdk@1.32.2"),
)
ENVIRONMENTS: Final = (
    NODE,
    PYTHON_1_0,
    PYTHON_1_2,
    PYTHON_1_30,
    PYTHON_2_3,
    COMPARED,
    TYPESCRIPT_1_4,
    TYPESCRIPT_1_32,
    TYPESCRIPT_2_4,
    INSPECTOR,
    EXT_APPS,
    CONFORMANCE,
)


if __name__ == "__main__":
    by_name = {each.name: each for each in ENVIRONMENTS}
    install_all([by_name[name] for name in sys.argv[1:]] or ENVIRONMENTS)
