"""A store in a real Redis passes the tests that stores are tested with which processes share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractAsyncContextManager

import pytest
from inside_endpoint import SharedStore
from redis_server import Redis, running_redis
from store_tests import SharedStoreTests

from trio_mcp import RedisStore


class TestRedis(SharedStoreTests):
    redis: Redis

    @pytest.fixture(autouse=True)
    def _place(self) -> Generator[None]:
        with running_redis() as self.redis:
            yield

    def open_store(self) -> AbstractAsyncContextManager[SharedStore]:
        return RedisStore(self.redis.url).open()
