"""What a server and its client agree on: both eras, every revision, every refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final

import pytest
from inside_base import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST,
    LATEST_LEGACY,
    LEGACY,
    METHOD_NOT_FOUND,
    METHODS,
    MODERN,
    UNSUPPORTED_PROTOCOL_VERSION,
    Side,
)
from inside_core import Agreement, ServerLifecycle
from inside_wire import Request

from trio_mcp import RequestError, Revision

VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"

CLIENT: Final = {"name": "client", "version": "1"}
META: Final[dict[str, Any]] = {VERSION: LATEST, CAPABILITIES: {"roots": {}}, INFO: CLIENT}
NEWEST_FIRST: Final = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def request(method: str = "tools/call", meta: object = None, **params: object) -> Request:
    return Request(1, method, {**params, "_meta": meta} if meta is not None else params or None)


def handshake(version: str = LATEST_LEGACY, changed: Mapping[str, object] = MappingProxyType({})) -> Request:
    """Return an `initialize`; a parameter that is changed to `...` is left out."""
    params: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {"sampling": {}},
        "clientInfo": CLIENT,
        **changed,
    }
    return Request(1, "initialize", {name: value for name, value in params.items() if value is not ...})


def initialized(version: str = LATEST_LEGACY, supported: Sequence[Revision] = tuple(Revision)) -> ServerLifecycle:
    lifecycle = ServerLifecycle(supported)
    lifecycle.initialize(handshake(version))
    return lifecycle


def without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


# The handshake.

SUPPORTED: Final = [
    revisions for count in range(1, 6) for revisions in combinations(Revision, count) if set(revisions) & set(LEGACY)
]  # fmt: skip


def test_the_handshake_settles_a_revision(subtests: pytest.Subtests) -> None:
    """2025-11-25, basic/lifecycle, "Version Negotiation": the client's if we speak it, else our latest."""
    cases: list[str] = [*Revision, "2024-10-07", "2099-01-01", "1.0", ""]
    for version in cases:
        with subtests.test(version=version):
            for supported in SUPPORTED:
                spoken = [str(revision) for revision in supported if not revision.is_modern]
                for order in (supported, supported[::-1]):
                    agreement = ServerLifecycle(order).initialize(handshake(version))
                    assert agreement.revision == (version if version in spoken else max(spoken)), supported


def test_the_handshake_holds_for_all_that_follows() -> None:
    """2025-11-25, basic/lifecycle: operation stands on what initialization has agreed."""
    lifecycle = ServerLifecycle()
    agreement = lifecycle.initialize(handshake("2025-06-18"))
    assert agreement == Agreement(Revision.V2025_06_18, {"sampling": {}}, CLIENT, "info")
    assert lifecycle.session == agreement
    assert lifecycle.agree(request()) == agreement
    assert lifecycle.agree(request("ping")) == agreement


def test_a_handshake_that_is_none_is_refused(subtests: pytest.Subtests) -> None:
    """The client hears which parameter it was, and may try again."""
    cases: list[tuple[Revision, ...]] = [tuple(Revision), MODERN]
    changes: list[tuple[dict[str, object], str]] = [
        ({"protocolVersion": ...}, "params: protocolVersion is missing"),
        ({"protocolVersion": None}, "params: protocolVersion is missing"),
        ({"protocolVersion": 20251125}, "params: protocolVersion must be a string"),
        ({"protocolVersion": ["2025-11-25"]}, "params: protocolVersion must be a string"),
        ({"capabilities": ...}, "params: capabilities is missing"),
        ({"capabilities": None}, "params: capabilities is missing"),
        ({"capabilities": "all"}, "params: capabilities must be an object"),
        ({"capabilities": 7}, "params: capabilities must be an object"),
        ({"clientInfo": ...}, "params: clientInfo is missing"),
        ({"clientInfo": "client"}, "params: clientInfo must be an object"),
    ]  # fmt: skip
    for supported in cases:
        for changed, message in changes:
            with subtests.test(supported=supported, changed=changed):
                lifecycle = ServerLifecycle(supported)
                with pytest.raises(RequestError) as caught:
                    lifecycle.initialize(handshake(changed=changed))
                assert (caught.value.code, caught.value.message) == (INVALID_PARAMS, message)
                assert lifecycle.session is None


@pytest.mark.parametrize("odd", [[], True, False])
def test_capabilities_that_are_no_object_are_none(odd: object) -> None:
    """PHP writes ``[]`` for an object without members. That must not cost anybody the connection."""
    assert ServerLifecycle().initialize(handshake(changed={"capabilities": odd})).client_capabilities == {}
    assert ServerLifecycle().agree(request(meta={**META, CAPABILITIES: odd})).client_capabilities == {}


def test_a_handshake_without_parameters_is_refused() -> None:
    """As if all were missing."""
    with pytest.raises(RequestError) as caught:
        ServerLifecycle().initialize(Request(1, "initialize"))
    assert (caught.value.code, caught.value.message) == (INVALID_PARAMS, "params: protocolVersion is missing")


@pytest.mark.parametrize("version", ["2025-06-18", "2024-11-05"])
def test_a_second_handshake_is_refused(version: str) -> None:
    """2025-11-25, basic/lifecycle: initialization is the first interaction; what was agreed on stays."""
    lifecycle = initialized("2025-06-18")
    before = lifecycle.session
    with pytest.raises(RequestError) as caught:
        lifecycle.initialize(handshake(version))
    assert (caught.value.code, caught.value.message) == (
        INVALID_REQUEST,
        "invalid request: this connection is initialized already",
    )
    assert lifecycle.session == before


@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_a_modern_server_tells_a_legacy_client_what_it_speaks(version: str) -> None:
    """2026-07-28, basic/versioning: the message may be the only thing the client can show to people."""
    lifecycle = ServerLifecycle(MODERN)
    with pytest.raises(RequestError) as caught:
        lifecycle.initialize(handshake(version))
    error = caught.value
    assert error.code == UNSUPPORTED_PROTOCOL_VERSION
    assert error.data == {"supported": ["2026-07-28"], "requested": version}
    assert "2026-07-28" in error.message
    assert lifecycle.session is None


@pytest.mark.parametrize("order", [1, -1])
def test_supported_versions_are_listed_newest_first(order: int) -> None:
    """A client that takes the first it knows gets the best."""
    assert ServerLifecycle(tuple(Revision)[::order]).supported_versions == NEWEST_FIRST
    assert ServerLifecycle([LATEST]).supported_versions == NEWEST_FIRST[:1]


# Legacy requests.


@pytest.mark.parametrize("method", ["initialize", "ping"])
def test_before_the_handshake_only_it_and_pings_are_served(method: str) -> None:
    """2025-11-25, basic/lifecycle, "Initialization"."""
    assert ServerLifecycle().agree(request(method)) == Agreement(LATEST_LEGACY, {}, None, None)


def test_a_request_before_the_handshake_is_refused_with_what_it_lacks(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic, "_meta": a request without the required fields is refused as invalid params."""
    cases: list[object] = [None, {}, {"progressToken": 1}, {INFO: CLIENT}, [], "meta", 5]
    server_sides: list[tuple[Revision, ...]] = [tuple(Revision), LEGACY, MODERN]
    for meta in cases:
        for supported in server_sides:
            with subtests.test(meta=meta, supported=supported):
                for method in ("tools/call", "server/discover", "logging/setLevel", "my/own", ""):
                    with pytest.raises(RequestError) as caught:
                        ServerLifecycle(supported).agree(request(method, meta))
                    assert (caught.value.code, caught.value.message) == (
                        INVALID_PARAMS,
                        f"params._meta lacks {VERSION}, and no initialize handshake came before",
                    )


def test_a_modern_server_answers_no_ping() -> None:
    """2026-07-28 has none, and demands that a request without the required fields is refused."""
    with pytest.raises(RequestError) as caught:
        ServerLifecycle(MODERN).agree(request("ping"))
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("meta", [{"progressToken": 1}, {INFO: CLIENT}, {LOG_LEVEL: "debug"}, [], "meta"])
def test_a_legacy_client_may_have_any_meta(meta: object) -> None:
    """Keys of the modern era that decide nothing do not make a request modern."""
    lifecycle = initialized()
    assert lifecycle.agree(request(meta=meta)) == lifecycle.session


def test_the_log_level_of_a_session_can_be_set() -> None:
    """2025-11-25, server/utilities/logging: from then on; without a session there is nothing to set it for."""
    lifecycle = ServerLifecycle()
    lifecycle.set_log_level("debug")
    assert lifecycle.session is None
    agreement = lifecycle.initialize(handshake())
    lifecycle.set_log_level("error")
    assert agreement.log_level == "info"
    assert lifecycle.agree(request()) == Agreement(LATEST_LEGACY, {"sampling": {}}, CLIENT, "error")


# Modern requests.


@pytest.mark.parametrize(
    ("meta", "info", "level"),
    [
        (META, CLIENT, None),
        (without(META, INFO), None, None),
        ({**META, INFO: "client"}, None, None),
        ({**META, INFO: None}, None, None),
        ({**META, LOG_LEVEL: None}, CLIENT, None),
        ({**META, LOG_LEVEL: "warning"}, CLIENT, "warning"),
        ({**META, LOG_LEVEL: "emergency", "progressToken": 7, "example.com/x": None}, CLIENT, "emergency"),
    ],
)  # fmt: skip
def test_a_modern_request_brings_everything_with_it(
    meta: dict[str, object], info: dict[str, str] | None, level: str | None
) -> None:
    """2026-07-28, basic, "_meta": who the client is may be missing; without a level there are no log messages."""
    assert ServerLifecycle().agree(request(meta=meta)) == Agreement(LATEST, {"roots": {}}, info, level)


def test_a_modern_request_lacks_nothing_that_is_required(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic, "_meta": else it must be refused as invalid params, whatever was agreed on before."""
    metas: list[tuple[dict[str, object], str]] = [
        (without(META, VERSION), f"_meta: {VERSION} is missing"),
        ({**META, VERSION: None}, f"_meta: {VERSION} is missing"),
        ({**META, VERSION: 20260728}, f"_meta: {VERSION} must be a string"),
        (without(META, CAPABILITIES), f"_meta: {CAPABILITIES} is missing"),
        ({**META, CAPABILITIES: None}, f"_meta: {CAPABILITIES} is missing"),
        ({**META, CAPABILITIES: 7}, f"_meta: {CAPABILITIES} must be an object"),
        ({**META, CAPABILITIES: "all"}, f"_meta: {CAPABILITIES} must be an object"),
    ]
    for after_handshake in (False, True):
        for meta, message in metas:
            with subtests.test(after_handshake=after_handshake, meta=meta):
                lifecycle = initialized() if after_handshake else ServerLifecycle()
                with pytest.raises(RequestError) as caught:
                    lifecycle.agree(request(meta=meta))
                assert (caught.value.code, caught.value.message) == (INVALID_PARAMS, message)


@pytest.mark.parametrize("level", ["loud", "WARNING", "", 3, ["debug"]])
def test_a_log_level_that_is_none_is_refused(level: object) -> None:
    """2026-07-28, server/utilities/logging, "Error Handling"."""
    with pytest.raises(RequestError) as caught:
        ServerLifecycle().agree(request(meta={**META, LOG_LEVEL: level}))
    assert caught.value.code == INVALID_PARAMS
    assert LOG_LEVEL in caught.value.message


@pytest.mark.parametrize(
    ("supported", "requested", "listed"),
    [
        (tuple(Revision), "1900-01-01", NEWEST_FIRST),
        (tuple(Revision), "2026-07-29", NEWEST_FIRST),
        (tuple(Revision), "", NEWEST_FIRST),
        (MODERN, "1900-01-01", NEWEST_FIRST[:1]),
        (MODERN, "2025-11-25", NEWEST_FIRST[:1]),
        (LEGACY, "2026-07-28", NEWEST_FIRST[1:]),
        # A legacy revision cannot be spoken in the modern way, so it is not offered to a client that has just tried.
        (tuple(Revision), "2025-11-25", without(dict.fromkeys(NEWEST_FIRST), "2025-11-25")),
    ],
)  # fmt: skip
def test_a_revision_we_do_not_speak_is_refused_with_those_we_do(
    supported: tuple[Revision, ...], requested: str, listed: Sequence[str]
) -> None:
    """2026-07-28, basic/versioning, "Protocol Version Negotiation"."""
    with pytest.raises(RequestError) as caught:
        ServerLifecycle(supported).agree(request(meta={**META, VERSION: requested}))
    assert caught.value.code == UNSUPPORTED_PROTOCOL_VERSION
    assert caught.value.data == {"supported": list(listed), "requested": requested}


def test_the_revision_is_looked_at_before_the_rest() -> None:
    """What a revision we do not know demands, we do not know either."""
    with pytest.raises(RequestError) as caught:
        ServerLifecycle().agree(request(meta={VERSION: "2099-01-01"}))
    assert caught.value.code == UNSUPPORTED_PROTOCOL_VERSION


def test_a_refusal_does_not_repeat_a_long_version_in_words() -> None:
    """The message is for people."""
    with pytest.raises(RequestError) as caught:
        ServerLifecycle().agree(request(meta={**META, VERSION: "9" * 10_000}))
    assert len(caught.value.message) < 100


def test_both_eras_are_served_on_one_connection() -> None:
    """2026-07-28, basic/versioning: a dual-era server may serve both concurrently in one process."""
    lifecycle = ServerLifecycle()
    modern = Agreement(LATEST, {"roots": {}}, CLIENT, None)
    assert lifecycle.agree(request(meta=META)) == modern
    legacy = lifecycle.initialize(handshake("2024-11-05"))
    assert lifecycle.agree(request(meta=META)) == modern
    assert lifecycle.agree(request()) == legacy


# Methods.


@pytest.mark.parametrize("revision", Revision)
def test_a_request_needs_a_method_of_its_revision(revision: Revision) -> None:
    """Each revision has its methods, and what only servers send is no request of a client."""
    for method, rule in METHODS.items():
        lifecycle = ServerLifecycle() if revision.is_modern else initialized(revision)
        asked = request(method, META if revision.is_modern else None)
        if rule.allows(Side.CLIENT, revision):
            assert lifecycle.agree(asked).revision is revision
            continue
        with pytest.raises(RequestError) as caught:
            lifecycle.agree(asked)
        refusal = (METHOD_NOT_FOUND, f"{revision} has no method {method}")
        assert (caught.value.code, caught.value.message) == refusal


def test_unknown_methods_are_not_refused_here(subtests: pytest.Subtests) -> None:
    """They may be the user's or an extension's own."""
    for method in ("my/own", "tasks/update", "$/odd", ""):
        for revision in Revision:
            with subtests.test(method=method, revision=revision):
                lifecycle = ServerLifecycle() if revision.is_modern else initialized(revision)
                assert lifecycle.agree(request(method, META if revision.is_modern else None)).revision is revision
