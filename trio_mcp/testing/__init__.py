"""What people test their own with: servers, clients, transports, and whoever logs in; see docs/testing.md.

Nothing here imports pytest but the plugin. What is used is imported then.
"""

from typing import TYPE_CHECKING

from .._lazily import attach as _attach

if TYPE_CHECKING:
    from ._public import *
else:  # type checkers would take any name for one that exists
    __getattr__, __dir__, __all__ = _attach(__name__)
