"""States that clients have carried and brought once, and may not bring again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final, final

from .._core._account import Account, Loan, Overdrawn, lend_all
from .._core._sealing import StateRefused
from .._errors import SERVER_BUSY, RequestError
from .._limits import Limits

__all__ = ["UsedStates"]

USED_BYTES: Final = 512
"""What it takes to remember one."""


@final
class UsedStates:
    """Remembers which states were used, each until it has expired, so that none is good twice.

    None is forgotten before, or it would be good again. So what is remembered cannot be taken back, and each
    client gets only as much as is left to others.

    Args:
        limits: How many are remembered, and for how long.
        account: Lends their places, and what they take.
    """

    def __init__(self, limits: Limits, account: Account) -> None:
        self._lasts = limits.parked_timeout
        self._places = account.places("used states", "max_used_states", limits.max_used_states)
        self._bytes = account.bytes
        # In the order of their ends.
        self._used: OrderedDict[bytes, tuple[float, tuple[Loan, ...]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def use(self, state: str, holder: str, now: float) -> None:
        """Use a state that is good but for that.

        Args:
            state: As it came; each has one spelling only.
            holder: Who brings it.
            now: What time it is, in seconds, on the clock by which states expire.

        Raises:
            StateRefused: It was used before.
            RequestError: No more can be remembered.
        """
        while self._used and (oldest := next(iter(self._used.values())))[0] <= now:
            self._used.popitem(last=False)
            for loan in oldest[1]:
                loan.give_back()
        digest = hashlib.sha256(state.encode("ascii")).digest()
        if digest in self._used:
            raise StateRefused
        try:
            loans = lend_all(((self._places, 1), (self._bytes, USED_BYTES)), holder, "used states")
        except Overdrawn as error:
            raise RequestError(SERVER_BUSY, f"no more states can be used for now: {error}") from None
        self._used[digest] = now + self._lasts, loans  # it was sealed before, and has less time left
