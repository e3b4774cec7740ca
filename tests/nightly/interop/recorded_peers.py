"""Records what clients and servers of the official SDKs say over stdio: ``make recordings``, ``recorded_peers.py [NAME …]``.

A recording is what `trio_mcp.testing.Recorder` writes, as the client has seen it, without times, and with names in place of
states, cursors and paths of this machine, so that one that is made again differs only where somebody says something else.
``tests/memory/interop`` replays them.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio
from connecting import connected
from environments import NODE, install_all
from features_of_servers import RECORDED, User, check, take_steps
from inside_wire import is_array, is_object
from places import DATA, ROOT
from their_clients import FULL_CLIENTS, TheirClient, run
from their_servers import FULL_SERVERS, TheirServer

from trio_mcp import ClientOptions, Revision
from trio_mcp.testing import Recorder, Recording

SERVER: Final = Path(__file__).with_name("full_server.py")
MARKER: Final = "ended"
"""What the handler of `ask_in_vain` leaves where it runs when it is cancelled."""
STEPS: Final = (
    "tools weather contents broken wrong steps given_up log resources templates read_text read_missing read_asking "
    "prompts review prompt_wrong complete_context summarise research book pay pay_first where where_next updates "
    "ask_in_vain"
)
"""What a client does, of all that ``full_script.py`` knows: each message of the protocol, and as few others as possible."""
OPAQUE: Final = {"requestState": "state", "nextCursor": "cursor", "cursor": "cursor"}
"""Members with texts that mean something to a server only, and differ from one run to the next."""
TIMEOUT: Final = "trio-mcp/timeoutMs"


def path_of(side: str, peer: TheirClient | TheirServer, revision: Revision) -> Path:
    """Return where the recording of a peer of ours is, which is a client or a server."""
    return DATA / "interop" / f"{side}-{peer.environment.name}-{revision}.jsonl"


CLIENTS: Final[Mapping[Path, TheirClient]] = {
    path_of("client", client, client.agreed): client for client in FULL_CLIENTS if "fastmcp" not in client.program
}
SERVERS: Final[Mapping[Path, tuple[TheirServer, Revision]]] = {
    path_of("server", server, revision): (server, revision)
    for server in FULL_SERVERS
    if server.transport == "stdio"
    for revision in sorted({Revision.V2025_11_25, server.agreed})
}


async def record_client(client: TheirClient) -> Recording:
    """Let a client do what it does with our server."""
    with tempfile.TemporaryDirectory() as folder:
        marker = Path(folder, MARKER)
        session = await run(client, SERVER, marker)
        if not session.findings.get("closed"):
            raise SystemExit(f"{client.id} has not come to its end: {session.findings}")
        *_, last = session.recordings  # before, some start one only to see what it speaks
        last.check("client")
        last.check("server")
        recorder = Recorder()
        for side, line in last.lines:
            recorder("sent" if side == "client" else "received", line.replace(bytes(marker), MARKER.encode()))
    return recorder.recording


def options_of(user: User, server: TheirServer, revision: Revision) -> ClientOptions:
    """Return the options of our client, which finds out by itself which revision is the newest of a server."""
    options = user.options(None if revision == server.agreed else revision)
    options["on_log"] = user.logs[0].send
    return options


async def record_server(server: TheirServer, revision: Revision) -> Recording:
    """Let our client take its steps with a server."""
    user, recorder = User(), Recorder()
    options = options_of(user, server, revision)
    options["on_frame"] = recorder
    async with connected(server, **options) as (client, _):
        for step, found in (await take_steps(server, user, client, RECORDED)).items():
            check(server, revision, step, found)
    return recorder.recording


def tidy(value: Any, names: dict[tuple[str, str], str]) -> Any:
    """Return a message with a name for each opaque text, the first state and the second, and with whole seconds."""
    if is_array(value):
        return [tidy(each, names) for each in value]
    if not is_object(value):
        return value
    kept: dict[str, Any] = {}
    for member, inner in value.items():
        if member in OPAQUE and isinstance(inner, str):
            kind = OPAQUE[member]
            number = sum(each == kind for each, _ in names) + 1
            kept[member] = names.setdefault((kind, inner), f"{kind} {number}")
        elif member == TIMEOUT:
            kept[member] = math.ceil(inner / 1000) * 1000
        else:
            kept[member] = tidy(inner, names)
    return kept


def write(path: Path, recording: Recording) -> None:
    """Write a recording."""
    names: dict[tuple[str, str], str] = {}
    text = "".join(
        json.dumps({"direction": frame.direction, "message": tidy(frame.message, names)}, ensure_ascii=False)
        + "\n"
        for frame in recording.frames
    )
    for place in (ROOT, Path.home(), Path(tempfile.gettempdir())):
        if place != Path("/") and f"{place}/" in text:
            raise SystemExit(f"{path.name} would show what is at {place}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(recording.frames)} messages, {len(text.encode())} bytes")


def main() -> None:
    """Record whoever is named, or everybody."""
    chosen = {path for path in (*CLIENTS, *SERVERS) if path.stem in (sys.argv[1:] or [path.stem])}
    clients = {path: client for path, client in CLIENTS.items() if path in chosen}
    servers = {path: visit for path, visit in SERVERS.items() if path in chosen}
    environments = [client.environment for client in clients.values()]
    environments += [server.environment for server, _ in servers.values()]
    install_all(dict.fromkeys([NODE, *environments]))
    os.environ["STEPS"] = STEPS
    for path, client in clients.items():
        write(path, trio.run(record_client, client))
    for path, (server, revision) in servers.items():
        write(path, trio.run(record_server, server, revision))


if __name__ == "__main__":
    main()
