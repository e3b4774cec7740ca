"""A way of your own to show a server who a client is, and to come back with a better badge.

The server takes a badge of today. The client brings yesterday's, is refused, fetches another, and its call goes
through. You see::

    the server refuses a badge of Monday
    the porter hands out a badge of Tuesday
    the archive is open
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from trio_mcp import (
    Auth,
    AuthRequest,
    AuthResponse,
    HttpCall,
    HttpRefused,
    HttpServerParameters,
    McpASGI,
    Server,
    open_client,
)

server = Server("archive")


@server.tool
def enter() -> str:
    """Enter the archive."""
    return "the archive is open"


async def authenticate(call: HttpCall) -> str:
    """Let in who has a badge of today."""
    scheme, _, badge = (call.headers.get("authorization") or "").partition(" ")
    if scheme != "Badge" or badge != "Tuesday":
        print("the server refuses a badge of", badge)
        raise HttpRefused(401, "not today", [("www-authenticate", "Badge")])
    await trio.lowlevel.checkpoint()
    return "a visitor"


class Visitor(Auth):
    """Shows a badge, and gets another one from the porter when it is refused.

    Many calls may be refused at once: the first asks the porter, the others wait for what it brings.
    """

    def __init__(self) -> None:
        self.badge = "Monday"
        self.at_the_porter = trio.Lock()

    async def headers_for(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the badge; this is asked again each time a request is sent."""
        await trio.lowlevel.checkpoint()
        return {"Authorization": f"Badge {self.badge}"}

    async def on_refused(self, request: AuthRequest, response: AuthResponse) -> bool:
        """Fetch another badge, unless somebody has done so meanwhile. Returns whether to try again."""
        async with self.at_the_porter:
            if response.sent["Authorization"] == f"Badge {self.badge}":
                self.badge = "Tuesday"
                print("the porter hands out a badge of", self.badge)
        return True


async def main() -> None:
    """Visit the archive."""
    archive = HttpServerParameters("http://localhost/mcp", app=McpASGI(server, authenticate=authenticate))
    async with open_client(archive, auth=Visitor(), era="modern") as client:
        print((await client.call_tool("enter")).text)


if __name__ == "__main__":
    trio.run(main)
