"""See `contract_fixtures`."""

from __future__ import annotations

from contract_fixtures import pytest_collection_modifyitems as pytest_collection_modifyitems
from contract_fixtures import witness as witness
from contract_fixtures import witness_at_a_port as witness_at_a_port
from contract_fixtures import witness_at_tcp as witness_at_tcp
from contract_fixtures import witness_at_unix as witness_at_unix
