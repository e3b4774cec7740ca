"""The processes that generate load: spoken to in lines of JSON, and never outliving their block."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, Final, final

import trio

from benchmarks.load.server_process import environment

__all__ = ["NEUTRAL", "MeasureError", "Worker", "open_worker"]

NEUTRAL: Final = (sys.executable, "-m", "benchmarks.load")
END_SECONDS: Final = 10.0
CHUNK: Final = 1 << 16


class MeasureError(Exception):
    """A worker could not do what it was told; the text says why."""


@final
class Worker:
    """A process that does what it is told. Only `open_worker` makes one."""

    def __init__(self, process: trio.Process, log: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._log = log
        self._received = bytearray()

    async def tell(self, job: Mapping[str, Any], *, within: float) -> Mapping[str, Any]:
        """Have something done and return what came of it. Cancelled or failed, the worker is of no more use.

        Raises:
            MeasureError: It failed, or took longer than so many seconds.
        """
        try:
            with trio.fail_after(within):
                await self._stdin.send_all(json.dumps(job).encode() + b"\n")
                answer: Mapping[str, Any] = json.loads(await self._read_line())
        except trio.TooSlowError as error:
            raise MeasureError(f"nothing came of it within {within:.0f} s") from error
        except (trio.BrokenResourceError, ValueError) as error:
            raise MeasureError(f"the worker has broken down: {error!r}; {self._last_words()}") from error
        if "error" in answer:
            raise MeasureError(answer["error"])
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        said = self._log.read()[-2_000:].decode(errors="replace").strip()
        return said or f"status {self._process.poll()}, without a word"

    async def _read_line(self) -> bytes:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            data = await self._stdout.receive_some(CHUNK)
            if not data:
                raise MeasureError(f"the worker has ended; {self._last_words()}")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line


@asynccontextmanager
async def open_worker(command: Sequence[str] = NEUTRAL, *, cwd: str | None = None) -> AsyncGenerator[Worker]:
    """Start a worker; leaving ends it and the server it has started, within seconds."""
    with tempfile.TemporaryFile() as log:
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=cwd, env=environment()
        )
        try:
            yield Worker(process, log)
        finally:
            with trio.move_on_after(END_SECONDS, shield=True):
                assert process.stdin is not None
                await process.stdin.aclose()
                await process.wait()
            if process.returncode is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
