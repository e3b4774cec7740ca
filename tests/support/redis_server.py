"""A real redis-server: on a socket in a folder of its own, with nothing on the disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

__all__ = ["Redis", "free_port", "running_redis"]

PROGRAM: Final = shutil.which("redis-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@attrs.define
class Redis:
    """A Redis that can be stopped, let go, and started again without what it had."""

    folder: Path
    options: Sequence[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/s"

    def start(self) -> None:
        assert PROGRAM is not None
        words = [PROGRAM, "--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", f"{self.folder}/s"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*words, *self.options], stdout=log, cwd=self.folder)
        for _ in range(1_000):
            with socket.socket(socket.AF_UNIX) as one:
                if one.connect_ex(f"{self.folder}/s") == 0:
                    return
            time.sleep(0.02)
        raise AssertionError((self.folder / "log").read_text())

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stop it as it is: connections stay, and nothing is answered."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(10)

    async def ask(self, *words: str) -> bytes:
        """Send one command, and return what is answered at first."""
        stream = await trio.open_unix_socket(f"{self.folder}/s")
        async with stream:
            parts = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
            await stream.send_all(f"*{len(words)}\r\n{parts}".encode())
            return await stream.receive_some(1_000_000)


@contextmanager
def running_redis(*options: str) -> Generator[Redis]:
    """Run one while the block runs."""
    pytest.importorskip("coredis")
    if PROGRAM is None:
        pytest.skip("redis-server is not installed; `make debian` does it for root")
    with tempfile.TemporaryDirectory() as folder:  # its name is short enough for a socket
        redis = Redis(Path(folder), options)
        redis.start()
        try:
            yield redis
        finally:
            redis.kill()
