"""Every shielded wait of the package, and what bounds it: none may hold up `move_on_after` or Ctrl+C for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trio_mcp

PACKAGE: Final = Path(trio_mcp.__file__).parent

BOUNDS: Final = {
    # Scopes that say themselves how long they last.
    "_client/_open.py _open_given move_on_after": "nothing",
    "_bindings/_socket_client.py open_socket move_on_after": "goodbye_timeout",
    "_client/_subscriptions.py ResourceSubscriptions.release move_on_after": "goodbye_timeout",
    "_endpoint/_sqlite_events.py SqliteEventStore._close move_on_after": "five seconds",
    "_server/_redis_tasks.py RedisTaskStore._close move_on_after": "five seconds",
    "_server/_sqlite_files.py SqliteThread.close move_on_after": "five seconds",
    "_http/_asgi.py open_asgi_client move_on_after": "the seconds an application has to end",
    "_hosts/_asgi.py AsgiWebSocketCall.open_channel CancelScope": "goodbye_timeout, inside",
    "_hosts/_asgi.py McpASGI._serve CancelScope": "the host's `receive`, which is cancelled",
    "_hosts/_serve_sockets.py SocketConnection.serve move_on_after": "goodbye_timeout",
    "_peer/_peer.py Peer.aclose move_on_after": "goodbye_timeout",
    "_client/_tasks.py give_up_task move_on_after": "goodbye_timeout",
    "_client/_legacy_tasks.py call_as_task CancelScope": "goodbye_timeout, from when its caller is cancelled",
    "_server/_parking.py HandlerRun.run move_on_after": "goodbye_timeout",
    "_server/_tasks.py Tasks._kept move_on_after": "goodbye_timeout",
    "_server/_server.py RunningServer.serve_channel move_on_after": "goodbye_timeout",
    "_server/_server.py Servable.serve_channel move_on_after": "goodbye_timeout",
    # Around what is bounded inside, or waits for nothing.
    "_bindings/_stdio_client.py ServerProcess.aclose CancelScope": "twice terminate_timeout, and 1.2 s for a killed one",
    "_bindings/_stdio_server.py open_stdio_channel CancelScope": "closing descriptors waits for nothing",
    "_bindings/_http_client.py open_streamable_http CancelScope": "goodbye_timeout, inside",
    "_bindings/_websocket.py open_websocket_channel CancelScope": "goodbye_timeout, inside",
    "_bindings/_websocket_client.py _open_once CancelScope": "closing by force waits for nothing",
    "_auth/_stores.py FileTokenStore._change CancelScope": "reading and writing one small file",
    "_auth/_stores.py LoginNote.delete move_on_after": "LEAVING_SECONDS",
    "_auth/_person.py OAuth._log_in_by_page move_on_after": "LEAVING_SECONDS",
    "_client/_open.py _open_in_process CancelScope": "closing memory waits for nothing",
    "_endpoint/_session.py LegacySession.serve_session CancelScope": "goodbye_timeout, inside, for the store",
    "_endpoint/_legacy.py LegacySessions._give_back move_on_after": "goodbye_timeout",
    "_http/_client.py open_http_client CancelScope": "closing forcefully waits for nothing",
    "_proxy/_session.py ProxySession.connected CancelScope": "closing a client: goodbye_timeout, terminate_timeout",
    "_peer/_peer.py open_peer CancelScope": "goodbye_timeout, inside, by `Peer.aclose`",
    "_bench/_running.py open_worker move_on_after": "END_SECONDS",
    "_bench/_running.py open_worker CancelScope": "the end of a process that was killed",
    "_workers/_redis_store.py RedisStore._joined move_on_after": "five seconds",
    "_workers/_sqlite_store.py SqliteStore.open CancelScope": "leaving three files, at once, each by itself bounded",
    "_workers/_supervisor.py Supervisor._start CancelScope": "the start of a process, which the system does not delay",
    "_workers/_supervisor.py Supervisor._kill CancelScope": "the end of processes that were killed",
    # So that no refresh token gets lost that is good for once.
    "_auth/_flow.py TokenFlow.unbroken CancelScope": "UNBROKEN_SECONDS, and LEAVING_SECONDS once it is left",
    # Until the cleanup of a handler is done that has been cancelled: that is its author's.
    "_server/_parking.py HandlerRun.serve CancelScope": "the handler's own cleanup",
    "_server/_parking.py HandlerRun._suspend CancelScope": "the handler's own cleanup",
    # Tasks that go on while the body is cancelled, until it has been left.
    "_bindings/_stdio_client.py ServerProcess.__init__ CancelScope": "until aclose, which cancels it",
    "_bindings/_http_client.py StreamableHttpChannel._run shield_started": "until _close cancels it",
    "_client/_members.py Member partial": "until begin_closing, which gives it a deadline",
    "_bindings/_websocket.py WebSocketChannel.keep_open shield_started": "until aclose, which cancels it",
    "_client/_open.py _run.started shield_started": "until Client.aclose cancels it, in the same finally",
    "testing/_channel_tests.py ChannelTests._opened move_on_after": "ChannelTests.seconds",
    "testing/_scripts.py scripted_client move_on_after": "five seconds, or fewer",
    "testing/_scripts.py scripted_server.follow CancelScope": "a channel in memory, which closes without a wait",
    "_trio.py shield_started attribute": "its callers', which are here",
    "_peer/_send_queue.py Link.start_shielded CancelScope": "until Peer.aclose, which cancels it after goodbye_timeout",
    # Threads that cancellation waits for.
    "_auth/_stores.py FileTokenStore._in_thread run_sync": "one small file",
    "_endpoint/_sqlite_events.py _opened run_sync": "five seconds for a lock, by SQLite itself",
    "_workers/_sqlite_store.py SqliteStore.open run_sync": "LOCK_SECONDS for a lock, by SQLite itself",
    "_server/_sqlite_tasks.py open_sqlite_task_store run_sync": "LOCK_SECONDS for a lock, by SQLite itself",
}


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _shield_of(node: ast.AST) -> str | None:
    """Return how a node shields what is awaited in it or after it; `None` if it does not."""
    if isinstance(node, ast.Assign):
        shields = any(isinstance(target, ast.Attribute) and target.attr == "shield" for target in node.targets)
        return "attribute" if shields else None
    if not isinstance(node, ast.Call):
        return None
    name, given = _name_of(node.func), {keyword.arg: keyword.value for keyword in node.keywords}
    if name == "shield_started":
        return name
    if name == "run_sync" and "to_thread" in ast.unparse(node.func):
        return None if _is_constant(given.get("abandon_on_cancel", ast.Constant(False)), True) else name
    return name if "shield" in given and not _is_constant(given["shield"], False) else None


def _shields_in(node: ast.AST, names: tuple[str, ...] = ()) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        kind = _shield_of(child)
        if kind is not None:
            yield f"{'.'.join(names)} {kind}"
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _shields_in(child, (*names, child.name))
        else:
            yield from _shields_in(child, names)


def test_every_shielded_wait_has_a_bound() -> None:
    """A new one fails here, until somebody has found out what bounds it and says so."""
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {
        f"{path.relative_to(PACKAGE).as_posix()} {shield}"
        for path, source in sources.items()
        if "shield" in source or "to_thread" in source  # the others need not be looked at more closely
        for shield in _shields_in(ast.parse(source))
    }
    assert found - BOUNDS.keys() == set(), "what bounds these?"
    assert BOUNDS.keys() - found == set(), "these are gone"
