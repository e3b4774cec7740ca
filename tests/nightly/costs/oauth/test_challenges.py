"""What servers write into `WWW-Authenticate`, and what is read of it."""

from __future__ import annotations

import time

import pytest
from inside_oauth import parse_challenges


def read(*fields: str) -> list[tuple[str, dict[str, str], str | None]]:
    return [(each.scheme, dict(each.parameters), each.token) for each in parse_challenges(fields)]


def test_reading_takes_linear_time(subtests: pytest.Subtests) -> None:
    for evil in ('"', "\\", ",", " ", "a", "=", "a=", 'a="', "Bearer ", "a ", "a,"):
        with subtests.test(evil=evil):
            field = "Bearer " + evil * (200_000 // len(evil))
            began = time.perf_counter()
            read(field)
            assert time.perf_counter() - began < 1.0
