"""A long job: progress while it runs, a button that stops it, and a deadline. Either way its cleanup runs.

Cancelling is Trio's: leave a cancel scope, and the server is told; its handler is cancelled like any task.

Run ``python examples/long_job.py``. You see::

    1/3 frame 1
    2/3 frame 2
    3/3 frame 3
    rendered: 3 frames
    -- the same, but somebody presses "stop"
    1/1000 frame 1
    2/1000 frame 2
    [server: stopped, 2 frames thrown away]
    -- the same, but there is no time
    [server: stopped, 0 frames thrown away]
    the deadline passed
"""

from __future__ import annotations

import trio

from trio_mcp import Context, Progress, Server, open_client

server = Server("studio", version="1.0")


@server.tool
async def render(frames: int, *, seconds_each: float = 0.01, ctx: Context) -> str:
    """Render a film.

    Args:
        frames: How many frames it has.
        seconds_each: How long one takes.
    """
    done = 0
    try:
        async with ctx.progress(total=frames) as progress:
            while done < frames:
                await trio.sleep(seconds_each)
                done += 1
                await progress.advance(message=f"frame {done}")
    except trio.Cancelled:
        print(f"[server: stopped, {done} frames thrown away]")
        raise
    return f"rendered: {done} frames"


def show(progress: Progress) -> None:
    """Print how far it is."""
    print(f"{progress.progress}/{progress.total} {progress.message}")


async def main() -> None:
    """Run the job three times."""
    async with open_client(server) as client:
        result = await client.call_tool("render", {"frames": 3}, on_progress=show)
        print(result.text)

        print('-- the same, but somebody presses "stop"')
        with trio.CancelScope() as stop:

            def show_and_stop(progress: Progress) -> None:
                show(progress)
                if progress.progress == 2:
                    stop.cancel()

            await client.call_tool("render", {"frames": 1000, "seconds_each": 0.1}, on_progress=show_and_stop)
        await client.ping()  # the server is there, and the job is over

        print("-- the same, but there is no time")
        try:
            with trio.fail_after(0.3):
                await client.call_tool("render", {"frames": 1, "seconds_each": 3600})
        except trio.TooSlowError:
            await client.ping()
            print("the deadline passed")


if __name__ == "__main__":
    trio.run(main)
