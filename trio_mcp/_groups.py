"""Exception groups at the edges that own a hidden nursery."""

from __future__ import annotations

import trio

__all__ = ["sole_error"]


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the one exception that a nursery wrapped, or `None` if there are several.

    Looks one level deep only: a group that the caller's own nursery made is the caller's. Cancellations count
    only if there is nothing else. An exit that was asked for (`KeyboardInterrupt`, `SystemExit`) wins over
    everything and comes out as itself, with the group as its cause.
    """
    for error in group.exceptions:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            leaving = type(error)(*error.args)
            leaving.__cause__ = group
            return leaving if len(group.exceptions) > 1 else error
    errors = [error for error in group.exceptions if not isinstance(error, trio.Cancelled)]
    if not errors:
        return group.exceptions[0]
    return errors[0] if len(errors) == 1 else None
