"""The page basic/utilities/tasks of 2025-11-25: an experiment of that revision, which neither side of ours offers.

So what it demands of those who do not offer tasks is what there is to show.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from meeting import Meeting, meet, text_of
from scripted_server import ScriptedServer

from trio_mcp import Revision, open_client

TASKS = "basic/utilities/tasks"
pytestmark = pytest.mark.parametrize("revision", [Revision.V2025_11_25])


@pytest.mark.spec(TASKS, "Capabilities")
@pytest.mark.spec(TASKS, "Server Capabilities")
@pytest.mark.spec(TASKS, "Client Capabilities")
@pytest.mark.spec(TASKS, "Capability Negotiation")
@meet
async def test_neither_side_declares_tasks(meeting: Meeting) -> None:
    answers = [m for way, m in meeting.tape.frames if way == "received" and "capabilities" in m.get("result", {})]
    assert len(answers) == 1
    assert "tasks" not in answers[0]["result"]["capabilities"]
    assert "tasks" not in meeting.declared()


@pytest.mark.spec(TASKS, "Tool-Level Negotiation")
@meet
async def test_no_tool_says_that_it_can_be_a_task(meeting: Meeting) -> None:
    """Which means that it cannot."""
    async for page in meeting.client.list_tools().pages():
        assert all(tool.execution is None for tool in page.tools)
    assert "execution" not in str(meeting.received)


@pytest.mark.spec(TASKS, "Task Support and Handling")
@meet
async def test_a_request_that_wants_to_be_a_task_is_served_as_usual(meeting: Meeting) -> None:
    """Who has not declared tasks MUST ignore what a request says of them."""
    params = {"name": "echo", "arguments": {"text": "at once"}, "task": {"ttl": 60_000}}
    await meeting.client.request("tools/call", params)
    assert meeting.result("tools/call") == {"content": [{"type": "text", "text": "at once"}]}


@pytest.mark.spec(TASKS, "Task Support and Handling")
async def test_a_question_that_wants_to_be_a_task_is_answered_as_usual(revision: Revision) -> None:
    server = ScriptedServer(revision)
    message = {"role": "user", "content": {"type": "text", "text": "?"}}
    params: dict[str, Any] = {"messages": [message], "maxTokens": 9, "task": {"ttl": 60_000}}
    async with open_client(server, revision=revision, on_sample=lambda _: "at once"):
        answer = await server.ask("sampling/createMessage", params)
    assert answer["result"]["content"] == {"type": "text", "text": "at once"}
    assert "task" not in answer["result"]


@pytest.mark.spec(TASKS, "Error Handling")
@pytest.mark.spec(TASKS, "Protocol Errors")
@meet
async def test_there_are_no_methods_for_tasks(meeting: Meeting, subtests: pytest.Subtests) -> None:
    for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
        with subtests.test(method=method):
            await meeting.refused(partial(meeting.client.request, method, {"taskId": "x"}), -32601)
            assert text_of(await meeting.client.call_tool("echo", {"text": "still here"})) == "still here"
