"""The objects of the Model Context Protocol: one class for each, whatever the revision.

Attributes are called what the specification calls the members, in Python's spelling; `meta` is `_meta`. What a
revision does not know is not sent to it, so an object can be made once and sent to any peer. Objects are
immutable; `evolve` makes a changed copy.

Nothing here does I/O or knows JSON. Requests, responses and errors as such are not objects of this package.
"""

from typing import TYPE_CHECKING

from .._lazily import attach as _attach

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
else:  # type checkers would take any name for one that exists
    __getattr__, __dir__, __all__ = _attach(__name__)
