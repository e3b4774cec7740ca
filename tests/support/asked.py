"""A client that is asked: it remembers each question and gives the answers it was told to give."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

import trio

from trio_mcp import Client, Context, OnFrame, Revision, Server, open_client
from trio_mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
)

__all__ = ["ABLE", "FORM_ERA", "LEGACY", "TOOL_ERA", "AskedClient", "FakeAsker", "ask_in_tool"]

LEGACY: Final = tuple(revision for revision in Revision if not revision.is_modern)
FORM_ERA: Final = (Revision.V2025_06_18, Revision.V2025_11_25)
"""The legacy revisions that have elicitation."""
TOOL_ERA: Final = (Revision.V2025_11_25,)
"""The legacy revisions that have URLs to go to, choices of several, and sampling with tools."""

ABLE: Final = ClientCapabilities(
    elicitation=ElicitationCapability(form={}, url={}),
    sampling=SamplingCapability(tools={}, context={}),
    roots=RootsCapability(),
)

Answer: TypeAlias = Mapping[str, Any] | Exception | Callable[[Mapping[str, Any]], Any]


class AskedClient:
    """Opens clients whose handlers give one answer, and keeps what they were asked.

    Attributes:
        questions: The parameters of each question, as plain JSON.
    """

    def __init__(self, answer: Answer = {}, *, capabilities: ClientCapabilities = ABLE) -> None:  # noqa: B006
        self.questions: list[Mapping[str, Any]] = []
        self._answer = answer
        self._capabilities = capabilities

    async def _asked(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.questions.append(params)
        answer: Any = self._answer
        answer = answer(params) if callable(answer) else answer
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        answered: Mapping[str, Any] = answer
        return answered

    def open(
        self, server: Server[Any], revision: str, on_frame: OnFrame | None = None
    ) -> AbstractAsyncContextManager[Client]:
        """Connect to a server."""
        methods = ("elicitation/create", "sampling/createMessage", "roots/list")
        return open_client(
            server,
            revision=revision,
            capabilities=self._capabilities,
            request_handlers=dict.fromkeys(methods, self._asked),
            on_frame=on_frame,
        )


async def ask_in_tool(
    client: AskedClient,
    revision: str,
    handler: Callable[[Context[Any]], Awaitable[Any]],
    on_frame: OnFrame | None = None,
) -> Any:
    """Run a function as a tool of a server, called by the client.

    Returns:
        What the function returned, as it is; or raises what it raised, as it is.
    """
    server = Server("asking")
    outcome: list[Any] = []
    error: list[Exception] = []

    @server.tool
    async def tool(ctx: Context[Any]) -> str:
        try:
            outcome.append(await handler(ctx))
        except Exception as caught:
            error.append(caught)
        return "done"

    async with client.open(server, revision, on_frame) as opened:
        await opened.call_tool("tool")
    if error:
        raise error[0]
    return outcome[0]


class FakeAsker:
    """Answers in place of the way to the client; for what does not depend on the way.

    Attributes:
        asked: Each method and its parameters, as the object they are.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.asked: list[tuple[str, object]] = []
        self._answer = answer

    async def ask(self, method: str, params: object, *, on_progress: object = None) -> Mapping[str, Any]:
        """Answer; see `InputRequester.ask`."""
        del on_progress
        await trio.lowlevel.checkpoint()
        self.asked.append((method, params))
        return self._answer
