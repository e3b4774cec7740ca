"""What the tests of this directory share."""

from __future__ import annotations

from typing import Final

import http_raw
import http_wire
import pytest
from inside_core import h11_fields, httptools_fields
from inside_endpoint import lean_module as _lean

EVERY_HOST: Final = pytest.mark.parametrize(
    "under",
    ["application", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("hypercorn", "lean"))],
    indirect=True,
)
"""For what depends on the host: who has left, what is sent before the end of an answer, back-pressure, the end, fields of HTTP."""


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


@pytest.fixture
def under(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `open_raw` serves under, without sockets: an application, or for `EVERY_HOST` each of the hosts, too."""
    name = str(getattr(request, "param", "application"))
    monkeypatch.setattr(http_raw, "HOSTED", [] if name == "application" else [name])
    return name
