"""The objects of the Model Context Protocol: one class for each, for all revisions.

Attributes have the names of the specification in Python's spelling; `meta` is `_meta`. Members that a revision
does not have are not sent to it, so one object can be sent to any peer. Objects are immutable; `evolve` makes a
changed copy.

Nothing here does I/O, and `to_json` and `from_json` alone lead to what knows JSON. Requests, responses and errors
as such are not objects of this package.
"""

from typing import TYPE_CHECKING

from .._lazily import attach as _attach

if TYPE_CHECKING:
    from ._public import *
else:  # type checkers would take any name for one that exists
    __getattr__, __dir__, __all__ = _attach(__name__)
