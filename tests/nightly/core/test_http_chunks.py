"""The chunked coding: what is taken, what is refused, and that it does not matter how the bytes are cut."""

from __future__ import annotations

import pytest
from inside_core import ChunkedReader


def test_a_response_may_go_on_for_ever_in_the_chunks_of_short_events() -> None:
    """A comment of three bytes each few seconds keeps a stream alive; a stream of single bytes is no stream."""
    reader = ChunkedReader(of_response=True)
    for _ in range(300):
        assert reader.feed(b"3\r\n:\n\n\r\n" * 1_000) == b":\n\n" * 1_000
    reader = ChunkedReader(of_response=True)
    with pytest.raises(ValueError, match="too short"):
        for _ in range(1_000):
            reader.feed(b"1\r\nx\r\n" * 1_000)
