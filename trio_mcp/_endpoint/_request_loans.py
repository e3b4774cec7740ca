"""What one HTTP request keeps for its client, from the second piece of its body to the last of its answer.

    the body, while it arrives ──> the message, while it is served ──> the answer, until the wire has taken it

Each of these is a loan of the server's account, in the name of whoever asks. What waits for the client, a body or
an answer, gives way when memory is short; a message that is being served does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from .._core._account import Loan, Overdrawn, Pool
from .._core._http_admission import HttpRefused
from .._errors import SERVER_BUSY
from .._limits import KIB

__all__ = ["SMALL", "RequestLoans", "busy", "gave_way"]

SMALL: Final = 16 * KIB
"""What a body, a message or an answer may weigh without a loan, in bytes. As many as there may be at once weigh
little, and asking for a loan would cost each request more than it is worth."""

STEP: Final = 64 * KIB
"""What grows is lent in steps of so many bytes."""

RETRY: Final = ((b"retry-after", b"1"),)
"""What a refusal says besides: that it is worth asking again, in a second."""


@final
class RequestLoans:
    """What one request keeps.

    Args:
        pool: Lends the bytes; `None` if nobody counts them.
        key: Whose request it is.

    Attributes:
        key: The same.
    """

    __slots__ = ("_body", "_pool", "key")

    def __init__(self, pool: Pool | None = None, key: str = "") -> None:
        self._pool = pool
        self.key: Final = key
        self._body: Loan | None = None

    def grow_body(self, size: int, give_way: Callable[[], object]) -> int:
        """So much of the body has come. Returns up to how much this need not be said again.

        Args:
            size: How much, in bytes; more than `SMALL`.
            give_way: Called if it has to go before all of it is there. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        amount = -(-size // STEP) * STEP
        if self._pool is not None:
            try:
                if self._body is None:
                    self._body = self._pool.lend(self.key, "bodies", amount, give_way, own_gives_way=True)
                else:
                    self._body.change(amount, own_gives_way=True)
            except Overdrawn as problem:
                raise busy(problem, "there is no room for the body") from problem
        return amount

    def give_back(self) -> None:
        """Nothing is kept any more."""
        if self._body is not None:
            self._body.give_back()


def busy(problem: Overdrawn, what: str) -> HttpRefused:
    """Return the refusal of what finds no room: 429 if it is the client's own fault, else 503."""
    return HttpRefused(429 if problem.is_own else 503, f"{what}: {problem}", RETRY, code=SERVER_BUSY)


def gave_way(what: str) -> HttpRefused:
    """Return the refusal of what was kept until others needed the room."""
    problem = f"{what} had to make room for others (max_kept_bytes, max_kept_bytes_per_principal)"
    return HttpRefused(503, problem, RETRY, code=SERVER_BUSY)
