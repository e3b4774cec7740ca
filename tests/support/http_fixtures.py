"""Proxies of the machine that runs the tests must not matter to them; which parser is installed, neither."""

from __future__ import annotations

import pytest
from inside_core import ReadFields, h11_fields, httptools_fields
from inside_http import client_module as _client

PARSERS = {"h11": h11_fields, "httptools": httptools_fields()}


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(params=PARSERS)
def read_fields(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ReadFields:
    """What our client reads fields with: everything that it can have."""
    parser = PARSERS[request.param]
    monkeypatch.setattr(_client, "fastest_fields", lambda: parser)
    return parser
