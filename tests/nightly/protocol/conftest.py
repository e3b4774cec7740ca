"""See `protocol_fixtures`."""

from __future__ import annotations

from protocol_fixtures import binding as binding
from protocol_fixtures import hosts as hosts
from protocol_fixtures import meeting as meeting
from protocol_fixtures import pytest_collection_modifyitems as pytest_collection_modifyitems
from protocol_fixtures import pytest_runtest_makereport as pytest_runtest_makereport
from protocol_fixtures import revision as revision
