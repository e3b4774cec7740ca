"""A coroutine that runs in the task of another one, and tells when it has to wait for the first time.

Most requests are served without waiting for anything. Whoever has read one can serve it on the spot, and only
if it turns out to wait has somebody else to go on with the reading. Nothing here knows of requests.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar, final

__all__ = ["Steps"]

_T = TypeVar("_T")


@final
class Steps(Generic[_T]):
    """A coroutine, run with a copy of the context variables as they are now, like a task of its own.

    Args:
        coroutine: The coroutine, not yet begun.

    Attributes:
        result: What it has returned, once it is done.
    """

    __slots__ = ("_context", "_coroutine", "_trap", "result")

    result: _T

    def __init__(self, coroutine: Coroutine[Any, Any, _T]) -> None:
        self._coroutine = coroutine
        self._context: Context = copy_context()
        self._trap: object = None  # what it has told the event loop last

    def begin(self) -> bool:
        """Run it until it is done, or has to wait. Returns whether it is done; if not, `go_on` follows."""
        try:
            self._trap = self._context.run(self._coroutine.send, None)
        except StopIteration as done:
            self.result = done.value
            return True
        return False

    @types.coroutine
    def go_on(self) -> Generator[Any, Any, _T]:
        """Run it to its end, in the task that has begun it."""
        run, coroutine = self._context.run, self._coroutine
        trap = self._trap
        while True:
            try:
                answer = yield trap
            except GeneratorExit:
                run(coroutine.close)
                raise
            except BaseException as error:  # whatever it is, it is the coroutine's  # noqa: ASYNC103
                step: Any = (coroutine.throw, error)
            else:
                step = (coroutine.send, answer)
            try:
                trap = run(*step)
            except StopIteration as done:
                result: _T = done.value
                return result
