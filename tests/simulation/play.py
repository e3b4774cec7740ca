"""Plays a program: connects its clients to the server by the wire it names, lets that fail, and returns the log."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableSequence, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Thread, get_ident
from typing import Any, Final, assert_never, cast, final
from unittest.mock import patch

import trio
import trio._core._run as trio_run
import trio.testing
from inside_endpoint import ConnectionIO, ConnectionLimits, lean_connections
from inside_transports import (
    GuardedStream,
    HandshakeAnswer,
    StreamWire,
    WebSocketChannel,
    open_websocket_channel,
    propose,
)

from trio_mcp import (
    Channel,
    HttpServerParameters,
    HttpServerSettings,
    McpASGI,
    Server,
    Shutdown,
    StreamChannel,
    Target,
    TcpServerParameters,
    memory_channel_pair,
    open_endpoint,
)

from .calling import Player, fault_order
from .program import Client, Program, Wire
from .record import Log
from .serving import (
    DRAIN,
    GOODBYE,
    Tasks,
    World,
    begin_of,
    has_threads,
    is_of_trio,
    layers_of,
    limits_of,
    playing,
    server_with,
)
from .wires import (
    ByteWire,
    FrameSplitter,
    HttpWire,
    LineSplitter,
    MemoryWire,
    Weather,
    byte_wire_pair,
    message_wire_pair,
)

THREADS_TAKE: Final = 0.02
"""Seconds of real time without anything to do after which the clock jumps, where there are threads."""

SAMPLED: Final = 40
"""After so many steps the gauges are read once more."""

SETTINGS: Final[dict[Wire, dict[str, Any]]] = {
    "json": {"json_only": True},
    "stateless": {"stateless": True},
    "sse": {"sse": True},
}


class _Order(random.Random):
    """Shuffles the tasks of one run that are ready: not those of a run in another thread, which takes nothing from it.

    Nor Trio's own task, which whatever else happens in the process may wake.
    """

    def __init__(self, seed: int, others: random.Random) -> None:
        super().__init__(seed)
        self._others = others
        self._thread = get_ident()

    def shuffle(self, x: MutableSequence[Any]) -> None:
        if get_ident() != self._thread:
            self._others.shuffle(x)
            return
        own = [task for task in x if is_of_trio(task)]
        rest = [task for task in x if not is_of_trio(task)]
        super().shuffle(rest)
        x[:] = own + rest


@contextmanager
def ordered_by(seed: int) -> Generator[None]:
    """Let a seed decide in which order Trio runs tasks that are ready at once, and how long is waited by chance.

    Trio has no public way. These two names are what its own plugin for Hypothesis sets, and pytest-trio.
    """
    scheduler: Any = trio_run
    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r, random.getstate()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    scheduler._r = _Order(seed, scheduler._r)
    random.seed(seed)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = before[:2]
        random.setstate(before[2])


def play(program: Program, *, disturbed: bool = False) -> list[dict[str, Any]]:
    """Play a program in a run of its own, and return what happened.

    Args:
        program: The program.
        disturbed: Whether something in the process wakes Trio again and again meanwhile.
    """
    threads = has_threads(program)
    clock = trio.testing.MockClock(autojump_threshold=THREADS_TAKE if threads else 0)
    log = Log(clock.current_time)
    world = World(program, log, server=server_with(program.limits, layers=layers_of(program)))
    if threads:
        jump = clock._autojump
        setattr(clock, "_autojump", lambda: None if world.threads else jump())  # noqa: B010 - it is Trio's
    log.add("begin", **begin_of(program))
    with ordered_by(program.seed), playing(world):
        trio.run(_main, program, world, disturbed, clock=clock)
    return log.events


def _disturb(token: trio.lowlevel.TrioToken) -> None:
    with suppress(trio.RunFinishedError):
        while True:
            token.run_sync_soon(int, idempotent=True)


async def _main(program: Program, world: World, disturbed: bool) -> None:
    if disturbed:
        Thread(target=_disturb, args=(trio.lowlevel.current_trio_token(),)).start()
    tasks = Tasks()
    trio.lowlevel.add_instrument(tasks)
    game = _Game(program, world, tasks)
    tasks.every(SAMPLED, game.sample)
    try:
        if program.is_http:
            await _over_http(game)
        elif program.wire == "websocket":
            await _over_websockets(game)
        else:
            await _over_channels(game)
        world.log.add("over", tasks=tasks.names())
    finally:
        trio.lowlevel.remove_instrument(tasks)


@final
class _Game:
    """A program that is played."""

    def __init__(self, program: Program, world: World, tasks: Tasks) -> None:
        self.program = program
        self.world = world
        self.log = world.log
        self.rng = random.Random(f"wire {program.seed}")
        self.players = [Player(number, plan, world, tasks) for number, plan in enumerate(program.clients)]
        self.pools: Any = None
        assert world.server is not None
        self.server: Server[Any] = world.server

    def weather(self, player: Player, again: int = 0) -> Weather:
        """Return what is to befall the wire of a client; another one for each connection that it makes."""
        chance = random.Random(f"wire {self.program.seed} {player.number}{f' {again}' if again else ''}")
        return Weather(self.log, player.number, chance, again)

    def sample(self) -> None:
        """Note what the gauges say."""
        gauges: dict[str, Any] = {}
        for player in self.players:
            if player.client is not None:
                now = player.client.statistics()
                gauges[f"client {player.number}"] = [now.calls, now.exchanges, now.waiting, now.outbox_bytes]
        if self.pools is not None:
            kept = self.pools()
            gauges["kept"] = {name: [pool.lent, pool.most] for name, pool in kept.items() if pool.lent}
        self.log.add("gauges", **gauges)

    def note_kept(self, kept: Any, **more: Any) -> None:
        """Note what a server still keeps when its clients have gone."""
        left = {name: [pool.lent, pool.clients] for name, pool in kept.items() if pool.lent or pool.clients}
        self.log.add("kept", left=left, **more)

    async def befall(
        self, plan: Client, weathers: Sequence[Weather], http: tuple[HttpWire, _Http] | None = None
    ) -> None:
        """Let happen to a client's present wire, the last of several, what the program says."""
        begin = trio.current_time()
        for fault in fault_order(plan):
            await trio.sleep_until(begin + fault.at)
            if not weathers:
                continue  # there is none yet
            weather = weathers[-1]
            match fault.kind:
                case "stall":
                    weather.stall(fault.end, fault.seconds)
                case "cut":
                    weather.cut()
                case "break":
                    if http is not None:
                        self.log.add("break", conn=weather.conn)
                        http[0].break_streams()
                case "restart":
                    if http is not None:
                        self.log.add("restart", conn=weather.conn, crash=not fault.seconds)
                        await http[1].restart(crash=not fault.seconds)
                case _:
                    assert_never(fault.kind)

    async def end_server(self, shutdowns: list[Shutdown], scopes: list[trio.CancelScope]) -> None:
        """End the server when the program says so."""
        if not self.program.ends_at:
            return
        await trio.sleep(self.program.ends_at)
        self.log.add("server-ending", how=self.program.end)
        match self.program.end:
            case "abort":
                for shutdown in shutdowns:
                    shutdown.abort()
            case "drain":
                for shutdown in shutdowns:
                    shutdown.drain()
            case "cancel":
                for scope in scopes:
                    scope.cancel(reason="the server is ended")
            case _:
                assert_never(self.program.end)


# ---- memory, messages, lines, sockets ----

PORT: Final = 1_000
"""Where the server is for the first client; those of others are behind it."""


def _channels(game: _Game, weather: Weather) -> tuple[Channel, Channel]:
    if game.program.wire == "memory":
        ours, theirs = memory_channel_pair()
        return MemoryWire(ours, weather, "client"), MemoryWire(theirs, weather, "server")
    if game.program.wire == "messages":
        return message_wire_pair(weather)
    near, far = byte_wire_pair(weather, LineSplitter)
    return StreamChannel(near, near), StreamChannel(far, far)


async def _over_channels(game: _Game) -> None:
    shutdowns: list[Shutdown] = []
    scopes: list[trio.CancelScope] = []

    async def serve(running: Any, player: Player, far: Channel) -> None:
        shutdown, scope = Shutdown(), trio.CancelScope()
        shutdowns.append(shutdown)
        scopes.append(scope)
        how = "return"
        try:
            with scope:
                await running.serve_channel(far, shutdown=shutdown)
        except Exception as error:
            how = repr(error)
        game.log.add("server-ended", conn=player.number, how=how)

    async def live(player: Player, running: Any) -> None:
        await trio.sleep(player.plan.opens_at)
        weathers: list[Weather] = []

        async def connect() -> ByteWire:
            await trio.lowlevel.checkpoint()
            if game.log.has("server-ending"):
                game.log.add("unconnected", conn=player.number, how="refused")
                raise ConnectionRefusedError("no server")
            weathers.append(game.weather(player, len(weathers)))
            game.log.add("connected", conn=player.number, link=weathers[-1].link)
            near, far = byte_wire_pair(weathers[-1], LineSplitter)
            nursery.start_soon(serve, running, player, StreamChannel(far, far))
            return near

        async with trio.open_nursery() as nursery, trio.open_nursery() as faults:
            target: Target
            if game.program.wire == "tcp":
                connects[PORT + player.number] = connect
                target = TcpServerParameters("127.0.0.1", PORT + player.number, restart=True)
            else:
                weathers.append(game.weather(player))
                target, far = _channels(game, weathers[0])
                nursery.start_soon(serve, running, player, far)
            faults.start_soon(game.befall, player.plan, weathers)
            await player.live(target)
            if isinstance(target, Channel) and not player.has_begun:
                await target.aclose()  # a group that is cancelled before it begins takes nothing over
            faults.cancel_scope.cancel()

    connects: dict[int, Callable[[], Awaitable[ByteWire]]] = {}

    # What connects by a policy connects to a socket; the package looks for its descriptor, and a wire has none.
    async def open_tcp_stream(host: str, port: int) -> ByteWire:
        return await connects[port]()

    async with game.server.open() as running:
        game.pools = running.statistics
        with patch.object(trio, "open_tcp_stream", open_tcp_stream):
            async with trio.open_nursery() as ending:
                ending.start_soon(game.world.tell_changes)
                ending.start_soon(game.end_server, shutdowns, scopes)
                async with trio.open_nursery() as nursery:
                    for player in game.players:
                        nursery.start_soon(live, player, running)
                ending.cancel_scope.cancel()
        game.note_kept(running.statistics())
        game.pools = None


# ---- WebSockets ----


@final
class _ServersWire(ConnectionIO):
    """The server's end of a connection of bytes."""

    def __init__(self, stream: ByteWire) -> None:
        super().__init__("127.0.0.1", 30)
        self._stream = stream

    async def start(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self, most: int = 65_536) -> bytes:
        try:
            return await self._stream.receive_some(most)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def send(self, *parts: bytes) -> None:
        try:
            await self._stream.send_all(b"".join(parts))
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError from error

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    def cut(self) -> None:
        self._stream.close()


@asynccontextmanager
async def _websocket(near: ByteWire, game: _Game) -> AsyncGenerator[Channel]:
    """Open the client's end of a WebSocket, as `open_client` does at a URL."""
    channel = WebSocketChannel(
        limits_of(game.program), "the server", wire=StreamWire(near), ping_interval=20, ping_timeout=30
    )

    async def connect(tasks: trio.Nursery, stream: GuardedStream) -> Any:
        return await propose(tasks, stream, "localhost", "/mcp", [], HandshakeAnswer("the server", 1 << 16))

    try:
        async with open_websocket_channel(channel, connect):
            yield channel
    finally:
        near.close()


async def _over_websockets(game: _Game) -> None:
    settings = HttpServerSettings(websocket=True, keep_alive_interval=20)

    async def live(player: Player) -> None:
        await trio.sleep(player.plan.opens_at)
        if has_ended.is_set():
            return
        weather = game.weather(player)
        near, far = byte_wire_pair(weather, FrameSplitter)
        places = ConnectionLimits[ConnectionIO](1_000, 1_000, lambda wire: wire.cut())
        wire = _ServersWire(far)
        places.enter(wire, None)
        connection = lean_connections(endpoint, settings)(wire, places)

        async def serve_one() -> None:
            try:
                await connection.serve()
            finally:
                game.log.add("server-ended", conn=player.number, how="return")

        connections.start_soon(serve_one)
        try:
            async with _websocket(near, game) as channel, trio.open_nursery() as faults:
                faults.start_soon(game.befall, player.plan, [weather])
                await player.live(channel)
                faults.cancel_scope.cancel()
        except Exception as error:  # there was no handshake
            game.log.add("unconnected", conn=player.number, how=repr(error))

    scope, stop, has_ended = trio.CancelScope(), trio.Event(), trio.Event()

    async def serve(task_status: trio.TaskStatus[Any]) -> None:
        try:
            with scope:
                async with (
                    open_endpoint(game.server, settings, only_websockets=True) as endpoint,
                    trio.open_nursery() as connections,
                ):
                    task_status.started((endpoint, connections))
                    await stop.wait()
                    left = endpoint.statistics()
                    game.note_kept(left.kept, sessions=left.websockets, requests=left.requests)
        finally:
            has_ended.set()

    async with trio.open_nursery() as servers:
        endpoint, connections = await servers.start(serve)
        game.pools = lambda: endpoint.statistics().kept
        async with trio.open_nursery() as ending:
            drain: Any = _Drain(endpoint, ending, scope)
            ending.start_soon(game.world.tell_changes)
            ending.start_soon(game.end_server, [drain], [scope])
            async with trio.open_nursery() as nursery:
                for player in game.players:
                    nursery.start_soon(live, player)
            ending.cancel_scope.cancel()
        await _settle()
        stop.set()
        game.pools = None


@final
class _Drain:
    """Ends an endpoint as a `Shutdown` ends a server."""

    def __init__(self, endpoint: Any, nursery: trio.Nursery, scope: trio.CancelScope) -> None:
        self._endpoint, self._nursery, self._scope = endpoint, nursery, scope

    def drain(self) -> None:
        self._nursery.start_soon(self._endpoint.drain)

    def abort(self) -> None:
        self._scope.cancel(reason="aborted")


async def _settle() -> None:
    """Let what is under way come to its end."""
    with trio.CancelScope(shield=True):
        await trio.sleep(GOODBYE + DRAIN)


# ---- HTTP ----


@final
class _Http:
    """A server over HTTP, which can be started anew."""

    def __init__(self, game: _Game, nursery: trio.Nursery) -> None:
        self._game = game
        self._nursery = nursery
        self._streams = 0
        self._stop = trio.Event()
        self._ended = trio.Event()
        self.scope = trio.CancelScope()
        self.wires: list[HttpWire] = []
        self.app: McpASGI | None = None
        self.exchanges: trio.Nursery = nursery

    def next_stream(self) -> int:
        self._streams += 1
        return self._streams

    async def serve_app(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `stop`."""
        settings = HttpServerSettings(**SETTINGS.get(self._game.program.wire, {}))
        app = McpASGI(self._game.server, settings)
        stop, ended, scope = trio.Event(), trio.Event(), trio.CancelScope()
        self._stop, self._ended, self.scope = stop, ended, scope
        try:
            with scope:
                async with trio.open_nursery() as exchanges:
                    try:
                        async with app.running():
                            self.app, self.exchanges = app, exchanges
                            task_status.started()
                            await stop.wait()
                            if self.app is app:
                                self.note(app)
                    finally:
                        if self.app is app:
                            self.app = None  # what comes now is not begun: the nursery ends
                    exchanges.cancel_scope.cancel(reason="the server has ended")
        finally:
            self._game.log.add("server-ended", conn=-1, how="cancelled" if scope.cancelled_caught else "return")
            ended.set()

    def note(self, app: McpASGI) -> None:
        """Note what it keeps."""
        endpoint = app._endpoint
        if endpoint is not None:
            left = endpoint.statistics()
            rest = {"sessions": left.sessions, "requests": left.requests, "standing": left.standing}
            self._game.note_kept(left.kept, reading=left.reading, answering=left.answering, **rest)

    def stop(self) -> None:
        self._stop.set()

    drain = stop

    def abort(self) -> None:
        self.scope.cancel(reason="aborted")

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def restart(self, *, crash: bool) -> None:
        """End the server, and start another one, which knows nothing of this one's sessions."""
        if self.app is None:
            return
        self.app, ended = None, self._ended
        if crash:
            self.scope.cancel(reason="crashed")
            for wire in self.wires:
                wire.break_streams()
        self._stop.set()
        await ended.wait()
        await self._nursery.start(self.serve_app)


async def _over_http(game: _Game) -> None:
    async def live(player: Player, http: _Http) -> None:
        await trio.sleep(player.plan.opens_at)
        weather = game.weather(player)
        has_get = game.program.wire not in {"no-get", "stateless"}
        wire = HttpWire(weather, http, player.plan.damages, has_get=has_get)
        http.wires.append(wire)
        is_sse = game.program.wire == "sse"
        target: Target = HttpServerParameters(
            f"http://localhost/{'sse' if is_sse else 'mcp'}", app=wire, transport="sse" if is_sse else "auto"
        )
        async with trio.open_nursery() as faults:
            faults.start_soon(game.befall, player.plan, [weather], (wire, http))
            await player.live(target)
            faults.cancel_scope.cancel()

    def pools() -> Any:
        endpoint = None if http.app is None else http.app._endpoint
        return {} if endpoint is None else endpoint.statistics().kept

    async with trio.open_nursery() as servers:
        http = _Http(game, servers)
        game.pools = pools
        await servers.start(http.serve_app)
        async with trio.open_nursery() as ending:
            ending.start_soon(game.world.tell_changes)
            ending.start_soon(game.end_server, [cast("Any", http)], [http.scope])
            async with trio.open_nursery() as nursery:
                for player in game.players:
                    nursery.start_soon(live, player, http)
            ending.cancel_scope.cancel()
        await _settle()
        http.stop()
        await http.wait_ended()
        game.pools = None
