"""Configurations of servers: what is read from them, and what is said about what is wrong in them."""

from __future__ import annotations

from typing import Any

from inside_client import read_config
from inside_parsers import _Pairs
from processor_time import costs_of

ENVIRONMENT = {"TOKEN": "secret", "HOME": "/home/x", "EMPTY": ""}


async def read(config: Any) -> dict[str, Any]:
    return {name: entry.target for name, entry in (await read_config(config, ENVIRONMENT)).items()}


def test_names_that_are_there_many_times_take_their_number() -> None:
    """Each was looked for among all the others: a megabyte took minutes."""

    def pairs(number: int) -> list[tuple[str, Any]]:
        return [(f"a{each % (number - 1)}", 1) for each in range(number)]

    assert getattr(_Pairs.checked(pairs(10)), "twice", None) == ("a0",)
    small, large = pairs(2_000), pairs(16_000)
    once, more = costs_of(lambda: _Pairs.checked(small), lambda: _Pairs.checked(large))
    assert more < 24 * once
