"""The door of the tests to what measures any server: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._bench import _fixed_server, _opening
from trio_mcp._bench._client_runs import placed as placed
from trio_mcp._bench._figures import Ratio as Ratio
from trio_mcp._bench._figures import Spread as Spread
from trio_mcp._bench._figures import Verdict as Verdict
from trio_mcp._bench._figures import compare as compare
from trio_mcp._bench._figures import compare_within as compare_within
from trio_mcp._bench._figures import curve as curve
from trio_mcp._bench._figures import describe_latencies as describe_latencies
from trio_mcp._bench._figures import exponent_of as exponent_of
from trio_mcp._bench._figures import judge as judge
from trio_mcp._bench._figures import slope_of as slope_of
from trio_mcp._bench._fixed_server import Answers as Answers
from trio_mcp._bench._http_links import Address as Address
from trio_mcp._bench._http_links import HttpConnection as HttpConnection
from trio_mcp._bench._links import Descriptors as Descriptors
from trio_mcp._bench._links import LineLink as LineLink
from trio_mcp._bench._links import LoadError as LoadError
from trio_mcp._bench._links import WebSocketLink as WebSocketLink
from trio_mcp._bench._links import framed as framed
from trio_mcp._bench._links import open_wire as open_wire
from trio_mcp._bench._loops import counted as counted
from trio_mcp._bench._messages import DIALECTS as DIALECTS
from trio_mcp._bench._messages import FIRST_ID as FIRST_ID
from trio_mcp._bench._messages import LAST_ID as LAST_ID
from trio_mcp._bench._messages import MARK as MARK
from trio_mcp._bench._messages import Message as Message
from trio_mcp._bench._messages import Template as Template
from trio_mcp._bench._offers import example_of as example_of
from trio_mcp._bench._opening import Opened as Opened
from trio_mcp._bench._opening import open_server as open_server
from trio_mcp._bench._plan import Cell as Cell
from trio_mcp._bench._plan import Cores as Cores
from trio_mcp._bench._plan import Settings as Settings
from trio_mcp._bench._processes import module_command as module_command
from trio_mcp._bench._records import Recorder as Recorder
from trio_mcp._bench._records import RecordError as RecordError
from trio_mcp._bench._records import describe_run as describe_run
from trio_mcp._bench._records import read_record as read_record
from trio_mcp._bench._records import write_record as write_record
from trio_mcp._bench._running import Found as Found
from trio_mcp._bench._running import MeasureError as MeasureError
from trio_mcp._bench._running import contenders_of as contenders_of
from trio_mcp._bench._running import count_measurements as count_measurements
from trio_mcp._bench._running import open_worker as open_worker
from trio_mcp._bench._running import run_rounds as run_rounds

opening_module = _opening
FIXED = _fixed_server.__name__
