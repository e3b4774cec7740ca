"""See `quiet_fixtures`."""

from __future__ import annotations

from quiet_fixtures import _quiet as _quiet
