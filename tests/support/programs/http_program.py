"""Serves the `server` of another program until a signal comes, and prints where.

``python http_program.py PROGRAM '{"json_only": true}'`` serves HTTP with these settings, and HTTP+SSE, too;
``python http_program.py PROGRAM tcp`` and ``… unix PATH`` serve one message a line; ``… guarded`` serves
WebSockets to whom its `authenticate` lets in.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
from typing import Any

from trio_mcp import HttpServerSettings


class _Announce(logging.Handler):
    """Prints where the server is."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("serving at"):
            print(record.getMessage().removeprefix("serving at "), flush=True)


def main(program: str, how: str, path: str = "") -> None:
    """Serve."""
    for name in ("trio_mcp.http", "trio_mcp.sockets"):
        log = logging.getLogger(name)
        log.addHandler(_Announce())
        log.setLevel(logging.INFO)
    spec = importlib.util.spec_from_file_location("served", program)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["served"] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    if how == "guarded":
        module.server.run("websocket", port=0, authenticate=module.authenticate)
    elif how == "tcp":
        module.server.run("tcp", port=0)
    elif how == "unix":
        module.server.run("unix", path=path)
    else:
        module.server.run("sse", port=0, settings=HttpServerSettings(**json.loads(how)))


if __name__ == "__main__":
    main(*sys.argv[1:])
