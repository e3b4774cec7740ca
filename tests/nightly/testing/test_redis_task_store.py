"""A store of tasks in a real Redis passes the tests that stores of tasks are tested with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest
from redis_server import Redis, running_redis

from trio_mcp import RedisTaskStore, open_redis_task_store
from trio_mcp.testing import SharedTaskStoreTests


class TestRedis(SharedTaskStoreTests):
    redis: Redis

    @pytest.fixture(autouse=True)
    def _place(self) -> Generator[None]:
        with running_redis() as self.redis:
            yield

    @asynccontextmanager
    async def open_store(self) -> AsyncGenerator[RedisTaskStore]:
        async with open_redis_task_store(self.redis.url) as store:
            yield store
