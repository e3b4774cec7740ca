"""How often a large message is in memory while it goes in or out: copies take longer than all else that is done."""

from __future__ import annotations

import sys
from typing import Final

import pytest
import trio
from inside_core import Pool
from inside_endpoint import RequestBody, RequestLoans

from trio_mcp import HttpRefused, HttpServerSettings

if sys.platform == "win32":
    pytest.skip("Windows has no such descriptors", allow_module_level=True)

SIZE: Final = 1 << 20


def test_a_large_body_is_received_in_few_pieces() -> None:
    """The more has come, the more is read at once, but never more than is left of it."""
    body = RequestBody(HttpServerSettings(), SIZE)
    pieces: list[int] = []
    while not body.is_complete:
        pieces.append(body.read_size)
        body.feed(bytes(pieces[-1]), is_complete=sum(pieces) == SIZE)
    assert len(pieces) <= 4
    assert sum(pieces) == SIZE


async def test_no_piece_is_kept_of_a_body_for_which_there_is_no_room() -> None:
    """The error that says so had frames in which the last piece was, and was kept in a cycle with the body."""
    pieces = [bytes(SIZE), bytes(SIZE)]
    unused = [sys.getrefcount(piece) for piece in pieces]
    body = RequestBody(HttpServerSettings(), 3 * SIZE)
    coming = iter(pieces)

    async def fetch() -> None:
        await trio.lowlevel.checkpoint()
        body.feed(next(coming), is_complete=False)

    with pytest.raises(HttpRefused, match="no room for the body"):
        await body.read(RequestLoans(Pool("max_kept_bytes", SIZE), "somebody"), fetch)
    assert [sys.getrefcount(piece) for piece in pieces] == unused
