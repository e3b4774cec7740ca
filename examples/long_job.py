"""A long job: progress while it runs, a stop button, a deadline, and a `finally` that leaves no half file.

Cancelling is Trio's: leave a cancel scope, and the server is told; its handler is cancelled like any task.
`fail_after_silence` is a deadline that each report of progress pushes forward, up to a limit.

Run ``python examples/long_job.py``. You see::

    [##########          ]  50% 2 of 4 parts
    [####################] 100% 4 of 4 parts
    packed 4 parts
    -- the same, but somebody presses "stop"
    [                    ]   0% 2 of 1000 parts
    [server: stopped after 2 parts]
    in the directory: full.gz
    -- the same, but it hangs
    [server: stopped after 0 parts]
    in the directory: full.gz
    the deadline passed
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from trio_mcp import Context, Progress, Server, fail_after_silence, open_client


@asynccontextmanager
async def open_directory(_: Server[Path]) -> AsyncGenerator[Path]:
    """Give the server a directory for its archives; this one is gone when the server ends."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


server = Server("archive", version="1.0", lifespan=open_directory)


@server.tool
async def pack(name: str, parts: int, *, seconds_each: float = 0.0, ctx: Context[Path]) -> str:
    """Pack parts into an archive, which is there as a whole or not at all.

    Args:
        name: What the archive is called.
        parts: How many parts there are.
        seconds_each: How long one takes to come.
    """
    finished, done = ctx.state / Path(name).name, 0
    unfinished = finished.with_suffix(".part")
    file = gzip.GzipFile(unfinished, "wb")
    try:
        async with ctx.progress(total=parts) as progress:
            while done < parts:
                await trio.sleep(seconds_each)  # cancelled here, or at any other await
                await trio.to_thread.run_sync(file.write, os.urandom(50_000))  # ends before it is cancelled
                done += 1
                if done % 2 == 0 or done == parts:
                    await progress.report(done, message=f"{done} of {parts} parts")
        file.close()
        unfinished.replace(finished)
    finally:
        # Nothing is awaited: where the task is cancelled, an await is cancelled at once, too.
        file.close()
        unfinished.unlink(missing_ok=True)
        if done < parts:
            print(f"[server: stopped after {done} parts]")
    return f"packed {done} parts"


@server.tool
def list_directory(ctx: Context[Path]) -> str:
    """List what is in the directory."""
    return ", ".join(sorted(path.name for path in ctx.state.iterdir()))


def show(report: Progress) -> None:
    """Draw a bar."""
    share = report.progress / report.total if report.total else 0
    print(f"[{'#' * round(20 * share):20}] {share:4.0%} {report.message or ''}")


async def main() -> None:
    """Run the job three times."""
    async with open_client(server) as client:
        with fail_after_silence(30, at_most=3600):
            result = await client.call_tool("pack", {"name": "full.gz", "parts": 4}, on_progress=show)
        print(result.text)

        print('-- the same, but somebody presses "stop"')
        with trio.CancelScope() as stop:

            def show_and_stop(report: Progress) -> None:
                show(report)
                stop.cancel()

            arguments = {"name": "stopped.gz", "parts": 1000, "seconds_each": 0.5}
            await client.call_tool("pack", arguments, on_progress=show_and_stop)
        await client.ping()  # the server is there, and the job is over
        print("in the directory:", (await client.call_tool("list_directory")).text)

        print("-- the same, but it hangs")
        try:
            with fail_after_silence(0.3, at_most=3600):
                await client.call_tool("pack", {"name": "late.gz", "parts": 1, "seconds_each": 3600})
        except trio.TooSlowError:
            await client.ping()
            print("in the directory:", (await client.call_tool("list_directory")).text)
            print("the deadline passed")


if __name__ == "__main__":
    trio.run(main)
