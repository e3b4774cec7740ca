"""The door of the tests to one end of one connection: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from trio_mcp._peer._call import Call as Call
from trio_mcp._peer._call import CallState as CallState
from trio_mcp._peer._call import QueuedMessage as QueuedMessage
from trio_mcp._peer._call import current_clock as current_clock
from trio_mcp._peer._call import granted_deadline as granted_deadline
from trio_mcp._peer._exchange import Answer as Answer
from trio_mcp._peer._exchange import Exchange as Exchange
from trio_mcp._peer._exchange import ExchangeSink as ExchangeSink
from trio_mcp._peer._exchange import Handler as Handler
from trio_mcp._peer._exchange import LongLived as LongLived
from trio_mcp._peer._exchange import Several as Several
from trio_mcp._peer._exchanges import Arrival as Arrival
from trio_mcp._peer._exchanges import BatchReply as BatchReply
from trio_mcp._peer._exchanges import Exchanges as Exchanges
from trio_mcp._peer._exchanges import Ready as Ready
from trio_mcp._peer._middleware import compose as compose
from trio_mcp._peer._peer import Peer as Peer
from trio_mcp._peer._peer import open_peer as open_peer
from trio_mcp._peer._send_queue import Hooks as Hooks
from trio_mcp._peer._send_queue import SendQueue as SendQueue
from trio_mcp._peer._sender import Sender as Sender
from trio_mcp._trio import InlineTask as InlineTask
