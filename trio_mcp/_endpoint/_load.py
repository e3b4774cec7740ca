"""How much is being served, of whom, and what is too much."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self, final

import trio

from .._core._http_admission import busy
from .._core._http_settings import HttpServerSettings
from .._core._rate import RateTable
from .._limits import Limits

__all__ = ["Load", "Place"]


@final
class _Tally:
    """How many there are of something, of all clients and of each."""

    __slots__ = ("_of", "total")

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self.total: int = 0

    def of(self, client: str) -> int:
        """How many are this client's."""
        return self._of.get(client, 0)

    def add(self, client: str, places: int = 1) -> None:
        """So many more."""
        self._of[client] = self._of.get(client, 0) + places
        self.total += places

    def remove(self, client: str, places: int = 1) -> None:
        """So many less."""
        left = self._of[client] - places
        self.total -= places
        if left:
            self._of[client] = left
        else:
            del self._of[client]


@final
class Place:
    """What a request of HTTP takes. A context that gives it back; calling it says that its answer is left."""

    __slots__ = ("_client", "_load", "_tally")

    def __init__(self, load: Load, client: str, tally: _Tally) -> None:
        self._load = load
        self._client = client
        self._tally: _Tally | None = tally
        tally.add(client)

    def belong_to(self, client: str) -> None:
        """It is known now who has sent it: it counts for them, and no more for the address that it came from.

        Raises:
            HttpRefused: They have too many already.
        """
        if client != self._client and self._tally is not None:
            self._load.pass_on(self._client, client)
            self._tally.remove(self._client)
            self._client = client
            self._tally.add(client)

    def serve(self) -> None:
        """It brings a request: let it take a place among those instead, as long as that is being served.

        Raises:
            HttpRefused: There are too many already.
        """
        self._move(self._load.room_to_serve(self._client))

    def __call__(self) -> None:
        """Only its answer has to be sent: let it take a place among those instead, until its client has taken it.

        What waits to be read keeps others out only beyond as many as may be served: who has read an answer may
        ask again at once, whether we have heard of that or not.
        """
        if self._tally is not None and self._tally is not self._load.answered:
            self._move(self._load.answered)

    def _move(self, tally: _Tally) -> None:
        if self._tally is not None:
            self._tally.remove(self._client)
        tally.add(self._client)
        self._tally = tally

    def outlive(self) -> Place:
        """Give it back, and return one of the same kind that takes its place, to be given back by itself."""
        other = Place(self._load, self._client, self._load.served if self._tally is None else self._tally)
        self.leave()
        return other

    def leave(self) -> None:
        """Give it back."""
        tally, self._tally = self._tally, None
        if tally is not None:
            tally.remove(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


@final
class Load:
    """Counts what comes, and what is read and served at once, by client.

    Everything counts from its arrival, for the address that it comes from, and once it is known who has sent it,
    for them. So it costs the address alone to find out, and whoever is refused has had it.

    The requests that are being served do not keep out what may end them: in the legacy era cancellations, and the
    answers that their handlers wait for, are POSTs as well. So each POST is read before it may be too much.

    Args:
        settings: How many there may be.
        limits: How many may stand open.

    Attributes:
        served: Requests that are being served.
        answered: Answers that their clients have not taken yet.
    """

    def __init__(self, settings: HttpServerSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        self._is_rated = settings.max_request_rate < math.inf
        self._rates = RateTable(settings.max_request_rate, settings.request_burst)
        self._read = _Tally()
        self.served: _Tally = _Tally()
        self.answered: _Tally = _Tally()
        self._standing = _Tally()

    @property
    def running(self) -> int:
        """How many requests are being served, but for those that stand open."""
        return self.served.total

    @property
    def reading(self) -> int:
        """How many POSTs are being read, or are no requests and being answered."""
        return self._read.total

    @property
    def answering(self) -> int:
        """How many answers their clients have not taken yet."""
        return self.answered.total

    @property
    def standing(self) -> int:
        """How many places the requests that stand open take."""
        return self._standing.total

    def arrived(self, client: str) -> Place:
        """Count one request of HTTP until its place is given back.

        That is while it is found out who has sent it, and while it is read; of a POST that brings no request and
        of what gets no stream also while it is answered.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._is_rated:
            self._take_token(client)
        if self.answered.total > self._settings.max_requests_per_principal:
            self._check_answered(client)
        return Place(self, client, self._room_in(self._read, client, "messages are being read"))

    def _take_token(self, client: str) -> None:
        wait = self._rates.take(client, trio.current_time())
        if wait:
            rate = self._settings.max_request_rate
            raise busy(429, f"more than {rate:g} requests per second (max_request_rate)", wait)

    def pass_on(self, address: str, principal: str) -> None:
        """Count what has come from an address for who has sent it. There is a place for it already.

        Raises:
            HttpRefused: They have too many already.
        """
        if self._is_rated:
            self._rates.give_back(address)
            self._take_token(principal)
        self._check_own(self._read, principal, "messages are being read")

    def _check_answered(self, client: str) -> None:
        settings, answered = self._settings, self.answered
        if answered.of(client) > settings.max_requests_per_principal:
            raise busy(429, f"{answered.of(client)} answers are not read by you (max_requests_per_principal)", 1)
        if answered.total > settings.max_requests and answered.of(client):  # who reads them gets in
            raise busy(503, f"{answered.total} answers are not read (max_requests)", 1)

    def room_to_serve(self, client: str) -> _Tally:
        """Return where one request more may be counted.

        Raises:
            HttpRefused: There are too many already.
        """
        return self._room_in(self.served, client, "requests are being served")

    def _room_in(self, tally: _Tally, client: str, what: str) -> _Tally:
        if tally.total >= self._settings.max_requests_per_principal:  # else nobody has so many
            self._check_own(tally, client, what)
        if tally.total >= self._settings.max_requests:
            raise busy(503, f"{tally.total} {what} (max_requests)", 1)
        return tally

    def _check_own(self, tally: _Tally, client: str, what: str) -> None:
        if tally.of(client) >= self._settings.max_requests_per_principal:
            raise busy(429, f"{tally.of(client)} of your {what} (max_requests_per_principal)", 1)

    @contextmanager
    def standing_request(self, client: str, places: int) -> Generator[None]:
        """Count one request that stands open while the body runs.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._standing.of(client) + places > self._limits.max_subscriptions:
            raise busy(429, f"with these {places} you had more than max_subscriptions", 1)
        self._standing.add(client, places)
        try:
            yield
        finally:
            self._standing.remove(client, places)
