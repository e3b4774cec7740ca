"""Other implementations, as they were recorded: their clients with our server, and their servers with our client.

`make recordings` asks them again, and `tests/nightly/interop` those of all transports.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

import full_server
import pytest
from features_of_servers import RECORDED, User, check, take_steps
from recorded_peers import CLIENTS, MARKER, SERVERS, options_of

from trio_mcp import Revision, open_client
from trio_mcp.testing import Recording, replay_client, replay_server

FOR_PEOPLE: Final = ("error.message", "params.reason")
"""No peer notices another sentence there."""


@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: path.stem)
async def test_our_server_says_to_their_clients_what_it_said(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer, question and notification of it, member by member; and who is given up leaves its mark."""
    monkeypatch.chdir(tmp_path)
    server = importlib.reload(full_server).server  # as it is before its clients have changed it
    await replay_client(Recording.read(path), server, ignoring=FOR_PEOPLE)
    assert Path(MARKER).exists() == (CLIENTS[path].agreed != Revision.V2024_11_05)


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
async def test_our_client_says_to_their_servers_what_it_said(path: Path, subtests: pytest.Subtests) -> None:
    """Every request, answer and notification; and it finds in their answers all there is."""
    (server, revision), user = SERVERS[path], User()
    options = options_of(user, server, revision)
    async with (
        replay_server(Recording.read(path), ignoring=FOR_PEOPLE) as channel,
        open_client(channel, **options) as client,
    ):
        found = await take_steps(server, user, client, RECORDED)
    for step, what in found.items():
        with subtests.test(step):
            check(server, revision, step, what)
