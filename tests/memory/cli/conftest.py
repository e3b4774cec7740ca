"""See `cli_fixtures`."""

from __future__ import annotations

from cli_fixtures import run as run
from cli_fixtures import shop as shop
