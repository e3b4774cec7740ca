"""Everything that servers of other implementations can offer and ask, as our client finds it, over stdio.

Each server is visited once in each of its eras; each test is about one thing that was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs
import pytest
import trio
from connecting import connected
from features_of_servers import (
    LEGACY,
    MODERN,
    NO_WAY_BACK,
    User,
    check,
    differences_of,
    take_steps,
)
from recordings import Recording
from their_servers import FULL_SERVERS, TheirServer

from trio_mcp import Revision


@final
@attrs.frozen
class Visit:
    """What came of visiting a server.

    Attributes:
        server: The server.
        revision: What was spoken.
        found: What was found at each step, or the error.
        recording: What was said.
    """

    server: TheirServer
    revision: Revision
    found: Mapping[str, Any]
    recording: Recording


async def visit_server(server: TheirServer, revision: Revision) -> Visit:
    """Take every step with a server, whatever has become of those before it."""
    user = User()
    async with connected(server, **user.options(revision)) as (client, recordings):
        found = await take_steps(server, user, client)
    return Visit(server, revision, found, recordings[-1])


VISITS: Final[Sequence[tuple[TheirServer, Revision]]] = [
    (server, revision) for server in FULL_SERVERS for revision in (LEGACY, MODERN) if revision <= server.agreed
]


@pytest.fixture(scope="module", params=VISITS, ids=[f"{server.id}-{revision}" for server, revision in VISITS])
def visit(request: pytest.FixtureRequest) -> Visit:
    """One visit of each server in each of its eras, for all tests."""
    return trio.run(visit_server, *request.param)


def test_each_feature_is_found(subtests: pytest.Subtests, visit: Visit) -> None:
    """2025-11-25 and 2026-07-28: server/resources, server/prompts, server/utilities/completion, client, listening."""
    for step, found in visit.found.items():
        with subtests.test(step):
            check(visit.server, visit.revision, step, found)


def test_nobody_is_asked_by_a_request_in_the_modern_era(visit: Visit) -> None:
    """2026-07-28, basic/patterns/mrtr: states go back as they came, each with an id of its own."""
    requests = [
        message for message in visit.recording.messages("server") if "method" in message and "id" in message
    ]
    retries = [
        message
        for message in visit.recording.messages("client", "tools/call")
        if "inputResponses" in message["params"]
    ]
    if not any(
        differs.reason == NO_WAY_BACK for differs in differences_of(visit.server, visit.revision).values()
    ):
        assert bool(requests) == (not visit.revision.is_modern)
    assert bool(retries) == visit.revision.is_modern
    # What was refused as a whole is asked again in another way.
    refused = [
        message for carrier in visit.recording.exchanges if carrier.status != 200 for message in carrier.messages
    ]
    ids = [
        message["id"]
        for message in visit.recording.messages("client")
        if "id" in message and "method" in message and message not in refused
    ]
    assert len(set(ids)) == len(ids)
