"""A long job: progress while it runs, and a deadline that stops it."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import anyio
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("studio")


@server.tool()
async def render(frames: int, ctx: Context) -> str:
    """Render a film."""
    try:
        for frame in range(1, frames + 1):
            await anyio.sleep(0.01 if frames < 10 else 3600)
            await ctx.report_progress(frame, frames)
    except anyio.get_cancelled_exc_class():
        print("stopped")
        raise
    return f"rendered {frames}"


async def show(progress: float, total: float | None, message: str | None) -> None:
    """Print how far it is."""
    print(f"{progress:g}/{total:g}")


async def main() -> None:
    """Run the job twice."""
    async with Client(server) as client:
        print((await client.call_tool("render", {"frames": 3}, progress_callback=show)).content[0].text)
        with anyio.move_on_after(0.3):
            await client.call_tool("render", {"frames": 1000}, progress_callback=show)
        await client.list_tools()
        print("too late")


anyio.run(main)
