"""A list of the protocol that there is not: numbers."""

from collections.abc import Sequence

from inside_wire import wire

from trio_mcp.types import PaginatedResult

__all__ = ["Numbers", "numbers_of"]


@wire
class Numbers(PaginatedResult):
    """One page of numbers."""

    numbers: Sequence[int]


def numbers_of(page: Numbers) -> Sequence[int]:
    """Return what is listed on a page."""
    return page.numbers
