"""Serves the `server` of another program over HTTP until a signal comes, and prints where.

``python http_program.py PROGRAM '{"json_only": true}'``, with the settings as JSON. HTTP+SSE is always served, too.
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


def main(program: str, settings: str) -> None:
    """Serve."""
    log = logging.getLogger("trio_mcp.http")
    log.addHandler(_Announce())
    log.setLevel(logging.INFO)
    spec = importlib.util.spec_from_file_location("served", program)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["served"] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    module.server.run("sse", port=0, settings=HttpServerSettings(**json.loads(settings)))


if __name__ == "__main__":
    main(*sys.argv[1:])
