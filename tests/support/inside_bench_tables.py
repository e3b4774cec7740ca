"""The door of the tests to what shows measurements, which needs the extra ``bench``."""

from __future__ import annotations

from trio_mcp._bench._plots import panels as panels
from trio_mcp._bench._plots import save as save
from trio_mcp._bench._rows import CLIENT_ROWS as CLIENT_ROWS
from trio_mcp._bench._rows import ROWS as ROWS
from trio_mcp._bench._tables import tables as tables
from trio_mcp._bench._targets import NothingToMeasure as NothingToMeasure
from trio_mcp._bench._targets import Plan as Plan
from trio_mcp._bench._targets import rows_of as rows_of
