"""States that may be brought once only (2026-07-28, basic/patterns/mrtr, "Security Considerations")."""

from __future__ import annotations

from typing import Any

import pytest
from inside_core import Account, StateRefused
from inside_server import UsedStates

from trio_mcp import Client, Context, InputRequired, Limits, RequestError, Server, open_client
from trio_mcp.types import ClientCapabilities, ElicitationCapability

MODERN = "2026-07-28"
CAPABLE = ClientCapabilities(elicitation=ElicitationCapability())
REFUSED = "requestState is not valid for this request, or not any more"
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def make_server(**options: Any) -> Server[Any]:
    server: Server[Any] = Server("s", **options)

    @server.tool(resume="replay")
    async def replayed(ctx: Context) -> str:
        answer = await ctx.request("elicitation/create", FORM)
        return f"Hello, {answer['content']['name']}"

    @server.tool
    async def by_hand(ctx: Context) -> str | InputRequired:
        return InputRequired(state=1) if ctx.request_state is None else "done"

    return server


async def twice(client: Client, name: str) -> list[str]:
    """Return what a state brings when it is brought twice."""
    call: dict[str, Any] = {"name": name, "arguments": {}}
    required = await client.request("tools/call", call)
    questions: dict[str, Any] = required.get("inputRequests") or {}
    answers = {key: {"action": "accept", "content": {"name": "Ada"}} for key in questions}
    again = {**call, "requestState": required["requestState"], "inputResponses": answers}
    said: list[str] = []
    for _ in range(2):
        try:
            said.append((await client.request("tools/call", again))["content"][0]["text"])
        except RequestError as error:
            said.append(error.message)
    return said


@pytest.mark.parametrize("name", ["replayed", "by_hand"])
async def test_a_state_is_good_until_it_expires_by_default(name: str) -> None:
    """A handler that is run again has to bear it anyway."""
    async with open_client(make_server(), revision=MODERN, capabilities=CAPABLE) as client:
        first, second = await twice(client, name)
        assert first == second != REFUSED


@pytest.mark.parametrize("name", ["replayed", "by_hand"])
async def test_a_state_can_be_good_for_one_request_only(name: str) -> None:
    """Who has seen it on its way cannot run the handler with the answers of another."""
    server = make_server(single_use_states=True)
    async with open_client(server, revision=MODERN, capabilities=CAPABLE) as client:
        for _ in range(3):
            first, second = await twice(client, name)
            assert first != REFUSED
            assert second == REFUSED


async def test_what_is_remembered_is_bounded_and_never_forgotten_too_early() -> None:
    """Who uses most finds no room; the others do, and nobody's state is good again."""
    limits = Limits(parked_timeout=60)
    account = Account(limits.max_kept_bytes, limits.max_kept_bytes_per_principal)
    used = UsedStates(limits, account, most=8)
    taken = 0
    with pytest.raises(RequestError, match="the largest number of them is 8"):
        for n in range(9):
            used.use(f"hog {n}", "hog", 100.0)
            taken += 1
    assert taken == 4
    used.use("honest 0", "honest", 130.0)
    for state in ("hog 0", "honest 0"):
        with pytest.raises(StateRefused):
            used.use(state, "honest", 159.9)
    used.use("hog 9", "hog", 160.0)
    assert len(used) == 2, "those of the hog have expired"
    assert account.bytes.lent == account.bytes.lent_to("hog") + account.bytes.lent_to("honest") == 2 * 512
