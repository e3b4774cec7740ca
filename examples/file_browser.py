"""A file browser: a directory that the server offers to everybody, and those that its client lets it see.

Roots are the client's: it says in which directories a server may work, and the server asks for them whenever it
needs them. `Depends` asks once for each call, and the handlers get paths.

Run ``python examples/file_browser.py``. You see::

    templates: manual://{+path}
    templates: workspace:///{+path}
      listed: manual://calculator.py
      listed: manual://calculator_client.py
    in the client's roots: notes/trio.txt, todo.txt
    workspace:///todo.txt says 'water the plants'
    workspace:///../secret.txt is refused: invalid params: uri: the variable path contains .. as a part of a path
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import trio

from trio_mcp import Context, Depends, File, RequestError, ResourceNotFound, Server, open_client

server = Server("file-browser", version="1.0")
server.add_directory(Path(__file__).parent, uri="manual://", pattern="calculator*.py")


async def find_roots(ctx: Context) -> list[Path]:
    """Ask the client where we may look."""
    return [root.path.resolve() for root in await ctx.list_roots()]


Roots = Annotated[list[Path], Depends(find_roots)]


@server.tool
def find(pattern: str, roots: Roots) -> list[str]:
    """List the files whose names match.

    Args:
        pattern: As in a shell, such as "*.txt".
    """
    return sorted(file.relative_to(root).as_posix() for root in roots for file in root.rglob(pattern))


@server.resource("workspace:///{+path}")
def workspace_file(path: str, roots: Roots) -> File:
    """A file in one of the client's roots."""
    for root in roots:
        file = (root / path).resolve()
        if file.is_relative_to(root) and file.is_file():
            return File(file)
    raise ResourceNotFound(f"{path} is in none of the roots")


def make_workspace(directory: str) -> Path:
    """Make a directory to let the server see, and something beside it that it shall not see."""
    root = Path(directory, "workspace")
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "trio.txt").write_text("nurseries")
    (root / "todo.txt").write_text("water the plants")
    Path(directory, "secret.txt").write_text("not for you")
    return root


async def main() -> None:
    """Let the server see a directory, and browse."""
    with tempfile.TemporaryDirectory() as directory:
        async with open_client(server, roots=[make_workspace(directory)]) as client:
            async for template in client.list_resource_templates():
                print("templates:", template.uri_template)
            async for resource in client.list_resources():
                print("  listed:", resource.uri)
            found = await client.call_tool("find", {"pattern": "*.txt"}, returns=list[str])
            print("in the client's roots:", ", ".join(found))
            for uri in ("workspace:///todo.txt", "workspace:///../secret.txt"):
                try:
                    print(uri, "says", repr((await client.read_resource(uri)).text))
                except RequestError as error:
                    print(uri, "is refused:", error.message)


if __name__ == "__main__":
    trio.run(main)
