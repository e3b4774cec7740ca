"""Sealed state: what a client carries for the server, and cannot read, change, keep for long or use elsewhere.

Spec: 2026-07-28, basic/patterns/mrtr, "Server Requirements (Basic Workflow)", 4 and 5.
"""

from __future__ import annotations

from inside_core import Sealer

KEY = bytes(range(32))
HERE = b"this request"
NOW = 1_000.0


def test_no_two_states_are_alike() -> None:
    """Of the same payload, many times: no salt and nonce twice."""
    sealer = Sealer([KEY])
    states = {sealer.seal(b"", binding=HERE, now=NOW, ttl=1)[2:34] for _ in range(20_000)}
    assert len(states) == 20_000
