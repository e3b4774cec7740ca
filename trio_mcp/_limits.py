"""The limits that can be set, with names, units and defaults, and the checks of numbers and options given."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache, wraps
from inspect import unwrap
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, final, get_args, get_origin, is_typeddict

import attrs

from ._printable import shown

_T = TypeVar("_T")

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
    if not math.isfinite(number) and (is_finite or math.isnan(number)):
        raise ValueError(f"{name} must be a {'finite ' if is_finite else ''}{what}, not {value!r}")
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
    "max_input_rounds": "write limits=Limits(max_input_rounds=...)",
    "headers": "write HttpServerParameters(url, headers=...) in place of the URL",
    "timeout": "write 'with trio.fail_after(seconds):' around it, or open_client(request_timeout=...) for all",
}
"""What to write in place of options that there were, or that others have."""


def _refuse(words: str, given: Iterable[str], instead: Mapping[str, str]) -> None:
    refused = [f"{words.format(name)}: {instead[name]}" for name in given if name in instead]
    if refused:
        raise TypeError("; ".join(refused))


def without(kind: str, instead: Mapping[str, str]) -> Callable[[type[_T]], type[_T]]:
    """Let a class refuse fields that it had once by a `TypeError` that says what there is instead.

    Args:
        kind: What its fields are, such as ``limit``.
        instead: The names of those that it had, with commas, by what there is instead.
    """
    gone = {name: text for text, names in instead.items() for name in names.split(",")}

    def refusing(cls: type[_T]) -> type[_T]:
        make: Callable[..., None] = cls.__init__

        @wraps(make)
        def init(self: _T, *args: object, **fields: object) -> None:
            _refuse(f"there is no {kind} {{}} any more", fields, gone)
            make(self, *args, **fields)

        cls.__init__ = init  # type: ignore[assignment]
        return cls

    return refusing


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
            _refuse("there is no option {}", sorted(unknown), _INSTEAD)
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
                hints[name] = hint if text is None else eval(text, home)
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
@without(
    "limit",
    {
        "it is 8 times max_message_bytes": "max_decoded_bytes",
        "it is 4 times max_message_bytes": "max_inbound_bytes",
        "it is max_message_bytes": "max_notification_bytes",
        "it is half of max_message_bytes": "max_subscription_bytes,max_task_result_bytes",
        "max_notifications bounds it, too": "max_announcements,max_events",
        "connect_timeout bounds it, too": "listen_timeout",
        "it is a tenth of max_parked": "max_parked_per_principal",
        "it is a tenth of max_tasks": "max_tasks_per_principal",
        "it is half of max_upstreams": "max_upstreams_per_principal",
        "it is always 1,000; ResponseCache(max_entries=...) takes another number": "max_cache_entries",
        "it is always 1,000": "max_batch_messages,max_listed_files,max_open_elicitations",
        "it is always 10,000": "max_known_tools,max_pages",
        "it is always 50,000": "max_scanned_files",
        "it is always 100,000": "max_used_states",
        "it is always 8,192 characters": "max_uri_length",
        "it is always 64 KiB": "max_client_info_bytes,max_request_state_bytes",
        "it is always 256 KiB": "max_schema_bytes",
        "it is always 1 MiB": "max_announcement_bytes,max_parked_notification_bytes",
        "it is always 64 MiB": "max_remembered_bytes",
        "it is always 300 s": "upstream_idle_timeout",
        "it is always a day": "cache_timeout",
    },
)
@attrs.frozen(kw_only=True)
class Limits:
    """What one connection may cost. Every queue, buffer, table and wait is bounded.

    Sizes are bytes, durations are seconds; ``math.inf`` means "never" for a duration. What follows from
    these can be read, and not set.

    Messages:

    Attributes:
        max_message_bytes: The largest message that is received or sent; one that is larger costs only itself.
            What messages may take in memory follows from it: one message 8 times as much, the requests being
            served 4 times, the notifications that wait as much, and subscriptions half.
        max_file_bytes: The largest file that is read for a resource or a tool's result.

    What is done at once:

    Attributes:
        max_inbound_requests: Requests of the peer that are served at once. Further ones wait, unstarted; answers,
            cancellations and pings still get through. It also bounds the questions in one modern result.
        max_waiting_bytes: What the waiting requests may weigh, as they came. Beyond it reading pauses, for
            `slow_consumer_timeout` at most; then requests are refused with ``SERVER_BUSY``, until half is free.
        max_outbound_requests: Requests of ours without an answer. Further callers wait for their turn.
        max_subscriptions: What one connection may be subscribed to: its ``subscriptions/listen`` requests and the
            resources that these name, or those of a session of the legacy era. Further ones are refused.
        max_input_rounds: How often one request may ask for input before it fails.
        max_threads: Tools and resources written as plain functions, and files, that threads run and read at once,
            per server and run of Trio. Further calls wait, and go on in the order in which they came. Over HTTP
            and sockets one client gets three quarters of the threads at most.
        max_asking_threads: Threads that wait for an answer of their client, per server and run of Trio; further
            questions of plain functions are refused with ``SERVER_BUSY``.
        max_upstreams: Connections of a running `Proxy` to its server; one client gets half of them. For a further
            one an idle one ends; if none is idle, it is refused with ``SERVER_BUSY``.

    What is kept:

    Attributes:
        max_outbox_bytes: What may lie ready to be written before senders wait. If what cannot wait (refusals,
            answers to pings) exceeds it alone, nothing is read either until the peer reads.
        max_notifications: How many notifications may wait to be handled: for each call its progress, all others
            together, those of `Server.notify` for one session, different changes for one listener of a client.
        max_kept_bytes: What a server keeps for all its clients together, in memory: requests, answers not yet
            read, sessions, parked handlers, subscriptions, events. Beyond it, what is new is refused with
            ``SERVER_BUSY``. One client gets at most as much as is left to all others.
        max_kept_bytes_per_principal: The same, for one client: a principal, or an address without authentication.
        max_parked: Handlers that wait for their client between two of its requests, per running server; one
            client gets a tenth of them, and is refused more. When all are taken, the handler that is parked for
            longest is cancelled for a new one.
        parked_timeout: How long such a handler waits, and how long its state is good for; more than 0.
        max_tasks: Tasks that a running server keeps until their ``ttl`` is over; one client gets a tenth of them.
            A further one is refused with ``SERVER_BUSY``, or answered without a task if it need not be one.
        max_cache_bytes: What the results that a client keeps may take in memory together.

    Waits:

    Attributes:
        connect_timeout: From opening the transport until both sides have agreed on a revision; also how long a
            server may take to grant a subscription that the client renews by itself.
        discover_timeout: How long a server may leave ``server/discover`` unanswered before it counts as one of
            the legacy era. Part of `connect_timeout`; without effect if the server must be modern.
        slow_consumer_timeout: How long reading waits for those who do not keep up, before progress and log
            messages are dropped and requests refused; and how long a lost connection's calls may handle progress.
        thread_timeout: How long the call of a plain function waits for a thread while all of them are still busy
            with calls that were given up, before it is refused.
        goodbye_timeout: How long leaving a connection may wait for the peer to take the last messages.
        drain_timeout: How long handlers may finish after the server was asked to stop.
        lifespan_timeout: How long the lifespan may take to end when the only client has gone.
        terminate_timeout: How long a server process may take to exit after its input was closed, and again
            after it was asked to terminate, before it is killed.

    What follows from these, and can be read:

    Attributes:
        max_decoded_bytes: What one received message may take decoded, and a list that is read in one go; by
            default 128 MiB.
        max_inbound_bytes: What the requests being served may take, and unfinished responses over HTTP; by
            default 64 MiB.
        max_subscription_bytes: What the subscriptions of one connection may take, or over HTTP of one client;
            by default 8 MiB.
        max_notification_bytes: What waiting progress of all calls, and all other notifications, may take; by
            default 16 MiB each.
        max_task_result_bytes: The largest result of a task, as JSON; by default 8 MiB.
        max_parked_per_principal: The parked handlers of one client (a principal, an address or a connection);
            by default 1,000.
        max_tasks_per_principal: The tasks of one client; by default 1,000.
        max_upstreams_per_principal: The connections of a proxy for one client; by default 100.
    """

    max_message_bytes: int = _size(16 * MIB)
    max_file_bytes: int = _size(8 * MIB)
    max_inbound_requests: int = _size(100)
    max_waiting_bytes: int = _size(16 * MIB)
    max_outbound_requests: int = _size(1_000)
    max_subscriptions: int = _size(1_000)
    max_input_rounds: int = _size(10)
    max_threads: int = _size(40)
    max_asking_threads: int = _size(250)
    max_upstreams: int = _size(200)
    max_outbox_bytes: int = _size(1 * MIB)
    max_notifications: int = _size(1_000)
    max_kept_bytes: int = _size(256 * MIB)
    max_kept_bytes_per_principal: int = _size(128 * MIB)
    max_parked: int = _size(10_000)
    parked_timeout: float = _positive(600.0)
    max_tasks: int = _size(10_000)
    max_cache_bytes: int = _size(32 * MIB)
    connect_timeout: float = _seconds(30.0)
    discover_timeout: float = _seconds(5.0)
    slow_consumer_timeout: float = _seconds(1.0)
    thread_timeout: float = _seconds(5.0)
    goodbye_timeout: float = _seconds(2.0)
    drain_timeout: float = _seconds(5.0)
    lifespan_timeout: float = _seconds(30.0)
    terminate_timeout: float = _seconds(2.0)
    max_decoded_bytes: int = attrs.field(init=False, repr=False, eq=False)
    max_inbound_bytes: int = attrs.field(init=False, repr=False, eq=False)
    max_subscription_bytes: int = attrs.field(init=False, repr=False, eq=False)
    max_notification_bytes: int = attrs.field(init=False, repr=False, eq=False)
    max_task_result_bytes: int = attrs.field(init=False, repr=False, eq=False)
    max_parked_per_principal: int = attrs.field(init=False, repr=False, eq=False)
    max_tasks_per_principal: int = attrs.field(init=False, repr=False, eq=False)
    max_upstreams_per_principal: int = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        message = self.max_message_bytes
        follows = {
            "max_decoded_bytes": 8 * message,
            "max_inbound_bytes": 4 * message,
            "max_subscription_bytes": message // 2,
            "max_notification_bytes": message,
            "max_task_result_bytes": message // 2,
            "max_parked_per_principal": max(1, self.max_parked // 10),
            "max_tasks_per_principal": max(1, self.max_tasks // 10),
            "max_upstreams_per_principal": max(1, self.max_upstreams // 2),
        }
        for name, value in follows.items():
            object.__setattr__(self, name, value)


@final
@attrs.frozen(kw_only=True)
class SocketServerSettings:
    """What the connections of `serve_tcp` and `serve_unix` may cost.

    Durations are seconds; ``math.inf`` means "never". A connection is idle while none of its requests is open,
    not even a subscription.

    Attributes:
        max_connections: Connections at once. For a further one, the one that has been idle longest is closed; if
            none is idle, the new one is closed. The limit is lower if the process may not open so many files.
        max_connections_per_address: The same, of one address (IPv6: one network), of one user at a Unix socket,
            or of one certificate over TLS, once it is known: a further one takes the place of an idle one of the
            same.
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
