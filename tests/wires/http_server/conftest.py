"""See `http_server_fixtures`."""

from __future__ import annotations

from http_server_fixtures import host as host
from http_server_fixtures import under as under
