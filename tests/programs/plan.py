"""Programs as data: what they are made of, and how a seed becomes one. Knows nothing of Trio or the package."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

import attrs

Transport = Literal["memory", "stdio", "hypercorn", "lean"]
TRANSPORTS: Final[tuple[Transport, ...]] = ("memory", "stdio", "hypercorn", "lean")

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
OLD: Final = "2025-03-26"

FEATURES: Final = (
    "ask", "boom", "crowd", "die", "drain", "leak", "leave", "listen", "log", "look-away", "nested", "progress",
    "request-timeout", "shield", "silence", "slow-progress", "small", "thread", "var",
)  # fmt: skip


@attrs.frozen
class Ask:
    """A question of a handler, and what the client's handler does with it.

    Attributes:
        token: Its name.
        kind: What is asked.
        seconds: How long the answer takes.
        end: How it ends.
        call: What is called, if anything, before that.
    """

    token: str
    kind: Literal["elicit", "sample", "roots"]
    seconds: float = 0.0
    end: Literal["answer", "raise", "decline"] = "answer"
    call: Call | None = None


@attrs.frozen
class Step:
    """One thing that a handler does.

    Attributes:
        kind: What: ``try`` runs `body` and then, whatever happens, `cleanup`; ``shield`` sleeps in a shielded scope;
            ``leak`` leaves a scope open; ``var`` sets a context variable; ``together`` runs `body` in a nursery.
        seconds: How long it sleeps.
        count: How many reports or log messages.
        ask: What is asked.
        body: Steps inside.
        cleanup: Steps of the ``finally``.
    """

    kind: Literal[
        "sleep",
        "progress",
        "log",
        "ask",
        "try",
        "shield",
        "leak",
        "var",
        "tool-error",
        "error",
        "bug",
        "together",
    ]
    seconds: float = 0.0
    count: int = 0
    ask: Ask | None = None
    body: tuple[Step, ...] = ()
    cleanup: tuple[Step, ...] = ()


@attrs.frozen
class Limit:
    """How something is given up: a deadline, an explicit ``cancel()`` after a while, or silence."""

    kind: Literal["move-on", "fail", "cancel", "silence"]
    seconds: float
    at_most: float = 0.0


@attrs.frozen
class Call:
    """A tool call. Its token is unique among all programs of a run."""

    token: str
    script: tuple[Step, ...] = ()
    limit: Limit | None = None
    progress: Literal["none", "fast", "slow"] = "none"
    plain: bool = False


@attrs.frozen
class Pause:
    """A client's task does nothing."""

    seconds: float


@attrs.frozen
class Listen:
    """A client listens to changes for a while."""

    token: str
    uri: str
    seconds: float


@attrs.frozen
class Touch:
    """A resource changes."""

    uri: str


@attrs.frozen
class Ping:
    """Is the server there?"""

    token: str


@attrs.frozen
class Group:
    """Tasks side by side, or one after another.

    Attributes:
        children: What they do.
        together: Whether side by side.
        limit: When all of them are given up.
        boom: After how many seconds a sibling raises.
    """

    children: tuple[Node, ...] = ()
    together: bool = True
    limit: Limit | None = None
    boom: float | None = None


Node = Call | Pause | Listen | Touch | Ping | Group


@attrs.frozen
class LookAway:
    """One end does not read for a while. ``whole`` seconds since the beginning."""

    end: Literal["client", "server"]
    at: float
    seconds: float


@attrs.frozen
class ClientPlan:
    """What one client does.

    Attributes:
        revision: What it speaks.
        phases: What its tasks do, one after another.
        request_timeout: Of `open_client`; 0 for none.
        leave_at: When it is left, whatever its tasks do, since the last phase began; 0 for when they are done.
        leave: How.
        looks_away: When who does not read.
        logs: Whether it wants log messages.
        opens_at: When it begins.
        batches: Whether the wire in memory may deliver several messages at once.
    """

    revision: str
    phases: tuple[Group, ...]
    request_timeout: float = 0.0
    leave_at: float = 0.0
    leave: Literal["return", "raise", "cancel", "aclose"] = "return"
    looks_away: tuple[LookAway, ...] = ()
    logs: bool = False
    opens_at: float = 0.0
    batches: bool = False


@attrs.frozen
class Program:
    """What is played.

    Attributes:
        seed: Where it came from.
        transport: Over what.
        clients: What they do.
        max_inbound: The server's `max_inbound_requests`.
        ends_at: When the server ends by itself; 0 for never.
        end: How.
    """

    seed: int
    transport: Transport
    clients: tuple[ClientPlan, ...]
    max_inbound: int = 100
    ends_at: float = 0.0
    end: Literal["abort", "drain", "cancel"] = "cancel"


def walk_calls(node: Node) -> list[Call]:
    """Return all calls of a node, those of questions' handlers as well."""
    match node:
        case Group():
            return [call for child in node.children for call in walk_calls(child)]
        case Call():
            return [node, *(inner for ask in asks_of(node.script) if ask.call for inner in walk_calls(ask.call))]
        case _:
            return []


def asks_of(script: tuple[Step, ...]) -> list[Ask]:
    """Return the questions of a script."""
    found: list[Ask] = []
    for step in script:
        if step.ask is not None:
            found.append(step.ask)
        found += asks_of(step.body) + asks_of(step.cleanup)
    return found


def kinds_of(script: tuple[Step, ...]) -> set[str]:
    """Return the kinds of steps of a script."""
    found: set[str] = set()
    for step in script:
        found |= {step.kind, *kinds_of(step.body), *kinds_of(step.cleanup)}
    return found


def calls_of(program: Program) -> list[Call]:
    """Return all calls of a program."""
    return [call for client in program.clients for phase in client.phases for call in walk_calls(phase)]


# ---- scripts travel as JSON ----


def to_json(script: tuple[Step, ...]) -> list[dict[str, Any]]:
    """Return a script as plain JSON."""
    return [
        {
            name: value
            for name, value in {
                "kind": step.kind,
                "seconds": step.seconds,
                "count": step.count,
                "ask": None if step.ask is None else ask_to_json(step.ask),
                "body": to_json(step.body),
                "cleanup": to_json(step.cleanup),
            }.items()
            if value
        }
        for step in script
    ]


def ask_to_json(ask: Ask) -> dict[str, Any]:
    """Return a question as plain JSON. What it calls stays with the client."""
    return {"token": ask.token, "kind": ask.kind}


def from_json(script: Collection[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Return the script that was JSON."""
    return tuple(
        Step(
            kind=step["kind"],
            seconds=step.get("seconds", 0.0),
            count=step.get("count", 0),
            ask=Ask(**step["ask"]) if step.get("ask") else None,
            body=from_json(step.get("body", ())),
            cleanup=from_json(step.get("cleanup", ())),
        )
        for step in script
    )


# ---- from a seed ----


class _Maker:
    def __init__(self, seed: int, transport: Transport, without: Collection[str]) -> None:
        self.random = random.Random(f"{seed} {transport}")
        self.seed = seed
        self.transport = transport
        self.scale = 1.0 if transport == "memory" else 0.06
        rare = {"thread": 0.06, "leak": 0.08, "small": 0.25, "crowd": 0.15, "die": 0.06, "drain": 0.06}
        self.features = {
            name for name in FEATURES if name not in without and self.random.random() < rare.get(name, 0.6)
        }
        if "small" in self.features:
            self.features.discard("nested")  # a place is held while another is waited for: a deadlock by design
        self.count = 0
        self.revision = MODERN

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def seconds(self, most: float = 3.0) -> float:
        """Return a duration: often a round one, so that several things happen at the same time."""
        if self.chance(0.5):
            return (
                self.random.choice([value for value in (0.0, 0.1, 0.5, 1.0, 2.0, 3.0) if value <= most])
                * self.scale
            )
        return round(self.random.uniform(0, most) * self.scale, 4)

    def token(self, client: int) -> str:
        self.count += 1
        return f"{client}.{self.seed}.{self.count}"

    def limit(self) -> Limit:
        kind: Any = self.random.choice(
            ("move-on", "fail", "cancel", "silence")
            if "silence" in self.features
            else ("move-on", "fail", "cancel")
        )
        if kind == "silence":
            return Limit("silence", self.seconds() + 0.1 * self.scale, self.seconds() * 2 + 0.2 * self.scale)
        return Limit(kind, self.seconds())

    def step(self, client: int, depth: int) -> Step:
        wanted = ["sleep", "sleep", "sleep"]
        wanted += [name for name in ("progress", "log", "ask", "ask", "shield", "var") if name in self.features]
        wanted += ["try", "together"] if depth == 0 else []
        kind: Any = self.random.choice(wanted)
        match kind:
            case "progress" | "log":
                return Step(kind, count=self.random.choice((1, 2, 5, 20)))
            case "ask":
                return Step("ask", ask=self.ask(client, depth))
            case "shield":
                return Step("shield", self.seconds(1.0))
            case "try":
                cleanup = [Step("sleep", self.seconds(1.0))]
                if "shield" in self.features:
                    cleanup.insert(0, Step("shield", self.seconds(1.0)))
                if "progress" in self.features and self.chance(0.3):
                    cleanup.insert(0, Step("progress", count=2))
                if "ask" in self.features and self.chance(0.2):
                    cleanup.insert(0, Step("ask", ask=self.ask(client, 2)))
                return Step("try", body=self.steps(client, depth + 1), cleanup=tuple(cleanup))
            case "together":
                return Step("together", body=self.steps(client, depth + 1))
            case "var":
                return Step("var")
            case _:
                return Step("sleep", self.seconds())

    def ask(self, client: int, depth: int) -> Ask:
        kinds: tuple[Literal["elicit", "sample", "roots"], ...] = (
            ("sample", "roots") if self.revision == OLD else ("elicit", "sample", "roots")
        )
        kind = self.random.choice(kinds)
        call = None
        if "nested" in self.features and depth < 2 and kind != "roots" and self.chance(0.3):
            call = Call(
                self.token(client),
                tuple(Step("sleep", self.seconds(1.0)) for _ in range(self.random.randrange(2))),
            )
        return Ask(
            self.token(client),
            kind,
            self.seconds() if self.chance(0.6) else 0.0,
            "answer" if self.chance(0.8) or kind == "roots" else self.random.choice(("raise", "decline")),
            call,
        )

    def steps(self, client: int, depth: int = 0) -> tuple[Step, ...]:
        return tuple(self.step(client, depth) for _ in range(self.random.randint(0, 3)))

    def call(self, client: int) -> Call:
        script = self.steps(client)
        if self.chance(0.15):
            script = (*script, Step(self.random.choice(("tool-error", "error", "bug"))))
        if "leak" in self.features and self.chance(0.3):  # last, so that a handler is not cancelled by its own
            script = (*script, Step("leak", self.seconds()))
        progress: Literal["none", "fast", "slow"] = "none"
        if "progress" in self.features:
            progress = self.random.choice(
                ("none", "fast", "slow") if "slow-progress" in self.features else ("none", "fast")
            )
        plain = "thread" in self.features and self.chance(0.3)
        return Call(self.token(client), script, self.limit() if self.chance(0.5) else None, progress, plain=plain)

    def node(self, client: int, depth: int) -> Node:
        if depth < 2 and self.chance(0.3):
            return self.group(client, depth + 1)
        if "listen" in self.features and self.chance(0.15):
            uri = f"x://{self.random.randrange(3)}"
            return Listen(self.token(client), uri, self.seconds()) if self.chance(0.5) else Touch(uri)
        if self.chance(0.15):
            return Pause(self.seconds())
        if self.chance(0.06):
            return Ping(self.token(client))
        return self.call(client)

    def group(self, client: int, depth: int) -> Group:
        size = self.random.randint(1, 4)
        if depth == 0 and "crowd" in self.features:
            size = 25
        return Group(
            tuple(self.node(client, depth) for _ in range(size)),
            together=self.chance(0.7),
            limit=self.limit() if depth and self.chance(0.4) else None,
            boom=self.seconds() if "boom" in self.features and depth and self.chance(0.2) else None,
        )

    def client(self, number: int) -> ClientPlan:
        self.revision = self.random.choice((MODERN, MODERN, LEGACY, LEGACY, OLD))
        plan = ClientPlan(
            self.revision, (self.group(number, 0),), logs="log" in self.features, batches=self.chance(0.3)
        )
        if "request-timeout" in self.features and self.chance(0.3):
            plan = attrs.evolve(
                plan, request_timeout=self.seconds() + 0.5 * self.scale + (0 if self.scale == 1 else 0.5)
            )
        if "leave" in self.features and self.chance(0.5):
            how: Any = self.random.choice(("return", "raise", "cancel", "aclose"))
            plan = attrs.evolve(plan, leave_at=self.seconds() + 0.01 * self.scale, leave=how)
        if "look-away" in self.features and self.chance(0.6):
            away = [
                LookAway(self.random.choice(("client", "server")), self.seconds(4.0), self.seconds(4.0))
                for _ in range(self.random.randint(1, 3))
            ]
            plan = attrs.evolve(plan, looks_away=tuple(away))
        if number:
            plan = attrs.evolve(plan, opens_at=self.seconds())
        return plan


def make_program(seed: int, transport: Transport, without: Collection[str] = ()) -> Program:
    """Return the program of a seed."""
    maker = _Maker(seed, transport, without)
    clients = 1 if transport == "stdio" or maker.chance(0.7) else maker.random.randint(2, 3)
    program = Program(seed, transport, tuple(maker.client(number) for number in range(clients)))
    if "small" in maker.features:
        program = attrs.evolve(program, max_inbound=maker.random.randint(1, 4))
    if transport != "stdio" and maker.features & {"die", "drain"}:
        end: Any = "drain" if "drain" in maker.features else maker.random.choice(("abort", "cancel"))
        program = attrs.evolve(program, ends_at=maker.seconds() + 0.5 * maker.scale, end=end)
    return program
