"""Every feature of ``full_server.py``, as the clients of other implementations find it: real processes over stdio.

Each client runs once. What it finds is the same for all, as far as its revision has it; where an implementation
lacks something or does it in another way, `Differs` says what comes of it and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import attrs
import pytest
import trio
from features import (
    ENDED,
    FEATURE,
    FEATURES,
    LEGACY,
    MISSING,
    MODERN,
    OLD,
    TOOLS,
    Differs,
    Expected,
    Feature,
    Refused,
    completion,
    essence,
    result,
)
from their_clients import FULL_CLIENTS, Session, every_way, run

from trio_mcp import Revision

SERVER: Final = Path(__file__).with_name("full_server.py")

# The clients.

NO_SAMPLING: Final = "it declares no sampling, and nothing can make it"
NO_LISTEN: Final = "FastMCP 4.1 has nothing for subscriptions/listen yet"
DIFFERENCES: Final[Mapping[tuple[str, Revision], Mapping[str, Differs]]] = {
    ("full_python_1_0.py", OLD): {
        "tools": Differs(TOOLS[:4], "it puts cursors beside the parameters (python-sdk#735), so it has one page"),
        "steps": Differs(MISSING, "it cannot ask for progress"),
        "given_up": Differs(MISSING, "it cannot ask for progress, which says when to give up"),
        "templates": Differs(MISSING, "a client may not send its ListResourceTemplatesRequest"),
        "complete_context": Differs(MISSING, "its revision has no context"),
        "summarise": Differs(Refused(-32600, "the client has not declared sampling"), NO_SAMPLING),
        "summarise_question": Differs(None, NO_SAMPLING),
        "ask_all": Differs(
            result("ask_all failed. The server's log says why.", isError=True),
            f"two questions are refused at once, for two reasons: {NO_SAMPLING}",
        ),
    },
    ("full_python_1_30.py", LEGACY): {
        "ask_in_vain": Differs(
            {**ENDED, "asked": False},
            "it calls back inside its reading loop, so it hears of nothing until it has answered (python-sdk#2838)",
        ),
    },
    ("full_fastmcp_4.py", MODERN): {
        "log": Differs(
            [["debug", None, "of no interest"], *FEATURE["log"].for_revision(MODERN)],
            "it asks for log messages of every level, and leaves choosing to its user",
        ),
        "updates": Differs(MISSING, NO_LISTEN),
        "changes": Differs([], NO_LISTEN),
    },
    ("full_typescript_1.mjs", OLD): {
        "steps": Differs([[1, 2, None], [2, 2, None]], "its revision has no messages with progress"),
        "complete_context": Differs(
            completion("fiasco", "solaris"), "it sends the context all the same, and the server heeds it"
        ),
    },
    ("full_typescript_2.mjs", LEGACY): {
        "read_missing": Differs(
            FEATURE["read_missing"].for_revision(MODERN), "it makes the newest error of those of all revisions"
        ),
    },
    ("full_typescript_2.mjs", MODERN): {
        "ask_in_vain": Differs(
            {"caller": False, "handler": False, "asked": True},
            "an aborted call does not end before the handler that was asked, which is told",
        ),
    },
}


@final
@attrs.frozen
class Visit:
    """What came of running a client.

    Attributes:
        session: What it found, and what was said.
        marker: What the handler of `ask_in_vain` leaves when it is cancelled.
    """

    session: Session
    marker: Path

    @property
    def revision(self) -> Revision:
        """What was spoken."""
        return self.session.client.agreed

    def expected(self, feature: Feature) -> Expected:
        """Return what this client finds."""
        client = self.session.client
        difference = DIFFERENCES.get((client.program, client.agreed), {}).get(feature.name)
        return feature.for_revision(self.revision) if difference is None else difference.finding


EVERY_WAY: Final = every_way(FULL_CLIENTS)


@pytest.fixture(scope="module", params=EVERY_WAY, ids=[client.id for client in EVERY_WAY])
def visit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """One run of each client, for all tests."""
    marker = tmp_path_factory.mktemp("asked") / "ended"
    return Visit(trio.run(run, request.param, SERVER, marker), marker)


def test_each_feature_is_found_as_the_revision_has_it(subtests: pytest.Subtests, visit: Visit) -> None:
    """The section is told with each feature."""
    for feature in FEATURES:
        with subtests.test(feature.name, section=feature.section):
            expected = visit.expected(feature)
            found = visit.session.findings.get(feature.name, MISSING)
            if isinstance(expected, Refused):
                expected.check(found)
            else:
                assert essence(found) == expected


def test_all_tools_are_listed_page_by_page_with_all_that_is_said_of_them(visit: Visit) -> None:
    """2026-07-28, server/tools, "Listing Tools"; server/utilities/pagination."""
    tools: Sequence[Mapping[str, Any]] = visit.session.findings["tools"]
    assert [tool["name"] for tool in tools] == visit.expected(Feature("tools", "server/tools", TOOLS))
    weather = tools[0]
    assert weather["description"] == "Say what the weather is like."
    assert weather["inputSchema"]["required"] == ["city"]
    assert weather["inputSchema"]["properties"]["city"]["description"] == "The name of the city."
    if visit.revision > OLD:
        assert weather["title"] == "Weather"
        assert weather["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
        assert weather["_meta"] == {"example.com/source": "made up"}
        assert [icon["sizes"] for icon in weather["icons"]] == [["48x48"]]
        assert set(weather["outputSchema"]["properties"]) == {"place", "celsius", "sky", "hours"}


def test_a_question_whose_handler_is_given_up_is_cancelled_once(visit: Visit) -> None:
    """Promise 5, in the legacy era on the wire; in the modern one the handler ends with the server at last."""
    recording = visit.session.recordings[-1]
    cancelled = recording.messages("server", "notifications/cancelled")
    questions = recording.messages("server", "elicitation/create")
    if visit.revision == LEGACY:
        assert questions[-1]["params"]["message"] == "In vain?"
        assert [message["params"]["requestId"] for message in cancelled] == [questions[-1]["id"]]
    elif visit.revision == MODERN:
        assert cancelled == []
    else:
        assert questions == []
    assert visit.marker.exists() == (visit.revision != OLD)


def test_nobody_is_asked_by_a_request_in_the_modern_era(visit: Visit) -> None:
    """2026-07-28, basic/patterns/mrtr: questions are results, and each answer comes with a request anew."""
    recording = visit.session.recordings[-1]
    messages = recording.messages("server")
    requests = [message["method"] for message in messages if "method" in message and "id" in message]
    rounds = [message for message in messages if message.get("result", {}).get("resultType") == "input_required"]
    if visit.revision.is_modern:
        assert requests == []
        states = [message["result"]["requestState"] for message in rounds if "requestState" in message["result"]]
        answers = [
            message["params"]["requestState"]
            for message in recording.messages("client")
            if "requestState" in message.get("params", {})
        ]
        assert len(set(states)) == len(states)
        assert set(answers) <= set(states)
        assert len(answers) == len(states) - 1  # one was asked in vain
    else:
        assert rounds == []
        assert requests


def test_all_the_server_writes_is_what_the_official_schema_says(visit: Visit) -> None:
    """Each message by the revision it belongs to; and the server exits by itself."""
    *probes, last = visit.session.recordings
    for recording in (*probes, last):
        assert recording.check("server").checked_messages > 0
    assert all(probe.ended_as_a_probe for probe in probes)
    assert last.exit_status == 0
    assert last.check("server").revision == visit.revision
    assert visit.session.findings["closed"]
