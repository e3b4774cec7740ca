"""Every limit of the library, with its name, unit and default, and the checks of numbers and options given."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache
from inspect import unwrap
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, final, get_args, get_origin, is_typeddict

import attrs

from ._printable import shown

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_WHOLE: Final = 2**63 - 1
"""The largest whole number that is accepted: more than there is of anything, and what databases can hold."""

MAX_SECONDS: Final = 2**53 // 1000
"""The longest duration that is sent to a peer, in seconds. In milliseconds, every JSON library can read it."""


def check_whole(name: str, value: object, *, at_least: int = 1) -> int:
    """Return a whole number, such as a count or a size.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is too small, or larger than `MAX_WHOLE`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, not {value!r}")
    if value > MAX_WHOLE:
        raise ValueError(f"{name} must be less than 2**63")
    return value


MAX_PORT: Final = 65_535


def check_port(value: object, *, at_least: int = 1) -> None:
    """Check a port; 0, which is any that is free, is one to listen on only.

    Raises:
        TypeError: It is no whole number.
        ValueError: There is no such port.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"port must be a whole number from {at_least} to {MAX_PORT}, not {shown(value)}")
    if not at_least <= value <= MAX_PORT:
        raise ValueError(f"port must be {at_least} to {MAX_PORT}, not {shown(value)}")


def check_number(name: str, value: object, *, what: str = "number", is_finite: bool = True) -> float:
    """Return a number, which may be negative.

    Args:
        name: Its name, for errors.
        value: The number.
        what: Its kind, for errors, such as ``number of seconds``.
        is_finite: Whether infinities are refused.

    Raises:
        TypeError: It is no number.
        ValueError: It is not a number in the sense of IEEE 754, larger than a float can be, or infinite.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a {what}, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a {what} that a float can hold") from None
    if is_finite and not math.isfinite(number):
        raise ValueError(f"{name} must be a finite {what}, not {value!r}")
    if math.isnan(number):
        raise ValueError(f"{name} must be a {what}, not {value!r}")
    return value


def check_seconds(name: str, value: object, *, may_be_zero: bool = True, is_told: bool = False) -> float:
    """Return a duration.

    Args:
        name: Its name, for errors.
        value: The duration, in seconds.
        may_be_zero: Whether it may be 0.
        is_told: Whether it is sent to a peer, in JSON, which has no infinity. Otherwise ``math.inf`` means never.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, or 0 where that is not allowed; not a number, or too large.
    """
    rule = "at least 0" if may_be_zero else "more than 0"
    if is_told:
        rule = f"a finite number of seconds, {rule} and at most {MAX_SECONDS}"
    most = MAX_SECONDS if is_told else math.inf
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{name} must be {rule}, not {value!r}")
    seconds = check_number(name, value, what="number of seconds", is_finite=False)
    if not 0 <= seconds <= most or not (seconds or may_be_zero):
        raise ValueError(f"{name} must be {rule}, not {value!r}")
    return seconds


_INSTEAD: Final = {
    "headers": "write HttpServerParameters(url, headers=...) in place of the URL",
    "timeout": "write 'with trio.fail_after(seconds):' around it, or open_client(request_timeout=...) for all",
}
"""What to write in place of options that others have."""


def refuse_unknown(options: Mapping[str, object], known: type[Any]) -> None:
    """Refuse misspelt options, which Python accepts where options are ``**options``.

    Args:
        options: The given options.
        known: The `TypedDict` of the known ones.

    Raises:
        TypeError: An option is unknown.
    """
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        if unknown <= _INSTEAD.keys():
            raise TypeError(
                f"there is no option {names}: {'; '.join(_INSTEAD[name] for name in sorted(unknown))}"
            )
        raise TypeError(f"there is no option {names}; see {known.__name__}: {', '.join(known.__annotations__)}")


def check_options(options: Mapping[str, object], known: type[Any]) -> None:
    """Refuse options that are misspelt, or of another type; see `refuse_unknown` and `check_given`."""
    refuse_unknown(options, known)
    check_given(known, options)


# What is given, compared with its hints
#
# The hints are what type checkers read, so no second list can say something else. Compared are kinds, those of
# items too: what shows at once that something else was meant. Numbers are not, for each has a check that knows
# its bounds; nor are options whose own checks say more. Where something is done for each request, this is called
# when it has failed, and costs nothing before.

_EXPLAINED: Final = frozenset(
    ("era", "http", "lifespan", "log_level", "messages", "policy", "rate", "scopes", "target", "ui")
)


def check_given(owner: Any, given: Mapping[str, object]) -> None:
    """Refuse what is of another kind than its hint says, for those whose programs are not checked.

    Args:
        owner: The function, or the class of its options.
        given: What it is given, by name; what it has no hint for is not looked at.

    Raises:
        TypeError: Something is of another kind: the text has its name, what is wanted, and what was found.
        ValueError: It is none of the texts that it can be.
    """
    for name, hint in _hints_of(unwrap(owner)).items():
        if name in given and name not in _EXPLAINED:
            check_kind(name, given[name], hint)


def check_kind(name: str, given: object, hint: Any) -> None:
    """Refuse what is of another kind than a hint says; see `check_given`."""
    if _fits(given, hint):
        return
    wanted = _wanted(hint)
    found = _found(given, with_items=" in a " in wanted)
    if isinstance(given, str) and "'" in wanted:
        raise ValueError(f"{name} takes {wanted}, not {given!r:.60}")
    instead = f": write {name}=[...]" if " in a list" in wanted and " of " not in found else ""
    if hasattr(given, "__aenter__"):
        instead = f": write 'async with ... as it' around it, and {name}=it"
    raise TypeError(f"{name} takes {wanted}, not {found}{instead}")


@cache
def _hints_of(owner: Any) -> Mapping[str, Any]:
    hints: dict[str, Any] = {}
    parts = [part for part in getattr(owner, "__mro__", (owner,)) if hasattr(part, "__annotations__")]
    for part in reversed(parts):
        for name, hint in part.__annotations__.items():
            text = hint if isinstance(hint, str) else getattr(hint, "__forward_arg__", None)
            module = getattr(hint, "__forward_module__", None) or part.__module__
            home = getattr(part, "__globals__", None) or vars(sys.modules[module])
            with suppress(NameError, SyntaxError):  # what is imported for type checkers alone, and '*args'
                hints[name] = hint if text is None else eval(text, home)  # noqa: S307 - our own
    return hints


def _fits(value: object, hint: Any) -> bool:
    kind, args = get_origin(hint) or hint, get_args(hint)
    items: Any = value
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in args)
    if kind is Literal or kind is None:
        return value in (args or (None,))
    if not isinstance(kind, type) or kind in (Any, int, float):
        return True
    if args and get_origin(args[-1]) is AbstractAsyncContextManager:  # a function: what it returns can be called
        return callable(value) and isinstance(value, type) is hasattr(value, "__aenter__")
    if kind is tuple and Ellipsis not in args:
        return isinstance(value, tuple) and len(items) == len(args) and all(map(_fits, items, args))
    kind = dict if is_typeddict(kind) else kind
    if getattr(kind, "_is_protocol", False) and kind.__module__ != Iterable.__module__:
        names = [name for name in vars(kind) if name == "__call__" or name[0] != "_"]
        is_class = isinstance(value, type) and "__call__" not in names
        return not is_class and all(hasattr(value, name) for name in names)
    if kind is Iterable or not args or not isinstance(value, Collection):  # an iterator is looked at once
        return isinstance(value, Iterable if kind in (Sequence, Collection) else kind)
    if not isinstance(value, Mapping) and isinstance(value, Iterable if kind in (Sequence, Collection) else kind):
        item = str if get_origin(args[0]) is Literal else args[0]  # which texts there may be, another check knows
        return not isinstance(value, (str, bytes)) and all(_fits(each, item) for each in items)
    of_key, *of_value = args
    members = of_value and isinstance(value, Mapping)
    return isinstance(value, kind) and all(
        _fits(each, of_value[0] if members else of_key) for each in (items.values() if members else items)
    )


def _wanted(hint: Any) -> str:
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(_wanted(each) for each in args if each is not NoneType))
    if kind is Literal:
        return " or ".join(map(repr, args))
    if kind.__name__ == "tuple" and args and Ellipsis not in args:
        return f"({', '.join(map(_wanted, args))})"
    if kind is Callable or "__call__" in vars(kind):
        return "a function"
    if issubclass(kind, Mapping):
        return "a mapping" if not args or args[1] in (Any, object) else f"{_wanted(args[1])} by name in a mapping"
    if args and issubclass(kind, Iterable):
        return f"{_wanted(args[0])} in a list"
    name, home = kind.__name__, kind.__module__
    ours = f"types.{name}(...)" if home == "trio_mcp.types" else f"{name}(...)"
    return getattr(kind, "_wanted", ours if home.startswith("trio_mcp") else name)


def _found(given: Any, *, with_items: bool) -> str:
    kind, items = type(given).__name__.replace("NoneType", "None"), given
    if isinstance(given, type):
        return f"the class {given.__name__}"
    if not with_items or not isinstance(given, Collection) or isinstance(given, (str, bytes)):
        return kind
    members = items.values() if isinstance(given, Mapping) else items
    inner = ", ".join(dict.fromkeys(type(each).__name__ for each in members))
    return f"{kind} of {inner}" if inner else kind


def valid_kind(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check a field by its hint; see `check_given`."""
    owner: Any = type(instance)
    check_kind(attribute.name, value, _hints_of(owner)[attribute.name])


def valid_size(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_whole(attribute.name, value)


def valid_count(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_whole(attribute.name, value, at_least=0)


def valid_seconds(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_seconds(attribute.name, value)


def valid_positive(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_seconds(attribute.name, value, may_be_zero=False)


def _size(default: int) -> int:
    return attrs.field(default=default, validator=valid_size)


def _seconds(default: float) -> float:
    return attrs.field(default=default, validator=valid_seconds)


def _positive(default: float) -> float:
    return attrs.field(default=default, validator=valid_positive)


@final
@attrs.frozen(kw_only=True)
class Limits:
    """What one connection may cost. Every queue, buffer, table and wait is bounded by one of these.

    Sizes are bytes, durations are seconds; ``math.inf`` means "never" for a duration.

    Attributes:
        max_message_bytes: The largest message that is received or sent. A larger line costs only itself: the
            request it held is refused, or the request it answered fails, and the connection goes on.
        max_decoded_bytes: What one received message may take in memory once it is decoded, by an estimate that
            is never too low: ``[]`` takes eighty bytes, and each letter of a text with an emoji in it four. A
            message that takes more is treated like one that is too large, and not decoded. Also what the pages of
            one list may take together that a client reads in one go (``await client.list_tools()``).
        max_inbound_requests: Requests of the peer that are served at once. Further requests wait, unstarted;
            answers, cancellations and pings still get through. Also of the questions that come with one modern
            result.
        max_inbound_bytes: What the requests being served may take in memory together, as they came and decoded,
            before further ones wait. Also what a client keeps over HTTP of responses that have not come to their
            end, as bytes, before it reads only the oldest of them on.
        max_waiting_bytes: What the waiting requests may weigh together, as they came, each with 256 bytes for
            itself. When it is exceeded, reading pauses until there is room, but for no longer than
            `slow_consumer_timeout`, and not at all while a question of ours is open. From then on, until at most
            half of it is taken, reading goes on, and requests that find no room are refused with ``SERVER_BUSY``:
            so answers, cancellations and pings get through.
        max_subscriptions: What one connection may be subscribed to: how many ``subscriptions/listen`` requests it
            has open and how many resources these name, together; and how many resources a session of the
            legacy era has subscribed to. Further subscriptions are refused. Requests that stand open like this
            are not among `max_inbound_requests`.
        max_subscription_bytes: What the ``subscriptions/listen`` requests of one connection, or over HTTP of one
            client, may take in memory together, as they came and decoded; and what the URIs weigh that a session
            of the legacy era has subscribed to.
        max_batch_messages: Messages in one batch, where the revision has batches. A larger one is refused whole.
        max_outbound_requests: Requests of ours without an answer, but for those that were given up. Further
            callers wait for their turn.
        max_outbox_bytes: What may lie ready to be written before senders wait. When what cannot wait (answers to
            pings, refusals, cancellations) exceeds it alone, because the peer does not read, nothing of the peer
            is read either until it does.
        max_notifications: Notifications received and not yet handled: of the progress of each call that wants it,
            and of all others together.
        max_notification_bytes: What they may take in memory: the progress of all calls together, and all others.
        max_client_info_bytes: The size of the capabilities and ``clientInfo`` of a client that begins a
            connection of the legacy era, together, as JSON. They are kept as long as the connection.
        max_announcements: Notifications of `Server.notify` that wait for one session to read them; the oldest
            goes for a new one.
        max_announcement_bytes: What they may weigh together, as they are sent.
        max_kept_bytes: What a server keeps for all its clients together may weigh in memory: bodies being read,
            requests being served, answers not yet read, sessions, parked handlers, subscriptions, stored events.
            Beyond it, what is new is refused with ``SERVER_BUSY``. One client gets at most as much as is left to
            all others.
        max_kept_bytes_per_principal: The same, for one client: a principal, or an address without authentication.
        slow_consumer_timeout: How long a full line of notifications holds up reading before the oldest of what
            can be merged or dropped goes; how long waiting requests hold it up before further ones are refused
            (`max_waiting_bytes`); how long a lost connection's calls may go on handling progress that has come;
            and how long a stuck sink holds up reading a server's standard error before lines are dropped.
        connect_timeout: From opening the transport until both sides have agreed on a revision.
        discover_timeout: How long a server may leave ``server/discover`` unanswered before it counts as one of
            the legacy era. It is part of `connect_timeout`, and has no effect if the server must be modern.
        goodbye_timeout: How long leaving a connection may wait for the peer to take the last messages.
        drain_timeout: How long handlers may finish after the server was asked to stop; and how long the lifespan
            may still take to begin when the only client has ended its input meanwhile.
        lifespan_timeout: How long the lifespan may take to end when the only client has gone. It does not apply
            if the server was asked to stop, because then it can be asked again.
        terminate_timeout: How long a server process may take to exit after its input was closed, and again
            after it was asked to terminate, before it is killed.
        max_threads: Tools and resources written as plain functions, and files, that threads run and read at once,
            per server and run of Trio. Threads that wait for an answer of their client are not counted. Over HTTP
            one client gets three quarters of those that others have left. A place that becomes free goes to the
            client that has fewest of those that wait.
        max_asking_threads: Threads that wait for an answer of their client, per server and run of Trio, and those
            that go on after such a wait was cancelled. One client gets no more than are left to others. Further
            questions of plain functions are refused with ``SERVER_BUSY``.
        thread_timeout: How long the call of a plain function waits for a thread while all of them are still busy
            with calls that were given up, before it is refused.
        max_parked: Handlers that wait for their client between two of its requests, per running server. For a
            further one the one that is parked for longest is cancelled, and its state is refused as expired.
        max_parked_per_principal: The same, for one client: a principal, an address without authentication, or a
            connection. Further ones are refused with ``SERVER_BUSY``.
        max_parked_notification_bytes: What the notifications may weigh in memory that are kept for one such
            handler, up to `max_notifications` of them; the oldest go for new ones.
        parked_timeout: How long such a handler waits before it is cancelled, and how long its state is good for;
            more than 0.
        max_tasks: Tasks that a running server keeps, those that have ended included, until their ``ttl`` is over.
            A further one is refused with ``SERVER_BUSY``, or answered without a task if it need not be one. None
            is dropped before its time.
        max_tasks_per_principal: The same, for one client: a principal, an address without authentication, or a
            connection.
        max_task_result_bytes: The largest result of a task, as JSON; a task with a larger one fails.
        max_used_states: States that a server remembers as used until they expire, for all clients, where they are
            good for one request only (`Server`, ``single_use_states``). One client may have half of what is left
            to others. A request with a further one is refused with ``SERVER_BUSY``; none is forgotten before.
        max_request_state_bytes: What a state may weigh that the client carries from one request to the next.
        max_input_rounds: How often one request may ask for input before it fails.
        max_uri_length: Characters of a URI that a client asks for.
        max_file_bytes: The largest file that is read for a resource or a tool's result.
        max_listed_files: Files of one directory that are listed as resources; the others can still be read.
        max_scanned_files: Files and folders of one directory that are looked at to find those.
        max_pages: Pages of one list that a client reads before it takes the server to be broken.
        max_open_elicitations: Elicitations by URL that a client remembers until their end is reported.
        max_upstreams: Connections of a running `Proxy` to its server, for all clients. For a further one the one
            ends that is idle for longest; if all are in use, it is refused with ``SERVER_BUSY``.
        max_upstreams_per_principal: The same, for one client: a principal, an address without authentication, or
            a connection.
        upstream_idle_timeout: How long such a connection is kept for clients without a session (from 2026-07-28
            on) while no request needs it; twice as long at most.
        listen_timeout: How long a server may take to grant a subscription that the client renews by itself.
        max_events: Different changes that may wait for one listener of a client. They may take as much memory as
            `max_notification_bytes` says.
        max_cache_entries: Results that a client keeps.
        max_cache_bytes: What the results that a client keeps may take in memory together.
        cache_timeout: How long a client keeps a result at most, even if the server allows longer.
        max_remembered_bytes: What a client may remember of its server, in memory: up to a half for what tools
            promise of their outputs (`max_known_tools`), a quarter for the server's description of itself when
            they agree on a revision, and an eighth each for arguments that go into header fields over HTTP, and
            for `max_open_elicitations`. What was listed or asked first is forgotten first; a server with a larger
            description is refused.
        max_known_tools: Tools whose output schema a client remembers from listing them.
        max_schema_bytes: The largest output schema that a client checks results against, as JSON. It may nest 100
            levels deep, and going through it must not take more than 100,000 steps.
    """

    max_message_bytes: int = _size(16 * MIB)
    max_decoded_bytes: int = _size(128 * MIB)
    max_inbound_requests: int = _size(100)
    max_inbound_bytes: int = _size(64 * MIB)
    max_waiting_bytes: int = _size(16 * MIB)
    max_subscriptions: int = _size(1_000)
    max_subscription_bytes: int = _size(8 * MIB)
    max_batch_messages: int = _size(1_000)
    max_outbound_requests: int = _size(1_000)
    max_outbox_bytes: int = _size(1 * MIB)
    max_notifications: int = _size(1_000)
    max_notification_bytes: int = _size(16 * MIB)
    max_client_info_bytes: int = _size(64 * KIB)
    max_announcements: int = _size(1_000)
    max_announcement_bytes: int = _size(1 * MIB)
    max_kept_bytes: int = _size(256 * MIB)
    max_kept_bytes_per_principal: int = _size(128 * MIB)
    slow_consumer_timeout: float = _seconds(1.0)
    connect_timeout: float = _seconds(30.0)
    discover_timeout: float = _seconds(5.0)
    goodbye_timeout: float = _seconds(2.0)
    drain_timeout: float = _seconds(5.0)
    lifespan_timeout: float = _seconds(30.0)
    terminate_timeout: float = _seconds(2.0)
    listen_timeout: float = _seconds(30.0)
    max_events: int = _size(1_000)
    max_cache_entries: int = _size(1_000)
    max_cache_bytes: int = _size(32 * MIB)
    cache_timeout: float = _seconds(86_400.0)
    max_remembered_bytes: int = _size(64 * MIB)
    max_known_tools: int = _size(10_000)
    max_schema_bytes: int = _size(256 * KIB)
    max_threads: int = _size(40)
    max_asking_threads: int = _size(250)
    thread_timeout: float = _seconds(5.0)
    max_parked: int = _size(10_000)
    max_parked_per_principal: int = _size(1_000)
    max_parked_notification_bytes: int = _size(1 * MIB)
    parked_timeout: float = _positive(600.0)
    max_tasks: int = _size(10_000)
    max_tasks_per_principal: int = _size(1_000)
    max_task_result_bytes: int = _size(8 * MIB)
    max_used_states: int = _size(100_000)
    max_request_state_bytes: int = _size(64 * KIB)
    max_input_rounds: int = _size(10)
    max_uri_length: int = _size(8 * KIB)
    max_file_bytes: int = _size(8 * MIB)
    max_listed_files: int = _size(1_000)
    max_scanned_files: int = _size(50_000)
    max_pages: int = _size(10_000)
    max_open_elicitations: int = _size(1_000)
    max_upstreams: int = _size(200)
    max_upstreams_per_principal: int = _size(100)
    upstream_idle_timeout: float = _seconds(300.0)


@final
@attrs.frozen(kw_only=True)
class SocketServerSettings:
    """What the connections of `serve_tcp` and `serve_unix` may cost.

    Durations are seconds; ``math.inf`` means "never". A connection is idle while none of its requests is open,
    not even a subscription.

    Attributes:
        max_connections: Connections at once. Once all are in use, the address with most of them loses one to an
            address with fewer: an idle one at once, and a busy one after a second. If all addresses have as many,
            a new connection replaces the one that has been idle longest, or waits for one. The limit is lower if
            the process may not open so many files.
        max_connections_per_address: The same, of one address (IPv6: one network), of one user at a Unix socket,
            or of one certificate over TLS, once it is known. A new connection replaces that of its own which has
            been idle longest; if none is idle, it is closed.
        message_timeout: How long a connection may take to send a message, from its first byte to its last,
            without the time in which nothing is read because too much waits; and the first message, from the
            beginning of the connection, with the handshake of TLS.
        idle_timeout: How long a connection is kept without a message.
        send_timeout: How long a client may read nothing of what it is sent before its connection is cut.
    """

    max_connections: int = _size(1_000)
    max_connections_per_address: int = _size(500)
    message_timeout: float = _positive(30.0)
    idle_timeout: float = _positive(1_800.0)
    send_timeout: float = _positive(30.0)
