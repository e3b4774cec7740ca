"""A coroutine that runs in the task of another one, and tells when it has to wait for the first time.

Most requests are served without waiting for anything. Whoever has read one can serve it on the spot, and only
if it turns out to wait has somebody else to go on with the reading. Nothing here knows of requests.
"""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar, final

import trio

__all__ = ["Steps"]

_T = TypeVar("_T")


@final
class Steps(Generic[_T]):
    """A coroutine, run with context variables of its own, like a task of its own.

    While it runs, they are those of the task, too: what Trio runs on behalf of the task, such as what a thread
    asks for by `trio.from_thread.run`, finds them there and gives them back.

    Args:
        coroutine: The coroutine, not yet begun.
        context: The variables. Taken over.

    Attributes:
        result: What it has returned, once it is done.
    """

    __slots__ = ("_context", "_coroutine", "_trap", "result")

    result: _T

    def __init__(self, coroutine: Coroutine[Any, Any, _T], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context
        self._trap: object = None  # what it has told the event loop last

    def begin(self, task: trio.lowlevel.Task) -> bool:
        """Run it until it is done, or has to wait. Returns whether it is done; if not, `go_on` follows.

        Args:
            task: The current task.
        """
        variables, task.context = task.context, self._context
        try:
            self._trap = self._context.run(self._coroutine.send, None)
        except StopIteration as done:
            self.result = done.value
            return True
        finally:
            task.context = variables
        return False

    @types.coroutine
    def go_on(self, task: trio.lowlevel.Task) -> Generator[Any, Any, _T]:
        """Run it to its end, in the task that has begun it.

        When it is done the task has its own variables again, but only from when it has waited next: what runs
        before that, runs with those of the coroutine.

        Args:
            task: The current task.
        """
        coroutine, trap = self._coroutine, self._trap
        # The event loop runs each step of a task with the task's variables. It has to be told once.
        variables, task.context = task.context, self._context
        try:
            while True:
                try:
                    answer = yield trap
                except BaseException as error:  # whatever it is, it is the coroutine's  # noqa: ASYNC103
                    step: Any = (coroutine.throw, error)
                else:
                    step = (coroutine.send, answer)
                trap = step[0](step[1])
        except StopIteration as done:
            result: _T = done.value
            return result
        finally:
            task.context = variables
