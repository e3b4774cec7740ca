"""What parked handlers keep, and of whom (2026-07-28, basic/patterns/mrtr)."""

from __future__ import annotations

from shared.server_kept_parked import HOG, asking, is_parked


async def test_what_was_parked_is_given_back() -> None:
    """Answered, expired or given up: for the next one there is as much room as ever."""
    async with asking(max_kept_bytes=1 << 20, max_kept_bytes_per_principal=1 << 20) as (server, ended):
        for _ in range(200):
            required = await server.ask(HOG, padding="x" * 100_000)
            assert is_parked(required)
            answer = await server.go_on(HOG, required["result"], padding="x" * 100_000)
            assert answer["result"]["content"][0]["text"] == "Hello, Ada"
        assert ended == ["answered"] * 200
