"""``python -m trio_mcp`` is the command line."""

from __future__ import annotations

from ._cli._main import main

if __name__ == "__main__":
    raise SystemExit(main())
