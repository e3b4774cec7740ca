"""What the tests of this directory share."""

from __future__ import annotations

import http_raw
import http_wire
import pytest
from inside_core import h11_fields, httptools_fields
from inside_endpoint import lean_module as _lean


@pytest.fixture(
    params=[
        "lean with httptools",
        *(pytest.param(each, marks=pytest.mark.nightly) for each in ("hypercorn", "lean with h11")),
    ]
)
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What reads and writes HTTP: every host with every parser that it can have."""
    name, _, parser = request.param.partition(" with ")
    monkeypatch.setitem(http_wire.DEFAULTS, "http", name)
    fields = h11_fields if parser == "h11" else httptools_fields()
    monkeypatch.setattr(_lean, "fastest_fields", lambda: fields)
    return str(name)


@pytest.fixture(
    params=["application", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("hypercorn", "lean"))]
)
def under(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `open_raw` serves under, without sockets."""
    monkeypatch.setattr(http_raw, "HOSTED", [] if request.param == "application" else [request.param])
    return str(request.param)
