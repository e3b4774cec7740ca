"""How much is being served, of whom, and what is too much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self, final

import trio

from .._core._http_admission import HttpRefused
from .._core._http_settings import HttpServerSettings
from .._core._rate import RateTable
from .._errors import SERVER_BUSY
from .._limits import Limits

__all__ = ["Load", "Place"]


@final
class Place:
    """What a request takes while it is being served. A context that gives it back; calling it does so earlier."""

    __slots__ = ("_client", "_is_taken", "_load")

    def __init__(self, load: Load, client: str) -> None:
        self._load = load
        self._client = client
        self._is_taken = True

    def __call__(self) -> None:
        """Give it back."""
        if self._is_taken:
            self._is_taken = False
            self._load.release(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self()


@final
class Load:
    """Counts the requests that are served at once, by client.

    Args:
        settings: How many there may be.
        limits: How many may stand open.
    """

    def __init__(self, settings: HttpServerSettings, limits: Limits) -> None:
        self._settings = settings
        self._limits = limits
        self._is_rated = settings.max_request_rate < math.inf
        self._rates = RateTable(settings.max_request_rate, settings.request_burst)
        self._running: Counter[str] = Counter()
        self._standing: Counter[str] = Counter()
        self._all = 0

    @property
    def running(self) -> int:
        """How many requests are being served, but for those that stand open."""
        return self._all

    @property
    def standing(self) -> int:
        """How many places the requests that stand open take."""
        return self._standing.total()

    def request(self, client: str) -> Place:
        """Count one request until its place is given back.

        Raises:
            HttpRefused: There are too many already.
        """
        settings = self._settings
        wait = self._rates.take(client, trio.current_time()) if self._is_rated else 0
        if wait:
            raise _busy(
                429, f"more than {settings.max_request_rate:g} requests per second (max_request_rate)", wait
            )
        if self._running[client] >= settings.max_requests_per_principal:
            raise _busy(
                429, f"{self._running[client]} of your requests are being served (max_requests_per_principal)", 1
            )
        if self._all >= settings.max_requests:
            raise _busy(503, f"{self._all} requests are being served (max_requests)", 1)
        self._running[client] += 1
        self._all += 1
        return Place(self, client)

    def release(self, client: str) -> None:
        """A request of this client is over."""
        self._all -= 1
        _release(self._running, client, 1)

    @contextmanager
    def standing_request(self, client: str, places: int) -> Generator[None]:
        """Count one request that stands open while the body runs.

        Raises:
            HttpRefused: There are too many already.
        """
        if self._standing[client] + places > self._limits.max_subscriptions:
            raise _busy(429, f"with these {places} you had more than max_subscriptions", 1)
        self._standing[client] += places
        try:
            yield
        finally:
            _release(self._standing, client, places)


def _release(counter: Counter[str], client: str, places: int) -> None:
    counter[client] -= places
    if not counter[client]:
        del counter[client]


def _busy(status: int, problem: str, wait: float) -> HttpRefused:
    return HttpRefused(status, problem, [(b"retry-after", b"%d" % max(1, math.ceil(wait)))], code=SERVER_BUSY)
