"""The door of the tests to processes that serve together: what they use of them and users do not."""

from __future__ import annotations

from trio_mcp._workers._forwarding import ForwardedCall as ForwardedCall
from trio_mcp._workers._frames import FrameReader as FrameReader
from trio_mcp._workers._frames import decode_whole as decode_whole
from trio_mcp._workers._frames import encode_answer_head as encode_answer_head
from trio_mcp._workers._frames import encode_request_head as encode_request_head
from trio_mcp._workers._frames import encode_whole as encode_whole
from trio_mcp._workers._frames import frame as frame
from trio_mcp._workers._frames import pieces as pieces
from trio_mcp._workers._links import MAX_WAITING as MAX_WAITING
from trio_mcp._workers._links import _Outbox as _Outbox
from trio_mcp._workers._reach import CONNECT_SECONDS as CONNECT_SECONDS
from trio_mcp._workers._reach import StoreReach as StoreReach
from trio_mcp._workers._reach import private_directory as private_directory
from trio_mcp._workers._redis_store import RedisSharedStore as RedisSharedStore
from trio_mcp._workers._redis_store_scripts import KEEP as KEEP
from trio_mcp._workers._worker import VARIABLE as VARIABLE
from trio_mcp._workers._worker import Assignment as Assignment
from trio_mcp._workers._worker import Worker as Worker
from trio_mcp._workers._worker import assigned as assigned
from trio_mcp._workers._worker import shown_to_worker as shown_to_worker
