"""The door of the tests to the proxy: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._proxy import _proxy as proxy_module
from trio_mcp._proxy._upstream import Upstream

__all__ = ["Upstream", "proxy_module"]
