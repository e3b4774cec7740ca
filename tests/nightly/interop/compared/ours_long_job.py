"""A long job: progress while it runs, and a deadline that stops it."""

import trio

from trio_mcp import Context, Progress, Server, open_client

server = Server("studio")


@server.tool
async def render(frames: int, ctx: Context) -> str:
    """Render a film."""
    try:
        async with ctx.progress(total=frames) as progress:
            for _ in range(frames):
                await trio.sleep(0.01 if frames < 10 else 3600)
                await progress.advance()
    except trio.Cancelled:
        print("stopped")
        raise
    return f"rendered {frames}"


def show(progress: Progress) -> None:
    """Print how far it is."""
    print(f"{progress.progress:g}/{progress.total:g}")


async def main() -> None:
    """Run the job twice."""
    async with open_client(server) as client:
        print((await client.call_tool("render", {"frames": 3}, on_progress=show)).text)
        with trio.move_on_after(0.3):
            await client.call_tool("render", {"frames": 1000}, on_progress=show)
        await client.ping()
        print("too late")


trio.run(main)
