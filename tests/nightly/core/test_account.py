"""What is kept for clients: who gets how much, and who gives way."""

from __future__ import annotations

from inside_core import Loan, Pool


def _waiting(pool: Pool, holder: str, amount: int, gone: list[str], name: str | None = None) -> Loan:
    return pool.lend(holder, "waiting", amount, lambda: gone.append(name or holder))


def test_finding_who_holds_most_takes_as_long_among_many_as_among_few() -> None:
    """Counted in comparisons: a full pool is asked with every request."""
    pool, gone = Pool("most", 100_000), list[str]()
    for i in range(50_000):
        _waiting(pool, f"small {i}", 1, gone)
    for _ in range(50):
        _waiting(pool, "large", 1_000, gone)
    for i in range(500):
        _waiting(pool, f"new {i}", 1, gone)
    assert gone == ["large"]
