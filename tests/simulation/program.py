"""Programs as data: what they are made of, and how a seed becomes one. Knows nothing of Trio or the package."""
# What is read here is open JSON, or attrs classes of any kind.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
SUMMER: Final = "2025-06-18"
BATCHING: Final = "2025-03-26"
OLDEST: Final = "2024-11-05"

Wire: TypeAlias = Literal[
    "memory", "messages", "lines", "tcp", "websocket", "http", "json", "no-get", "stateless", "sse",
    "stdio", "hypercorn", "lean",
]  # fmt: skip
DUPLEX: Final[tuple[Wire, ...]] = ("memory", "messages", "lines", "tcp", "websocket")
HTTP: Final[tuple[Wire, ...]] = ("http", "json", "no-get", "stateless", "sse")
WIRES: Final[tuple[Wire, ...]] = (*DUPLEX, *HTTP)

REAL: Final[tuple[Wire, ...]] = ("stdio", "hypercorn", "lean")
"""Those with processes and sockets; `tests/nightly/programs` plays over them."""

REVISIONS: Final[dict[Wire, tuple[str, ...]]] = {
    "stateless": (LEGACY, SUMMER, BATCHING),
    "sse": (LEGACY, SUMMER, BATCHING, OLDEST, OLDEST),
    **dict.fromkeys(
        (*DUPLEX, "stdio"), (MODERN, MODERN, MODERN, LEGACY, LEGACY, SUMMER, SUMMER, BATCHING, BATCHING, OLDEST)
    ),
}
"""What is spoken over wires, more often where it is named twice; over others, all but the oldest."""

LIMITS: Final[dict[str, dict[str, Any]]] = {
    "usual": {},
    "places": {"max_inbound_requests": 2},
    "waiting": {"max_inbound_requests": 1, "max_waiting_bytes": 1_500},
    "outbox": {"max_outbox_bytes": 1_000},
    "notices": {"max_notifications": 3},
    "calls": {"max_outbound_requests": 2},
    "parked": {"max_parked": 20, "parked_timeout": 1.5},
    "kept": {"max_kept_bytes_per_principal": 60_000, "max_kept_bytes": 80_000},
    "messages": {"max_message_bytes": 8_000},
    "subscriptions": {"max_subscriptions": 1},
}
"""Small limits, by name. Few, so that their servers need not be made anew for each program."""

What: TypeAlias = Literal["tools", "prompts", "resources", "x://followed", "x://other"]
"""What changes: a list, or a resource."""

WHAT: Final[tuple[What, ...]] = ("tools", "prompts", "resources", "x://followed", "x://other")


@attrs.frozen
class Ask:
    """A question of a handler, and what the client's handler does with it.

    Attributes:
        token: Its name.
        kind: What is asked.
        seconds: How long the answer takes.
        end: How it ends.
        call: What is called meanwhile, if anything.
    """

    token: str
    kind: Literal["elicit", "sample", "roots"] = "roots"
    seconds: float = 0.0
    end: Literal["answer", "raise", "decline"] = "answer"
    call: Do | None = None


@attrs.frozen
class Step:
    """One thing that a handler does.

    Attributes:
        kind: What. ``try`` runs `body` and then, whatever happens, `cleanup`; ``shield`` sleeps and then runs `body` in a shielded scope;
            ``together`` runs `body` in a nursery; ``background`` runs it in a task that outlives the request;
            ``var`` sets a context variable; ``leak`` leaves a cancel scope open; ``change`` tells of a change that
            others may follow; ``announce`` sends all sessions a notification; ``pad`` makes the result large.
        seconds: How long it sleeps.
        count: How many reports, log messages, notifications or bytes.
        ask: What is asked.
        body: Steps inside.
        cleanup: Steps of the ``finally``.
        what: What changes.
    """

    kind: Literal[
        "sleep",
        "progress",
        "log",
        "notify",
        "ask",
        "try",
        "shield",
        "together",
        "background",
        "var",
        "leak",
        "change",
        "announce",
        "pad",
        "tool-error",
        "error",
        "bug",
        "exit",
    ] = "sleep"
    seconds: float = 0.0
    count: int = 0
    ask: Ask | None = None
    body: tuple[Step, ...] = ()
    cleanup: tuple[Step, ...] = ()
    what: What = "tools"


@attrs.frozen
class GiveUp:
    """How something is given up.

    Attributes:
        kind: By a deadline, by `cancel` after a while, after so many steps of any task, by silence, or because
            another task of its nursery raises.
        seconds: After which time; for silence, how long that lasts.
        steps: After how many steps.
        at_most: For silence, the deadline behind it.
    """

    kind: Literal["deadline", "cancel", "steps", "silence", "raise"]
    seconds: float = 0.0
    steps: int = 0
    at_most: float = 0.0


@attrs.frozen
class Do:
    """One thing that a client does, in a task of its own.

    Attributes:
        token: Its name, which nothing else has: it comes back in the answer.
        kind: What: a script is run as a ``tool``, a ``plain`` function in a thread, a tool that has a ``dependency``,
            a ``prompt`` or a ``resource``.
        at: When it begins.
        script: What the handler does.
        give_up: When it is given up.
        progress: What its callback does.
        parts: The calls of a batch.
        pad: How many bytes the request is longer.
        seconds: How long it listens.
        what: To what it listens.
    """

    token: str
    kind: Literal[
        "tool",
        "plain",
        "dependency",
        "prompt",
        "resource",
        "batch",
        "list",
        "ping",
        "level",
        "listen",
        "notify",
        "roots",
    ] = "tool"
    at: float = 0.0
    script: tuple[Step, ...] = ()
    give_up: GiveUp | None = None
    progress: Literal["none", "fast", "slow", "raise"] = "none"
    parts: tuple[Do, ...] = ()
    pad: int = 0
    seconds: float = 0.0
    what: tuple[What, ...] = ("tools",)


@attrs.frozen
class Fault:
    """What befalls the wire.

    Attributes:
        kind: ``stall`` lets nothing through in one direction, ``cut`` breaks the connection, ``break`` breaks all
            streams of responses over HTTP, ``restart`` starts the server of HTTP anew, which then knows no session.
        at: When, since the client began.
        seconds: How long a stall lasts.
        end: Who does not get anything.
    """

    kind: Literal["stall", "cut", "break", "restart"]
    at: float
    seconds: float = 0.0
    end: Literal["client", "server"] = "client"


@attrs.frozen
class Damage:
    """What befalls one request over HTTP, or its response: an `HttpFault` of `trio_mcp.testing`.

    Attributes:
        kind: ``reorder`` lets a POST arrive behind the next one, ``split``, ``corrupt`` and ``half_close`` are of responses.
        at: The number of the request, or POST, from 1.
        size: After how many bytes of the response.
        seconds: How long it lasts; for how long a POST waits for another one at most.
    """

    kind: Literal["reorder", "split", "corrupt", "half_close"]
    at: int = 1
    size: int = 0
    seconds: float = 0.0


@attrs.frozen
class Client:
    """What one client does.

    Attributes:
        revision: What it speaks.
        does: What its tasks do.
        opens_at: When it begins.
        leave_at: When it is left, whatever its tasks do; 0 for when they are done.
        leave: How.
        outside: Whether its tasks outlive the block, so that leaving alone ends their calls.
        request_timeout: Of `open_client`; 0 for none.
        faults: What befalls its wire.
        slow: Whether its callbacks for notifications are slow.
        middleware: Whether its messages go through middleware.
        watches: For changes of what it has callbacks.
        in_group: Whether it is a member of a group of its own.
        hasty: After how many steps of any task it is left if it is still connecting then; 0 for never.
        damages: What befalls single requests over HTTP.
        restarts: When its group closes it and opens it anew, in seconds since it was opened.
    """

    revision: str
    does: tuple[Do, ...]
    opens_at: float = 0.0
    leave_at: float = 0.0
    leave: Literal["return", "raise", "cancel", "aclose"] = "return"
    outside: bool = False
    request_timeout: float = 0.0
    faults: tuple[Fault, ...] = ()
    slow: bool = False
    middleware: bool = False
    watches: tuple[What, ...] = ()
    in_group: bool = False
    hasty: int = 0
    damages: tuple[Damage, ...] = ()
    restarts: tuple[float, ...] = ()


@attrs.frozen
class Change:
    """What the server's author tells of by itself, outside of any request.

    Attributes:
        at: When it begins, since the program began.
        what: What changes; ``announce`` is a notification of our own to all sessions.
        count: How often it is told at once.
    """

    at: float = 0.0
    what: What | Literal["announce"] = "tools"
    count: int = 1


@attrs.frozen
class Program:
    """What is played.

    Attributes:
        seed: Where it came from; it also decides the order of tasks, and how the wire behaves.
        wire: Over what.
        clients: What they do.
        limits: Which of `LIMITS` both ends have.
        ends_at: When the server is ended; 0 for when all clients have gone.
        end: How.
        changes: What changes at the server meanwhile.
    """

    seed: int
    wire: Wire
    clients: tuple[Client, ...]
    limits: str = "usual"
    ends_at: float = 0.0
    end: Literal["abort", "drain", "cancel"] = "cancel"
    changes: tuple[Change, ...] = ()

    @property
    def is_http(self) -> bool:
        """Whether it is played over HTTP."""
        return self.wire in {*HTTP, "hypercorn", "lean"}


Part: TypeAlias = Program | Client | Do | Step | Ask | Fault | Damage | GiveUp | Change


def parts_of(part: Part) -> Iterator[Part]:
    """Yield a part of a program, and all parts inside it."""
    yield part
    for field in attrs.fields(type(part)):
        value: Any = getattr(part, field.name)
        inner: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
        for each in inner:
            if attrs.has(type(each)):
                yield from parts_of(each)


def dos_of(program: Program) -> list[Do]:
    """Return all that clients do, also in answers and batches."""
    return [part for part in parts_of(program) if isinstance(part, Do)]


def kinds_of(program: Program) -> set[str]:
    """Return the kinds of things that a program has."""
    found = {f"limits {program.limits}", f"server {program.end}s" if program.ends_at else "server stays"}
    for client in program.clients:
        found |= {
            f"revision {client.revision}",
            f"leave by {client.leave}" + (" early" if client.leave_at else ""),
        }
        found |= {name for name in ("slow", "middleware", "outside", "in_group") if getattr(client, name)}
        found |= {f"watches {_kind_of(what)}" for what in client.watches}
        if client.request_timeout:
            found.add("request_timeout")
        if client.hasty:
            found.add(f"{'group' if client.in_group else 'client'} left while it connects")
        if client.restarts:
            found.add("member restarted")
    for part in parts_of(program):
        match part:
            case Do():
                found.add(f"do {part.kind}")
                if part.progress != "none":
                    found.add(f"progress callback {part.progress}")
                if part.pad:
                    found.add("large request")
                if part.kind == "listen":
                    found |= {f"listens to {_kind_of(what)}" for what in part.what}
            case Step():
                found.add(f"handler {part.kind}")
            case Change():
                found.add(f"server tells of {_kind_of(part.what)}")
            case Ask():
                found.add(f"ask {part.kind}, {part.end}" + (", nested call" if part.call else ""))
            case Fault():
                found.add(f"wire {part.kind}")
            case Damage():
                found.add(f"wire {part.kind} of a request")
            case GiveUp():
                found.add(f"give up by {part.kind}")
            case _:
                pass
    if len(program.clients) > 1:
        found.add("two clients")
    return found


def _kind_of(what: str) -> str:
    return "a resource" if "://" in what else what


# ---- from a seed ----


class _Maker:
    """Makes one program."""

    def __init__(self, seed: int, wires: Collection[Wire]) -> None:
        self.random = random.Random(f"program {seed}")
        self.seed = seed
        self.wire: Wire = self.random.choice(sorted(wires))
        self.count = 0
        self.revision = MODERN
        self.limits = "usual" if self.chance(0.55) else self.random.choice(sorted(LIMITS))
        self.has_changes = self.chance(0.35)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, **weights: float) -> Any:
        """Return one of some names, by their weights."""
        names = [name.replace("_", "-") for name in weights]
        return self.random.choices(names, weights=list(weights.values()))[0]

    def seconds(self, most: float = 3.0) -> float:
        """Return a duration: often a round one, so that several things happen at the same time."""
        if self.chance(0.6):
            return self.random.choice([each for each in (0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 3.0) if each <= most])
        return round(self.random.uniform(0, most), 3)

    def token(self) -> str:
        self.count += 1
        return f"{self.seed}.{self.count}"

    # -- what handlers do --

    def can_ask(self) -> bool:
        return self.wire != "stateless"

    def steps(self, depth: int = 0) -> tuple[Step, ...]:
        most = 4 if depth == 0 else 2
        return tuple(self.step(depth) for _ in range(self.random.randint(0, most)))

    def step(self, depth: int) -> Step:
        nested = 1.0 if depth < 2 else 0.0
        kind = self.pick(
            sleep=5, progress=2, log=1, notify=0.5, ask=2.5 if self.can_ask() else 0, **{"try": 1.2 * nested},
            shield=0.8, together=0.7 * nested, background=0.5 * nested, var=0.6, change=0.8, announce=0.4, pad=0.4,
        )  # fmt: skip
        match kind:
            case "progress" | "log" | "notify":
                return Step(kind, count=self.random.choice((1, 2, 5, 12)))
            case "ask":
                return Step("ask", ask=self.ask(depth))
            case "shield":
                return Step("shield", self.seconds(1.0), body=self.sayings())
            case "try":
                cleanup = [Step("sleep", self.seconds(1.0))]
                if self.chance(0.5):
                    cleanup = [Step("shield", self.seconds(1.0), body=self.sayings())]
                if self.chance(0.3):
                    cleanup.insert(0, Step("progress", count=2))
                if self.chance(0.2) and self.can_ask():
                    cleanup.insert(0, Step("ask", ask=self.ask(2)))
                return Step("try", body=self.steps(depth + 1), cleanup=tuple(cleanup))
            case "together" | "background":
                body = self.steps(depth + 1)
                if kind == "background":  # a task that outlives its request has nobody to ask
                    body = tuple(Step("sleep", self.seconds(2.0)) for _ in body)
                return Step(kind, body=body)
            case "change":
                return Step("change", count=self.random.choice((1, 1, 3)), what=self.random.choice(WHAT))
            case "announce":
                return Step("announce", count=self.random.choice((1, 2, 5)))
            case "pad":
                return Step("pad", count=self.random.choice((500, 2_000, 20_000)))
            case "sleep":
                return Step("sleep", self.seconds())
            case _:
                return Step(kind)

    def sayings(self) -> tuple[Step, ...]:
        """Return what is said although nobody may be there any more."""
        kinds: tuple[Literal["progress", "log", "notify"], ...] = ("progress", "log", "notify")
        return (Step(self.random.choice(kinds), count=2),) if self.chance(0.4) else ()

    def ask(self, depth: int) -> Ask:
        kinds = {"sample": 1.0, "roots": 1.0, "elicit": 0.0 if self.revision in {BATCHING, OLDEST} else 2.0}
        kind = self.pick(**kinds)
        call = None
        # A place is held while another one is waited for: where there are few, that is a deadlock by design.
        has_places = self.limits not in {"places", "waiting", "calls", "messages", "kept", "parked"}
        if depth < 2 and kind != "roots" and self.chance(0.5) and has_places:
            script = self.steps(depth + 1) if self.chance(0.4) else (Step("sleep", self.seconds(1.0)),)
            call = Do(self.token(), script=script)
        end = "answer" if kind == "roots" or self.chance(0.6) else self.random.choice(["raise", "decline"])
        return Ask(self.token(), kind, self.seconds() if self.chance(0.6) else 0.0, cast("Any", end), call)

    def script(self) -> tuple[Step, ...]:
        script = self.steps()
        if self.chance(0.15):
            script = (*script, Step(self.pick(tool_error=1, error=1, bug=1, exit=0.5)))
        elif self.chance(0.05):
            script = (*script, Step("leak", self.seconds()))
        return script

    # -- what clients do --

    def give_up(self) -> GiveUp | None:
        kind = self.pick(none=6, deadline=2, cancel=1.5, steps=2.5, silence=0.7, **{"raise": 0.7})
        match kind:
            case "none":
                return None
            case "steps":
                return GiveUp("steps", steps=self.random.randint(1, 60))
            case "silence":
                return GiveUp("silence", self.seconds() + 0.1, at_most=self.seconds() * 2 + 0.2)
            case _:
                return GiveUp(kind, self.seconds())

    def do(self) -> Do:
        kind = self.pick(
            tool=10, plain=0.25, dependency=1.2, prompt=1, resource=1, list=1, ping=0.6, level=0.3, listen=1,
            notify=0.8, roots=0.4, batch=2 if self.revision == BATCHING else 0,
        )  # fmt: skip
        at = self.seconds() if self.chance(0.5) else 0.0
        token = self.token()
        match kind:
            case "tool" | "plain" | "dependency" | "prompt" | "resource":
                script = self.script()
                if kind in {"prompt", "resource"}:
                    script = tuple(step for step in script if step.kind != "pad")
                progress = self.pick(none=4, fast=3, slow=1.5, **{"raise": 0.3})
                pad = self.random.choice((600, 5_000)) if self.chance(0.1) else 0
                return Do(token, kind, at, script, self.give_up(), progress, pad=pad)
            case "batch":
                parts = tuple(Do(self.token(), script=self.script()) for _ in range(self.random.randint(1, 4)))
                return Do(token, kind, at, give_up=self.give_up(), parts=parts)
            case "listen":
                return self.listening(token, at)
            case _:
                return Do(token, kind, at, give_up=self.give_up() if self.chance(0.3) else None)

    def listening(self, token: str, at: float) -> Do:
        seconds = self.seconds() + 0.1
        if self.chance(0.7 if self.has_changes else 0.2):
            seconds += 25.0  # so that also what comes late is awaited
        give_up = self.give_up() if self.chance(0.3 if self.has_changes else 0.8) else None
        return Do(token, "listen", at, seconds=seconds, give_up=give_up, what=self.some_of(0.5) or ("tools",))

    def some_of(self, probability: float) -> tuple[What, ...]:
        return tuple(what for what in WHAT if self.chance(probability))

    def changes(self) -> tuple[Change, ...]:
        if not self.has_changes:
            return ()
        what = (*WHAT, "x://followed", "announce", "announce")
        return tuple(
            Change(
                self.seconds() + 0.2, cast("Any", self.random.choice(what)), self.random.choice((1, 1, 1, 2, 10))
            )
            for _ in range(self.random.choice((2, 4, 8, 15)))
        )

    def faults(self) -> tuple[Fault, ...]:
        found: list[Fault] = []
        if self.chance(0.35):
            for _ in range(self.random.randint(1, 3)):
                end = self.random.choice(["client", "server"])
                found.append(Fault("stall", self.seconds(), self.seconds(4.0) + 0.1, cast("Any", end)))
        if self.wire in REAL:
            return tuple(found)
        if self.wire in HTTP:
            if self.chance(0.15):
                found.append(Fault("break", self.seconds() + 0.05))
            if self.chance(0.12):
                found.append(Fault("restart", self.seconds() + 0.05))
        elif self.chance(0.12):
            found.append(Fault("cut", self.seconds() + 0.05))
        return tuple(found)

    def client(self, number: int) -> Client:
        self.revision = self.random.choice(REVISIONS.get(self.wire, (MODERN, MODERN, LEGACY, SUMMER, BATCHING)))
        size = self.random.choice((1, 1, 2, 2, 3, 4, 5)) if self.chance(0.93) else 12
        leaves = self.chance(0.2 if self.has_changes else 0.35)
        leave: Any = self.random.choice(["return", "raise", "cancel", "aclose"]) if leaves else "return"
        does = tuple(self.do() for _ in range(size))
        if self.has_changes:
            at = (0.0, 0.0, 0.5, 1.0)
            listeners = range(self.random.randint(1, 3))
            does += tuple(self.listening(self.token(), self.random.choice(at)) for _ in listeners)
        return Client(
            self.revision,
            does,
            self.seconds() if number else 0.0,
            self.seconds() + 0.01 if leaves else 0.0,
            leave,
            outside=leaves and self.chance(0.5),
            request_timeout=self.seconds() + 0.5 if self.chance(0.08) else 0.0,
            faults=self.faults(),
            slow=self.chance(0.15),
            middleware=self.chance(0.15),
            watches=self.some_of(0.6) if self.chance(0.5 if self.has_changes else 0.1) else (),
        )


def _opened_in_some_way(client: Client, seed: int) -> Client:
    """Return the client in a group, or left before it is connected, if chance wants that; nothing else depends on it."""
    chance = random.Random(f"opening {seed}")
    client = attrs.evolve(client, in_group=chance.random() < 0.2)
    if chance.random() >= 0.12:
        return client
    leave: Any = chance.choice(["return", "raise", "raise", "cancel"])
    hasty = chance.randint(1, chance.choice((10, 60)))  # at first there is something else at each step
    return attrs.evolve(client, hasty=hasty, leave=leave, in_group=chance.random() < 0.6)


def _damaged_by_chance(client: Client, seed: int, number: int) -> Client:
    """Return the client with what befalls its requests over HTTP; nothing else depends on it."""
    chance = random.Random(f"damages {seed} {number}")
    if chance.random() >= 0.3:
        return client
    found: list[Damage] = []
    for _ in range(chance.choice((1, 1, 2, 4))):
        (kind,) = chance.choices(("split", "reorder", "corrupt", "half_close"), (5, 2, 1, 1))
        seconds = chance.choice((0.0, 0.1, 0.5)) if kind == "split" else 1.5 if kind == "reorder" else 0.0
        size = 0 if kind == "reorder" else chance.choice((0, 1, 5, 20, 50, 100, 300))
        found.append(Damage(cast("Any", kind), chance.randint(1, 15), size, seconds))
    return attrs.evolve(client, damages=tuple(found))


def _restarted_by_chance(client: Client, seed: int, number: int) -> Client:
    """Return the client as a member that its group restarts; nothing else depends on it.

    Over sockets: what is a channel cannot be opened again, and over HTTP the ids of another client begin anew where
    no connection tells them from those of the last one.
    """
    chance = random.Random(f"restarts {seed} {number}")
    if chance.random() >= 0.4:
        return client
    times = sorted(chance.choice((0.0, 0.1, 0.5, 1.0, 2.0, 3.0)) for _ in range(chance.choice((1, 1, 2, 3))))
    return attrs.evolve(client, in_group=True, restarts=tuple(times))


def make_program(seed: int, wires: Collection[Wire] = WIRES) -> Program:
    """Return the program of a seed."""
    maker = _Maker(seed, wires)
    clients = tuple(maker.client(number) for number in range(2 if maker.chance(0.12) else 1))
    if maker.wire not in REAL:
        clients = tuple(_opened_in_some_way(client, seed) for client in clients)
    if maker.wire in HTTP:
        clients = tuple(_damaged_by_chance(client, seed, number) for number, client in enumerate(clients))
    if maker.wire == "tcp":
        clients = tuple(_restarted_by_chance(client, seed, number) for number, client in enumerate(clients))
    program = Program(seed, maker.wire, clients, maker.limits, changes=maker.changes())
    if maker.chance(0.12):
        end: Any = maker.random.choice(["abort", "drain", "cancel"])
        program = attrs.evolve(program, ends_at=maker.seconds() + 0.3, end=end)
    return program
