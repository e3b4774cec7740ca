"""The ground floor: what errors say, what limits refuse, which method belongs to which revision and side."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import re
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest
from inside_base import (
    BATCH_REVISION,
    LATEST,
    LATEST_LEGACY,
    LEGACY,
    METHODS,
    MODERN,
    MethodRule,
    Side,
    refuse_unknown,
)
from inside_base import errors_module as errors
from inside_base import revisions_module as revisions
from places import DATA

import trio_mcp
from trio_mcp import (
    ABSENT,
    ClientOptions,
    ConnectionLost,
    HttpServerSettings,
    HttpStatusError,
    Limits,
    LocalProtocolError,
    McpError,
    ProtocolError,
    RemoteProtocolError,
    RequestError,
    Revision,
    SessionLost,
    ToolError,
)

SCHEMAS: Final = DATA / "mcp-schema"

# Errors.


def test_the_tree_is_as_it_is_drawn(subtests: pytest.Subtests) -> None:
    """The picture in the module's docstring is what callers write `except` clauses by."""
    cases: list[tuple[type[Exception], type[Exception]]] = [
        (McpError, Exception),
        (ProtocolError, McpError),
        (LocalProtocolError, ProtocolError),
        (RemoteProtocolError, ProtocolError),
        (RequestError, McpError),
        (HttpStatusError, RequestError),
        (SessionLost, HttpStatusError),
        (ToolError, McpError),
        (ConnectionLost, McpError),
    ]
    for kind, parent in cases:
        with subtests.test(kind=kind):
            assert kind.__bases__ == (parent,)
            assert kind.__name__ in (errors.__doc__ or "")


def test_absence_is_not_null() -> None:
    """There is one absence, it is false, and it survives copying."""
    assert repr(ABSENT) == "ABSENT"
    assert not ABSENT
    assert ABSENT is not None
    assert copy.deepcopy({"data": ABSENT})["data"] is ABSENT
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT


def test_errors_say_what_happened() -> None:
    """Nobody should have to look at attributes to know why something failed."""
    cases: list[tuple[McpError, str]] = [
        (RequestError(-32601, "no such method"), "no such method [-32601]"),
        (RequestError(5, ""), " [5]"),
        (RequestError(-32602, "bad", None), "bad [-32602]"),
        (RequestError(-32602, "bad", {"a": [1]}), "bad [-32602] {'a': [1]}"),
        (ConnectionLost("it exited"), "it exited"),
        (ConnectionLost("it exited", exit_status=1, stderr=[]), "it exited"),
        (
            ConnectionLost("it exited", stderr=["Traceback:", "  KeyError"]),
            "it exited; the last of its standard error:\n    Traceback:\n      KeyError",
        ),
        (ToolError("the shelf is empty"), "the shelf is empty"),
    ]
    for error, text in cases:
        assert str(error) == text


def test_an_error_answer_has_its_members_as_attributes() -> None:
    """JSON-RPC 2.0, section 5.1; `data` that is null is not `data` that is missing."""
    error = RequestError(1, "m", None)
    assert (error.code, error.message, error.data) == (1, "m", None)
    assert RequestError(1, "m").data is RequestError(1, "m", ABSENT).data is None
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.message, again.data) == (RequestError, 1, "m", None)


def test_an_http_error_says_what_the_server_said() -> None:
    """It is an error answer for code that knows no HTTP, and can be copied like one."""
    for kind in (HttpStatusError, SessionLost):
        error = kind(503, "HTTP status 503", body="busy", retry_after=7.0)
        assert error.code == errors.TRANSPORT_FAILED
        assert error.data == {"httpStatus": 503, "body": "busy", "retryAfter": 7.0}
        assert str(error) == "HTTP status 503: busy"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.status, again.body, again.retry_after) == (kind, 503, "busy", 7.0)
        assert again.data == error.data
    assert HttpStatusError(500, "m").data == {"httpStatus": 500, "body": ""}


def test_a_lost_connection_is_renewed_for_each_who_waits() -> None:
    """One loss fails many tasks; a shared exception would grow one traceback out of all of theirs."""
    cause = OSError("pipe")
    lost = ConnectionLost("it exited", exit_status=-9, stderr=["a", "b"])
    lost.__cause__ = cause
    try:
        raise lost
    except ConnectionLost:
        pass
    again = lost.renewed()
    assert again is not lost
    assert (again.reason, again.exit_status, again.stderr) == ("it exited", -9, ("a", "b"))
    assert (str(again), again.__cause__, again.__traceback__) == (str(lost), cause, None)
    assert lost.__traceback__ is not None


def test_codes_are_those_of_the_specification() -> None:
    """2026-07-28, basic, "Error Codes": all of its codes, and new ones outside the ranges that are reserved.

    Two are of the revisions before, and must not be used for anything else (2025-11-25, server/resources,
    client/elicitation). One is of clients (client/sampling, "Error Handling").
    """
    schema = (SCHEMAS / LATEST / "schema.json").read_text(encoding="utf-8")
    official = {int(code) for code in re.findall(r'"const": (-32\d{3})\b', schema)}
    older = {errors.RESOURCE_NOT_FOUND, errors.URL_ELICITATION_REQUIRED}
    ours = {code for code in vars(errors).values() if isinstance(code, int) and code < 0}
    assert {code for code in ours if -32768 <= code <= -32000} == official | older
    own = {errors.CANCELLED_BY_DEADLINE, errors.SERVER_BUSY, errors.TRANSPORT_FAILED}
    assert ours - official == {*own, *older, errors.USER_REJECTED}
    assert {code for code in official if -32099 <= code <= -32020} == errors.MODERN_ERRORS


def test_each_code_has_its_own_meaning() -> None:
    """JSON-RPC 2.0, section 5.1; 2026-07-28, basic, "Error Codes"."""
    cases: list[tuple[int, int]] = [
        (errors.PARSE_ERROR, -32700),
        (errors.INVALID_REQUEST, -32600),
        (errors.METHOD_NOT_FOUND, -32601),
        (errors.INVALID_PARAMS, -32602),
        (errors.INTERNAL_ERROR, -32603),
        (errors.HEADER_MISMATCH, -32020),
        (errors.MISSING_REQUIRED_CLIENT_CAPABILITY, -32021),
        (errors.UNSUPPORTED_PROTOCOL_VERSION, -32022),
    ]
    for code, number in cases:
        assert code == number


# Limits.

GIVEN: Final = [field.name for field in attrs.fields(Limits) if field.init]
DURATIONS: Final = [name for name in GIVEN if name.endswith("_timeout")]
SIZES: Final = [name for name in GIVEN if name not in DURATIONS]


def make_limits(name: str, value: object) -> Limits:
    changed: dict[str, Any] = {name: value}
    return Limits(**changed)


def test_every_limit_has_a_name_a_unit_and_a_default() -> None:
    """Promise 10; sizes and counts are above zero, durations may be zero, and each is described."""
    limits = Limits()
    for name, value in attrs.asdict(limits).items():
        assert type(value) is (float if name in DURATIONS else int)
        assert 0 < value < math.inf
        assert f"\n    {name}: " in (inspect.getdoc(Limits) or ""), f"{name} is not described"


@pytest.mark.parametrize("value", [0, -1])
def test_a_size_is_above_zero(value: int) -> None:
    """A queue without places would never move; the error names the limit."""
    for name in SIZES:
        with pytest.raises(ValueError, match=f"^{name} must be at least 1, not {value!r}$"):
            make_limits(name, value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5, True])
def test_a_size_is_a_whole_number(value: float) -> None:
    """Nothing is unbounded, and there is no half of a request."""
    for name in SIZES:
        with pytest.raises(TypeError, match=f"^{name} must be a whole number, not {value!r}$"):
            make_limits(name, value)


@pytest.mark.parametrize("value", [-0.001, -1, math.nan, -math.inf])
def test_a_duration_is_not_negative(value: float) -> None:
    """The error names the limit."""
    for name in DURATIONS:
        rule = "more than 0" if name == "parked_timeout" else "at least 0"
        with pytest.raises(ValueError, match=f"^{name} must be {rule}, not {value!r}$"):
            make_limits(name, value)


@pytest.mark.parametrize("value", ["16", None, [1]])
def test_a_limit_is_a_number(value: object) -> None:
    """Text from a configuration file, say: the error names the limit here, too."""
    for name in (*SIZES, *DURATIONS):
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be "):
            make_limits(name, value)


@pytest.mark.parametrize("value", [0, 0.0, 1, math.inf])
def test_a_duration_may_be_nothing_or_for_ever(value: float) -> None:
    """`math.inf` means never. A state that is too old when it is made would be good for nothing."""
    for name in DURATIONS:
        if not value and name == "parked_timeout":
            with pytest.raises(ValueError, match="parked_timeout must be more than 0"):
                make_limits(name, value)
        else:
            assert attrs.asdict(make_limits(name, value)) == {**attrs.asdict(Limits()), name: value}


def test_limits_cannot_be_changed() -> None:
    """Everything on a connection may rely on them."""
    limits: Any = Limits()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        limits.max_threads = 5
    assert attrs.evolve(limits, max_threads=5) == Limits(max_threads=5)


GONE_SETTINGS: Final = {
    "body_timeout": "message_timeout bounds it",
    "handshake_timeout": "message_timeout bounds it",
    "head_timeout": "it is half of message_timeout",
    "ping_timeout": "it is twice keep_alive_interval",
    "authenticate_timeout": "it is always 30 s",
    "stream_timeout": "it is always 5 s",
    "retry_delay": "it is always 1 s",
    "max_head_bytes": "it is always 32 KiB",
    "sse_path": "write sse='/a/path'",
    "messages_path": "clients are told it; it is beside the path of sse",
    "max_request_rate": "write rate='10/minute'",
    "request_burst": "write rate='10/minute'",
    "max_connections_per_address": "it is half of max_connections, at least 10",
    "max_sessions_per_principal": "it is a fifth of max_sessions, at least 10",
}
"""Settings that went, and what the refusal says of them."""

GONE_LIMITS: Final = {
    "max_decoded_bytes": "it is 8 times max_message_bytes",
    "max_inbound_bytes": "it is 4 times max_message_bytes",
    "max_subscription_bytes": "it is half of max_message_bytes",
    "max_notification_bytes": "it is max_message_bytes",
    "max_task_result_bytes": "it is half of max_message_bytes",
    "max_batch_messages": "it is always 1,000",
    "max_client_info_bytes": "it is always 64 KiB",
    "max_announcements": "max_notifications bounds it, too",
    "max_announcement_bytes": "it is always 1 MiB",
    "listen_timeout": "connect_timeout bounds it, too",
    "max_events": "max_notifications bounds it, too",
    "max_cache_entries": "it is always 1,000; ResponseCache(max_entries=...) takes another number",
    "cache_timeout": "it is always a day",
    "max_remembered_bytes": "it is always 64 MiB",
    "max_known_tools": "it is always 10,000",
    "max_schema_bytes": "it is always 256 KiB",
    "max_open_elicitations": "it is always 1,000",
    "max_pages": "it is always 10,000",
    "max_parked_per_principal": "it is a tenth of max_parked",
    "max_parked_notification_bytes": "it is always 1 MiB",
    "max_tasks_per_principal": "it is a tenth of max_tasks",
    "max_used_states": "it is always 100,000",
    "max_request_state_bytes": "it is always 64 KiB",
    "max_uri_length": "it is always 8,192 characters",
    "max_listed_files": "it is always 1,000",
    "max_scanned_files": "it is always 50,000",
    "max_upstreams_per_principal": "it is half of max_upstreams",
    "upstream_idle_timeout": "it is always 300 s",
}


def test_what_went_is_refused_with_what_there_is_instead() -> None:
    given: list[tuple[Callable[..., object], str, dict[str, str]]] = [
        (Limits, "limit", GONE_LIMITS),
        (HttpServerSettings, "setting", GONE_SETTINGS),
    ]
    for make, kind, gone in given:
        for name, instead in gone.items():
            with pytest.raises(TypeError) as caught:
                make(**{name: 5})
            assert str(caught.value) == f"there is no {kind} {name} any more: {instead}"
            assert name not in inspect.signature(make).parameters
    with pytest.raises(
        TypeError, match=r"^there is no option max_input_rounds: write limits=Limits\(max_input_r"
    ):
        refuse_unknown({"max_input_rounds": 5}, ClientOptions)
    both: dict[str, Any] = {"max_events": 1, "max_pages": 1}
    with pytest.raises(TypeError, match=r"no limit max_events any more: .*; there is no limit max_pages any"):
        attrs.evolve(Limits(), **both)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_evnets'"):
        make_limits("max_evnets", 5)


def test_what_follows_from_a_limit() -> None:
    limits = Limits(max_message_bytes=1_000, max_parked=50, max_tasks=5, max_upstreams=1)
    assert (limits.max_decoded_bytes, limits.max_inbound_bytes) == (8_000, 4_000)
    assert limits.max_notification_bytes == 1_000
    assert (limits.max_subscription_bytes, limits.max_task_result_bytes) == (500, 500)
    own = (limits.max_parked_per_principal, limits.max_tasks_per_principal, limits.max_upstreams_per_principal)
    assert own == (5, 1, 1)
    limits = Limits()
    assert (limits.max_decoded_bytes, limits.max_inbound_bytes) == (128 * 2**20, 64 * 2**20)
    assert (limits.max_parked_per_principal, limits.max_tasks_per_principal) == (1_000, 1_000)


def test_what_follows_from_a_setting() -> None:
    """One client of a small server has all of it."""
    for most, of_one_address, of_one_client in ((1_000, 500, 200), (30, 15, 10), (1, 10, 10)):
        settings = HttpServerSettings(max_connections=most, max_sessions=most)
        own = (settings.max_connections_per_address, settings.max_sessions_per_principal)
        assert own == (of_one_address, of_one_client)
    paths = {"/sse": "/messages", "/sse/": "/messages/", "/a/b/events": "/a/b/messages", "/": "/messages/"}
    for sse, messages in paths.items():
        settings = HttpServerSettings(sse=sse)
        assert settings.sse_paths == (sse, messages)
    settings = HttpServerSettings(sse=True)
    assert settings.sse_paths == ("/sse", "/messages")
    assert (settings.max_connections_per_address, settings.max_sessions_per_principal) == (500, 2_000)


# Revisions.


def test_revisions_compare_by_date() -> None:
    """As text and as revisions; eras, newest and oldest follow from it."""
    dates = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert [str(revision) for revision in sorted(Revision, reverse=True)] == dates[::-1]
    assert [f"{revision}" for revision in Revision] == dates
    assert Revision("2025-06-18") is Revision.V2025_06_18
    assert Revision.V2025_06_18 in dates
    assert (*LEGACY, *MODERN) == tuple(Revision)
    assert [revision.is_modern for revision in Revision] == [False] * 4 + [True]
    assert (LATEST_LEGACY, LATEST, BATCH_REVISION) == ("2025-11-25", "2026-07-28", "2025-03-26")


def test_an_unknown_revision_is_refused() -> None:
    """There are five."""
    with pytest.raises(ValueError, match="2025-01-01"):
        Revision("2025-01-01")


def official_methods(revision: Revision, sender: str) -> set[str]:
    """Return the methods that the schema lets one side send, requests and notifications."""
    schema = json.loads((SCHEMAS / revision / "schema.json").read_text(encoding="utf-8"))
    definitions = schema.get("$defs") or schema["definitions"]
    found: set[str] = set()
    for union in (f"{sender}Request", f"{sender}Notification"):
        if union not in definitions:
            assert (union, revision.is_modern) == ("ServerRequest", True)  # a modern server sends none
            continue
        for member in definitions[union].get("anyOf", [definitions[union]]):
            reference = member.get("$ref", "").rpartition("/")[2]
            found.add((definitions[reference] if reference else member)["properties"]["method"]["const"])
    return found


def test_each_side_may_send_what_the_schema_says(subtests: pytest.Subtests) -> None:
    """Nothing is missing, and nothing is there that the revision does not have."""
    cases: list[tuple[Side, str]] = [(Side.CLIENT, "Client"), (Side.SERVER, "Server")]
    for side, sender in cases:
        for revision in Revision:
            with subtests.test(side=side, revision=revision):
                ours = {method for method, rule in METHODS.items() if rule.allows(side, revision)}
                assert ours == official_methods(revision, sender)


@pytest.mark.parametrize(
    ("rule", "client", "server"),
    [
        (MethodRule(Side.CLIENT), "11111", "00000"),
        (MethodRule(Side.EITHER), "11111", "11111"),
        (MethodRule(Side.SERVER, since=Revision.V2025_06_18), "00000", "00111"),
        (MethodRule(Side.CLIENT, until=Revision.V2025_03_26), "11000", "00000"),
        (MethodRule(Side.EITHER, since=Revision.V2025_11_25, until=Revision.V2025_11_25), "00010", "00010"),
        (MethodRule(Side.EITHER, modern_senders=Side.SERVER), "11110", "11111"),
        (MethodRule(Side.CLIENT, modern_senders=Side.SERVER), "11110", "00001"),
    ],
)
def test_a_rule_says_who_may_send_when(rule: MethodRule, client: str, server: str) -> None:
    """One digit for each revision, oldest first."""
    for side, expected in ((Side.CLIENT, client), (Side.SERVER, server)):
        assert "".join(str(int(rule.allows(side, revision))) for revision in Revision) == expected


def test_every_method_belongs_to_some_revision() -> None:
    """A rule that never holds would be a slip of the pen."""
    for method, rule in METHODS.items():
        assert any(rule.allows(Side.EITHER, revision) for revision in Revision), method
        assert rule.until is None or rule.until >= rule.since, method


def test_the_tables_cannot_be_changed() -> None:
    """They are data for everybody."""
    methods: Any = METHODS
    with pytest.raises(TypeError):
        methods["my/own"] = MethodRule(Side.CLIENT)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        methods["ping"].until = None


def test_keys_of_meta_are_spelled_as_the_specification_has_them() -> None:
    """2026-07-28, basic, "_meta": the schemas and their examples name every one of them that is not ours."""
    schema = (SCHEMAS / LATEST / "schema.json").read_text(encoding="utf-8")
    keys = {name: getattr(revisions, name) for name in dir(revisions) if name.endswith("_KEY")}
    assert keys.pop("TIMEOUT_KEY") == "trio-mcp/timeoutMs"
    assert [name for name, key in keys.items() if f'"{key}"' not in schema] == []
    assert len(keys) > 5


def test_the_ground_floor_is_what_users_see() -> None:
    """The names in tracebacks are names that can be imported."""
    for kind in (McpError, RequestError, ConnectionLost, Limits, Revision):
        assert getattr(trio_mcp, kind.__name__) is kind
