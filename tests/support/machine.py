"""What tests in memory must not use of the machine: sockets, processes, and real time to sleep in."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import Any, Final, NoReturn

__all__ = ["ForbiddenError", "forbid"]

_used: Final = {"is forbidden": False}


class ForbiddenError(BaseException):
    """Not an `Exception`, so that nothing takes it for a failure of the network."""


def _refuse(what: str) -> NoReturn:
    raise ForbiddenError(f"a test in memory uses {what}: it belongs to tests/wires (see CONTRIBUTING.md)")


def _guarded(function: Any, what: str) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        # A pair of sockets is none: it is made of descriptors, and event loops wake themselves with one.
        if _used["is forbidden"] and options.get("fileno") is None and len(arguments) < _FILENO:
            _refuse(what)
        return function(*arguments, **options)

    return call


_FILENO: Final = 5
"""The place of `fileno` among the arguments of `socket.socket.__init__`, behind `self`."""

socket.socket.__init__ = _guarded(socket.socket.__init__, "a socket")  # type: ignore[method-assign]
subprocess.Popen.__init__ = _guarded(subprocess.Popen.__init__, "a process")  # type: ignore[method-assign]
time.sleep = _guarded(time.sleep, "`time.sleep`")


def forbid(*, is_forbidden: bool) -> None:
    """Say whether what runs from now on may use them."""
    _used["is forbidden"] = is_forbidden
