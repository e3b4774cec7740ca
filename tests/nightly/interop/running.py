"""How the servers that other implementations' clients talk to are run."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, cast

from trio_mcp import Server


def run(server: Server[Any]) -> None:
    """Run a program that is a server: ``program.py [TRANSPORT]``; over HTTP its log says where it is."""
    logging.basicConfig(level=logging.INFO)  # to standard error
    transport = cast("Literal['stdio', 'streamable-http', 'sse']", sys.argv[1] if len(sys.argv) > 1 else "stdio")
    if transport == "stdio":
        server.run()
    else:
        server.run(transport, port=0)
