"""What a session of the legacy era keeps, and in whose name it is lent.

Two loans of bytes, because they are taken back for different reasons. What the session is and was told cannot be
taken back while one of its client's requests is open. What it has said and nobody has read can be, always: a
client that reads nothing has everything open, and holds most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, final

from .._core._account import Loan, Overdrawn, Pool, lend_all
from .._core._http_admission import HttpRefused, busy
from .._logs import Log

__all__ = ["RETRY_AFTER", "SESSION_BYTES", "KeptForSession", "too_many"]

_log: Final = Log("trio_mcp.http")

SESSION_BYTES: Final = 24 * 1024
"""What a session costs that has done nothing yet, with little in its streams. A test holds it to 20 KiB."""

STEP: Final = 4 * 1024
"""In these steps more is lent: what is said and read at once changes no loan."""

RETRY_AFTER: Final = 10
"""After how many seconds whoever finds no room may ask again."""


def too_many(error: Overdrawn) -> HttpRefused:
    """Return the refusal of what there is no room for: 429 if its sender has too much, else 503."""
    return busy(429 if error.is_own else 503, str(error), RETRY_AFTER)


@final
class KeptForSession:
    """The loans of one session.

    Args:
        places: Lends its place; `None` if it lasts for one request alone. Then it needs none, and never goes for
            others.
        bytes: Lends bytes.
        holder: In whose name.
        let_go: Called with whether the session has to go, or only what it has said and nobody may ever read. Must
            not wait.

    Raises:
        Overdrawn: There is no room for it.
    """

    __slots__ = (
        "_bytes",
        "_let_go",
        "_loans",
        "_told",
        "_unread",
        "_unread_loan",
        "handshake",
        "holder",
        "ids",
        "subscriptions",
    )

    def __init__(
        self,
        places: Pool | None,
        bytes: Pool,
        holder: str,
        let_go: Callable[[bool], object],
    ) -> None:
        self.holder: Final = holder
        self._bytes = bytes
        self._let_go = let_go
        self.handshake = self.ids = self.subscriptions = 0  # a dict of them would weigh on every session
        self._told = self._unread = 0
        self._unread_loan: Loan | None = None
        amounts = [(bytes, SESSION_BYTES)] if places is None else [(places, 1), (bytes, SESSION_BYTES)]
        give_way = None if places is None else self._take_all
        self._loans: tuple[Loan, ...] = ()  # it may be asked to give way before it has all of them
        self._loans = lend_all(amounts, holder, "sessions", give_way, own_gives_way=True)

    def hold(self) -> None:
        """A request of the client is open."""
        for loan in self._loans:
            loan.hold()

    def rest(self) -> None:
        """None is."""
        for loan in self._loans:
            loan.rest()

    def keep(self, what: Literal["handshake", "ids", "subscriptions"], amount: int) -> None:
        """The session keeps so much of what it was told.

        Args:
            what: What that is; of this it kept another amount before.
            amount: How much, in bytes.

        Raises:
            Overdrawn: There is no room for it; it is as before.
        """
        told = self._told + amount - int(getattr(self, what))
        size = SESSION_BYTES + max(0, math.ceil(told / STEP) - 1) * STEP
        if self._loans and self._loans[-1].amount != size:
            self._loans[-1].change(size, own_gives_way=True)
        setattr(self, what, amount)
        self._told = told

    def unread(self, amount: int) -> None:
        """So much more waits to be read in its streams, or less. If there is no room for it, the session goes."""
        self._unread += amount
        if self._unread <= STEP and self._unread_loan is None:
            return
        size = max(0, math.ceil(self._unread / STEP) - 1) * STEP
        loan = self._unread_loan
        try:
            if loan is not None:
                if loan.amount != size:
                    loan.change(size, own_gives_way=True)
            elif size and self._loans:
                self._unread_loan = self._bytes.lend(
                    self.holder, "streams", size, self._take_unread, own_gives_way=True
                )
        except Overdrawn:
            self._take_unread()
        else:
            if loan is not None and not size:
                loan.give_back()
                self._unread_loan = None

    def _take_all(self) -> None:
        _log.info("a session of %.100s gives way to others", self.holder)
        self.give_back()
        self._let_go(True)

    def _take_unread(self) -> None:
        """Others have use for what waits to be read."""
        loan, self._unread_loan = self._unread_loan, None
        if loan is not None:
            loan.give_back()
        loans, self._loans = self._loans, ()  # nothing is lent meanwhile
        self._let_go(False)
        self._loans = loans
        if self._unread > STEP:
            self._take_all()

    def give_back(self) -> None:
        """Nothing is kept any more. May be called again."""
        loans, self._loans = self._loans, ()
        for loan in loans:
            loan.give_back()
        if self._unread_loan is not None:
            self._unread_loan.give_back()
            self._unread_loan = None
