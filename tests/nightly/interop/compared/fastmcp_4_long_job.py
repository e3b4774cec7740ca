"""A long job: progress while it runs, and a deadline that stops it."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import asyncio

from fastmcp import Client, Context, FastMCP

server = FastMCP("studio")


@server.tool
async def render(frames: int, ctx: Context) -> str:
    """Render a film."""
    try:
        for frame in range(1, frames + 1):
            await asyncio.sleep(0.01 if frames < 10 else 3600)
            await ctx.report_progress(frame, frames)
    except asyncio.CancelledError:
        print("stopped")
        raise
    return f"rendered {frames}"


async def show(progress: float, total: float | None, message: str | None) -> None:
    """Print how far it is."""
    print(f"{progress:g}/{total:g}")


async def main() -> None:
    """Run the job twice."""
    async with Client(server, progress_handler=show) as client:
        print((await client.call_tool("render", {"frames": 3})).data)
        try:
            async with asyncio.timeout(0.3):
                await client.call_tool("render", {"frames": 1000})
        except TimeoutError:
            await client.list_tools()
            print("too late")


asyncio.run(main())
