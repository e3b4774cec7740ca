"""How often a large message is in memory while it goes in or out: copies take longer than all else that is done."""

from __future__ import annotations

import sys
from typing import Final

import pytest
from inside_endpoint import RequestBody

from trio_mcp import HttpServerSettings

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
