"""What one HTTP request keeps for its client, from the second piece of its body to the last of its answer.

    the body, while it arrives ──> the message, while it is served ──> the answer, until the wire has taken it

Each of these is a loan of the server's account, in the name of whoever asks. What waits for the client, a body or
an answer, gives way when memory is short; a message that is being served does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, final

from .._codec._cost import cost_of_json
from .._core._account import Loan, Overdrawn, Pool
from .._core._http_admission import HttpRefused, busy
from .._limits import KIB

__all__ = ["SMALL", "RequestLoans", "Served", "gave_way"]

SMALL: Final = 16 * KIB
"""What a body, a message or an answer may weigh without a loan, in bytes. As many as there may be at once weigh
little, and asking for a loan would cost each request more than it is worth."""

STEP: Final = 64 * KIB
"""What grows is lent in steps of so many bytes."""


@final
class Served:
    """The loan of a message: it lasts for as long as anybody has this, and no longer.

    Mostly that is the POST alone. In the legacy era a message is served by its session, which goes on when the
    client leaves the POST, and may let it wait; it has this for as long as it has the message (`HttpOrigin`).
    """

    __slots__ = ("loan",)

    def __init__(self, loan: Loan) -> None:
        self.loan: Final = loan

    def __del__(self) -> None:
        self.loan.give_back()


@final
class RequestLoans:
    """What one request keeps.

    Args:
        pool: Lends the bytes; `None` if nobody counts them.
        key: Whose request it is.

    Attributes:
        key: The same.
        served: The loan of the message, while the POST has it; `None` if it is small.
    """

    __slots__ = ("_answer", "_body", "_pool", "key", "served")

    def __init__(self, pool: Pool | None = None, key: str = "") -> None:
        self._pool = pool
        self.key: Final = key
        self._body: Loan | None = None
        self._answer: Loan | None = None
        self.served: Served | None = None

    def grow_body(self, size: int, give_way: Callable[[], object]) -> int:
        """So much of the body has come. Returns up to how much this need not be said again.

        Args:
            size: How much, in bytes; more than `SMALL`.
            give_way: Called if it has to go before all of it is there. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        amount = -(-size // STEP) * STEP
        self._body = self._grown(self._body, "bodies", amount, give_way)
        return amount

    def serve(self, body: bytes, max_decoded_bytes: int) -> None:
        """The body is there, and about to be decoded: what both take is lent, in place of what was lent for it.

        Raises:
            HttpRefused: There is no room for it, or it is more than there ever is.
        """
        if self._body is not None:
            self._give_back_body()
        cost = cost_of_json(body)
        amount = len(body) + cost
        if amount <= SMALL or self._pool is None:
            return
        if cost > max_decoded_bytes:
            raise _too_costly(
                f"{cost} bytes of memory once it is decoded; max_decoded_bytes is {max_decoded_bytes}"
            )
        if amount > self._pool.most_of_one:
            limit = f"{self._pool.own_setting} is {self._pool.most_of_one}"
            raise _too_costly(f"{amount} bytes of memory while it is served; {limit}")
        try:
            self.served = Served(self._pool.lend(self.key, "requests", amount))
        except Overdrawn as problem:
            raise _no_room(
                problem, f"there is no room for a message that takes {amount} bytes of memory"
            ) from None

    def keep_answer(self, size: int, cut: Callable[[], object]) -> None:
        """The request is served, and so much of its answer waits to be taken, with the message itself.

        Args:
            size: How much, in bytes.
            cut: Called if the answer has to go before its client has taken it. Must not wait.

        Raises:
            HttpRefused: There is no room for it.
        """
        served, self.served = self.served, None
        if served is not None and not served.loan.is_given_back:
            size += served.loan.amount
            served.loan.give_back()
        self.grow_answer(size, cut)

    def grow_answer(self, size: int, cut: Callable[[], object]) -> int:
        """So much of a stream waits to be taken, more than before or less; see `keep_answer`.

        Returns up to how much this need not be said again.
        """
        amount = 0 if size <= SMALL else -(-size // STEP) * STEP
        if self._answer is not None or amount:
            self._answer = self._grown(self._answer, "answers", amount, cut)
        return max(SMALL, amount)

    def _grown(
        self, loan: Loan | None, kind: Literal["bodies", "answers"], amount: int, give_way: Callable[[], object]
    ) -> Loan | None:
        """Return what is lent of something that is so large now."""
        if self._pool is None:
            return None
        try:
            if loan is None:
                return self._pool.lend(self.key, kind, amount, give_way, own_gives_way=True)
            loan.change(amount, own_gives_way=True)
        except Overdrawn as problem:
            what = "the body" if kind == "bodies" else "the answer"
            raise _no_room(problem, f"there is no room for {what}") from None
        return loan

    def give_back(self) -> None:
        """The request is over. What is served for it beyond that keeps its loan."""
        if self._body is not None:
            self._give_back_body()
        self.served = None
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.give_back()

    def _give_back_body(self) -> None:
        loan, self._body = self._body, None
        if loan is not None:
            loan.give_back()


def _too_costly(takes: str) -> HttpRefused:
    return HttpRefused(413, f"a message that takes {takes}")


def _no_room(problem: Overdrawn, what: str) -> HttpRefused:
    return busy(429 if problem.is_own else 503, f"{what}: {problem}")


def gave_way(what: str) -> HttpRefused:
    """Return the refusal of what was kept until others needed the room."""
    problem = f"{what} had to make room for others (max_kept_bytes, max_kept_bytes_per_principal)"
    return busy(503, problem)
