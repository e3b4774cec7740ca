"""What a server says of its pages gets into a policy only if it is an origin; the policies are those of the page."""

from __future__ import annotations

import time

from inside_core import (
    is_app_type,
)


def test_a_type_that_is_mostly_spaces_takes_no_time() -> None:
    begun = time.perf_counter()
    assert not is_app_type("text" + " " * 200_000 + "html")
    assert time.perf_counter() - begun < 2  # looking for a semicolon behind each space would take half a minute
