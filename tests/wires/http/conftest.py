"""See `http_fixtures`."""

from __future__ import annotations

from http_fixtures import _no_proxies as _no_proxies
from http_fixtures import read_fields as read_fields
