"""The requests of the other side: which run, which wait, which are refused, and what they may weigh."""

from __future__ import annotations

from functools import partial

from processor_time import costs_of
from shared.core_inbound_table import make_table


def test_finding_what_came_from_an_origin_costs_no_more_among_many() -> None:
    """Over HTTP each answer that is complete ends an origin, whatever else is being served or waits."""

    def end_origins(count: int) -> None:
        table = make_table(max_running=count // 2, max_running_bytes=count)
        origins = [object() for _ in range(count)]
        for id, origin in enumerate(origins):
            (table.run if id < count // 2 else table.wait)(id, "request", 1, origin)
        for origin in reversed(origins):
            (found,) = table.all_from(origin)
            if table.cancel_waiting(found) is None:
                table.finish(found)
            assert table.all_from(origin) == ()

    few, many = costs_of(partial(end_origins, 250), partial(end_origins, 4_000))
    # Sixteen times as much: a search for each would cost 256 times as much.
    assert many / few < 64, (few, many)
