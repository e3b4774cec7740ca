"""The page server/utilities/completion of every revision, between our client and our server."""

from __future__ import annotations

import json
import logging
from functools import partial

import pytest
from meeting import Meeting, meet

from trio_mcp import RequestError, Server, open_client
from trio_mcp.types import PromptReference, ResourceTemplateReference

COMPLETION = "server/utilities/completion"
REVIEW = PromptReference(name="code_review")
SHELF = ResourceTemplateReference(uri="shelf://{room}/{book}")


@pytest.mark.spec(COMPLETION, "Capabilities")
@pytest.mark.spec(COMPLETION, "Error Handling")
@meet
async def test_the_capability_is_declared_where_the_revision_has_it(meeting: Meeting) -> None:
    """2024-11-05 has completion without a capability for it."""
    capabilities = (await meeting.client.discover()).capabilities
    assert capabilities.completions == (None if meeting.revision == "2024-11-05" else {})
    async with open_client(Server("bare"), revision=meeting.revision) as other:
        assert (await other.discover()).capabilities.completions is None
        await meeting.refused(lambda: other.complete(REVIEW, "language", "py"), -32601)


@pytest.mark.spec(COMPLETION, "Requesting Completions")
@pytest.mark.spec(COMPLETION, "Reference Types")
@pytest.mark.spec(COMPLETION, "CompleteRequest")
@pytest.mark.spec(COMPLETION, "CompleteResult")
@pytest.mark.spec(COMPLETION, "Message Flow")
@meet
async def test_an_argument_of_a_prompt_is_completed_and_refined(meeting: Meeting) -> None:
    result = await meeting.client.complete(REVIEW, "language", "py")
    assert meeting.params("completion/complete") == {
        "ref": {"type": "ref/prompt", "name": "code_review"},
        "argument": {"name": "language", "value": "py"},
    }
    assert meeting.result("completion/complete") == {
        "completion": {"values": ["python", "pytorch", "pyside"], "total": 3, "hasMore": False}
    }
    assert list(result.completion.values) == ["python", "pytorch", "pyside"]
    assert list((await meeting.client.complete(REVIEW, "language", "pyt")).completion.values) == [
        "python",
        "pytorch",
    ]


@pytest.mark.spec(COMPLETION, "Reference Types")
@pytest.mark.spec(COMPLETION, "CompleteRequest")
@meet
async def test_a_variable_of_a_template_is_completed(meeting: Meeting) -> None:
    result = await meeting.client.complete(SHELF, "room", "c")
    ref = meeting.params("completion/complete")["ref"]
    assert ref == {"type": "ref/resource", "uri": "shelf://{room}/{book}"}
    assert list(result.completion.values) == ["cellar", "cabin"]


@pytest.mark.spec(COMPLETION, "Requesting Completions")
@pytest.mark.spec(COMPLETION, "CompleteRequest")
@meet
async def test_what_is_filled_in_already_is_said_where_it_can_be(meeting: Meeting) -> None:
    """From 2025-06-18 on."""
    result = await meeting.client.complete(REVIEW, "code", "x", context={"language": "rust"})
    params = meeting.params("completion/complete")
    if meeting.revision >= "2025-06-18":
        assert params["context"] == {"arguments": {"language": "rust"}}
        assert list(result.completion.values) == ["x in rust"]
    else:
        assert "context" not in params
        assert list(result.completion.values) == ["x in any language"]


@pytest.mark.spec(COMPLETION, "Completion Results")
@pytest.mark.spec(COMPLETION, "CompleteResult")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@meet
async def test_no_more_than_a_hundred_values_are_sent(meeting: Meeting) -> None:
    await meeting.client.complete(SHELF, "book", "", context={"room": "cellar"})
    completion = meeting.result("completion/complete")["completion"]
    assert completion["values"] == [str(number) for number in range(100)]
    assert completion["total"] == 1000
    assert completion["hasMore"] is True


@pytest.mark.spec(COMPLETION, "Completion Results")
@meet
async def test_all_values_that_fit_are_sent(meeting: Meeting) -> None:
    await meeting.client.complete(SHELF, "book", "1")
    completion = meeting.result("completion/complete")["completion"]
    assert completion == {
        "values": ["1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"],
        "total": 11,
        "hasMore": False,
    }


@pytest.mark.spec(COMPLETION, "Error Handling")
@pytest.mark.spec(COMPLETION, "Implementation Considerations")
@pytest.mark.spec(COMPLETION, "Security")
@meet
async def test_what_cannot_be_completed_is_refused(meeting: Meeting, subtests: pytest.Subtests) -> None:
    rows: list[dict[str, object]] = [
        {"ref": {"type": "ref/prompt", "name": "no such prompt"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "code_review"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "shelf://{x}"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/nothing"}, "argument": {"name": "x", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "code_review"}, "argument": {"name": "code"}},
        {"ref": {"type": "ref/prompt", "name": "code_review"}},
    ]
    for params in rows:
        with subtests.test(params=params):
            await meeting.refused(partial(meeting.client.request, "completion/complete", params), -32602)


@pytest.mark.spec(COMPLETION, "Error Handling")
@pytest.mark.spec(COMPLETION, "Security")
@meet
async def test_a_failing_completion_is_an_internal_error_that_shows_nothing(
    meeting: Meeting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "trio_mcp"), pytest.raises(RequestError) as caught:
        await meeting.client.complete(REVIEW, "code", "bug")
    assert caught.value.code == -32603
    assert "secret" not in json.dumps(meeting.received)
