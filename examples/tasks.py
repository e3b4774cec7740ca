"""A job that outlives its client: started by one, looked at and asked about by another, called off by a third.

The tool is a function like any other; `task="optional"` lets it go on when its call was answered. `call_tool`
waits for it as for any result. `start_task` and `resume_task` show it; its id is all one needs to come back.

Run ``python examples/tasks.py``. You see::

    a call: packed 2 parts
    left behind: working
    found again: packed 3 parts
    [server: stopped after 0 parts]
    called off: True
"""

from __future__ import annotations

import trio

from trio_mcp import Context, Server, TaskCancelled, open_client, types

server = Server("archive", version="1.0")


@server.tool(task="optional", ttl=3600, poll=0.1)
async def pack(parts: int, *, seconds_each: float = 0.05, ctx: Context) -> str:
    """Pack parts into an archive.

    Args:
        parts: How many parts there are.
        seconds_each: How long one takes to come.
    """
    done = 0
    try:
        async with ctx.progress(total=parts) as progress:
            while done < parts:
                await trio.sleep(seconds_each)
                done += 1
                await progress.report(done, message=f"{done} of {parts} parts")
        if not await ctx.elicit(f"Keep all {parts} parts?", bool):
            return "packed nothing"
    except trio.Cancelled:
        # Nothing is awaited: where the task is cancelled, an await is cancelled at once, too.
        print(f"[server: stopped after {done} parts]")
        raise
    return f"packed {done} parts"


def ask_user(_: types.ElicitRequestParams) -> dict[str, types.ElicitValue | None]:
    """Say yes to everything: a user would be asked here, while the task waits."""
    return {"value": True}


async def main() -> None:
    """Call the tool as any other, then go away and come back."""
    async with server.open() as running:
        async with open_client(running, tasks="always", on_elicit=ask_user) as client:
            print(f"a call: {(await client.call_tool('pack', {'parts': 2})).text}")
            async with client.start_task("pack", {"parts": 3}) as task:
                assert task.state is not None
                print(f"left behind: {task.state.status}")
                id = task.detach()  # or the task would be cancelled at the end of the block
        assert id is not None
        async with open_client(running, on_elicit=ask_user) as client:
            async with client.resume_task(id) as task:
                print(f"found again: {(await task.result()).text}")
            async with client.start_task("pack", {"parts": 5, "seconds_each": 60}) as task:
                await task.cancel()
                try:
                    await task.result()
                except TaskCancelled as error:
                    print(f"called off: {error.id == task.id}")


if __name__ == "__main__":
    trio.run(main)
