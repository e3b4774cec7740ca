"""What this library is about, to watch: ``make demo``.

Starts a real server process over stdio, lists and calls its tools, follows a progress bar, then lets a deadline
pass while a tool works, and prints every frame of both directions: the request, the one cancellation after it,
and from the server's standard error the handler's `finally`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

import trio

from trio_mcp import Progress, StdioServerParameters, open_client

SERVER = Path(__file__).with_name("library_server.py")
IS_TERMINAL = sys.stdout.isatty() and os.environ.get("NO_COLOR") is None


def colour(code: int, text: str) -> str:
    """Return the text in a colour, on a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if IS_TERMINAL else text


class Show:
    """Prints what happens, with the time since the beginning."""

    def __init__(self) -> None:
        self.begin = trio.current_time()
        self._width = max(80, shutil.get_terminal_size((140, 24)).columns)

    def _line(self, sign: str, code: int, text: str) -> None:
        left = f"{trio.current_time() - self.begin:7.3f} s  {sign} "
        room = self._width - len(left)
        print(colour(code, left + (text if len(text) <= room else text[: room - 1] + "…")), flush=True)

    def frame(self, direction: Literal["sent", "received"], data: bytes) -> None:
        """Print a frame, without what every request of the modern era repeats."""
        message: dict[str, Any] = json.loads(data)
        for body in (message.get("params", {}), message.get("result", {})):
            meta: dict[str, Any] = body.pop("_meta", {})
            ours = {
                name: value for name, value in meta.items() if not name.startswith("io.modelcontextprotocol/")
            }
            if ours:
                body["_meta"] = ours
        message.pop("jsonrpc", None)
        is_goodbye = message.get("method") == "notifications/cancelled"
        sign, code = ("──▶", 36) if direction == "sent" else ("◀──", 34)
        self._line(sign, 35 if is_goodbye else code, json.dumps(message, ensure_ascii=False))

    def stderr(self, line: str) -> None:
        """Print what the server wrote to its standard error."""
        self._line("   ", 33, line)

    def headline(self, text: str) -> None:
        """Print what comes next."""
        print(colour(1, f"\n{text}"), flush=True)

    def progress(self, progress: Progress) -> None:
        """Print a progress bar."""
        total = int(progress.total or 1)
        done = int(progress.progress)
        self._line("   ", 32, f"[{'█' * done}{'░' * (total - done)}] {done}/{total} {progress.message or ''}")


async def main() -> None:
    """Run the demonstration."""
    show = Show()
    parameters = StdioServerParameters(sys.executable, [str(SERVER)], stderr=show.stderr)
    show.headline("A server process starts, and the two agree on a revision of the protocol.")
    async with open_client(parameters, on_frame=show.frame) as client:
        info = client.server_info
        print(f"           connected to {info.name if info else 'a server'}, speaking {client.revision}")

        show.headline("What can it do?")
        print("           " + ", ".join([tool.name async for tool in client.list_tools()]))

        show.headline("A tool call, with progress.")
        result = await client.call_tool("reserve", {"title": "Dune", "copies": 5}, on_progress=show.progress)
        print(f"           {result.structured_content}")

        show.headline("A mistake comes back in words a model can act on.")
        result = await client.call_tool("reserve", {"title": "Dune", "copies": "many"})
        print(f"           is_error={result.is_error}")

        show.headline("Now a deadline: `with trio.move_on_after(1)` around a tool that takes all day.")
        with trio.move_on_after(1) as scope:
            await client.call_tool("take_inventory")
        left = client.statistics().calls
        await client.ping()
        print(f"           the deadline passed: {scope.cancelled_caught}; calls still waiting: {left}")

        show.headline("The session works on. Then the block is left, and the process is gone.")
    print(f"           {trio.current_time() - show.begin:7.3f} s: nothing is left\n")


if __name__ == "__main__":
    trio.run(main)
