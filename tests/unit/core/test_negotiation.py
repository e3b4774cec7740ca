"""How a client finds the revision: every outcome the specification names, and those it leaves open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from typing import Any, Final

import pytest
from inside_base import (
    CLIENT_CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST,
    LEGACY,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    MODERN,
    PARSE_ERROR,
    PROTOCOL_VERSION_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from inside_core import ServerLifecycle, choose_revision, judge_discovery, judge_initialize
from inside_wire import Request

from trio_mcp import RemoteProtocolError, RequestError, Revision

ALL: Final = tuple(Revision)
NEWEST_LEGACY: Final = Revision.V2025_11_25


def unsupported(*supported: object) -> RequestError:
    return RequestError(UNSUPPORTED_PROTOCOL_VERSION, "no", {"supported": list(supported), "requested": LATEST})


# Choosing.


def subsets(revisions: Iterable[Revision]) -> list[tuple[Revision, ...]]:
    pool = list(revisions)
    return list(chain.from_iterable(combinations(pool, count) for count in range(1, len(pool) + 1)))


def test_the_newest_common_revision_is_chosen(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic/versioning: a mutually supported version, whatever the order of the lists."""
    for ours in subsets(Revision):
        with subtests.test(ours=ours):
            for theirs in subsets(Revision):
                offered: list[object] = [str(revision) for revision in theirs]
                common = set(ours) & set(theirs)
                for order in (1, -1):
                    if common:
                        assert choose_revision(offered[::order], ours[::order]) is max(common)
                    else:
                        with pytest.raises(RemoteProtocolError):
                            choose_revision(offered[::order], ours[::order])


def test_what_is_offered_and_not_understood_is_passed_over() -> None:
    """Newer revisions, and what is no revision at all."""
    offered: list[object] = ["2099-01-01", None, 20260728, ["2026-07-28"], "2025-06-18", {}, "2024-11-05", True]
    assert choose_revision(offered, ALL) is Revision.V2025_06_18


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        (["2099-01-01", "2098-01-01"], "2099-01-01, 2098-01-01"),
        ([], "none"),
        ([7, None], "none"),
    ],
)
def test_without_a_common_revision_both_lists_are_told(offered: list[object], told: str) -> None:
    """2026-07-28, basic/versioning: surface an error to the user."""
    with pytest.raises(RemoteProtocolError) as caught:
        choose_revision(offered, [NEWEST_LEGACY, LATEST])
    assert str(caught.value) == (
        f"no revision in common: the server speaks {told}, this client 2025-11-25, 2026-07-28"
    )


# Discovery.


def test_every_outcome_of_discovery_tells_the_era(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic/transports/stdio, "Backward Compatibility"."""
    cases: list[tuple[dict[str, Any] | RequestError | None, Revision | None]] = [
        # The server returns a DiscoverResult: it is modern.
        ({"supportedVersions": ["2026-07-28"], "capabilities": {}}, LATEST),
        ({"supportedVersions": ["2024-11-05", "2026-07-28", "2025-11-25"], "capabilities": {}}, LATEST),
        ({"supportedVersions": ["2099-01-01", "2026-07-28"]}, LATEST),
        # It can name legacy revisions only, and then they are spoken in their way.
        ({"supportedVersions": ["2025-06-18", "2025-03-26"]}, Revision.V2025_06_18),
        # It returns a recognized modern error: it is modern, and says what it supports.
        (unsupported("2026-07-28"), LATEST),
        (unsupported("2025-03-26", "2025-11-25"), NEWEST_LEGACY),
        (unsupported("2099-01-01", "2026-07-28", None), LATEST),
        # It does not say what it supports, so what was asked for is asked for again.
        (RequestError(UNSUPPORTED_PROTOCOL_VERSION, "no"), LATEST),
        (RequestError(UNSUPPORTED_PROTOCOL_VERSION, "no", None), LATEST),
        (RequestError(UNSUPPORTED_PROTOCOL_VERSION, "no", "2026-07-28"), LATEST),
        (RequestError(UNSUPPORTED_PROTOCOL_VERSION, "no", {}), LATEST),
        (RequestError(UNSUPPORTED_PROTOCOL_VERSION, "no", {"supported": "2025-11-25"}), LATEST),
        (RequestError(HEADER_MISMATCH, "no"), LATEST),
        (RequestError(HEADER_MISMATCH, "no", {"supported": ["2025-11-25"]}), LATEST),
        (RequestError(MISSING_REQUIRED_CLIENT_CAPABILITY, "no", {"requiredCapabilities": {}}), LATEST),
        # It returns any other error, or does not respond: it is of the legacy era.
        (None, None),
        (RequestError(METHOD_NOT_FOUND, "no"), None),
        (RequestError(INVALID_PARAMS, "no", {"supported": ["2026-07-28"]}), None),
        (RequestError(INVALID_REQUEST, "no"), None),
        (RequestError(PARSE_ERROR, "no"), None),
        (RequestError(INTERNAL_ERROR, "no"), None),
        (RequestError(-32000, "Server not initialized"), None),
        (RequestError(-32001, "no"), None),
        (RequestError(-32002, "no"), None),
        (RequestError(0, "no"), None),
        (RequestError(404, "no"), None),
        # It returns a result, but no DiscoverResult.
        ({}, None),
        ({"tools": []}, None),
        ({"supportedVersions": None}, None),
        ({"supportedVersions": "2026-07-28"}, None),
        ({"supportedVersions": {"2026-07-28": True}}, None),
    ]  # fmt: skip
    for outcome, revision in cases:
        with subtests.test(outcome=outcome):
            assert judge_discovery(outcome, ALL) is revision
            assert judge_discovery(outcome, ALL[::-1]) is revision


def test_falling_back_hangs_on_no_single_code() -> None:
    """2026-07-28, basic/transports/stdio: the fallback must not be keyed to one specific error code."""
    codes = [*range(-32099, -31999), *range(-32769, -32599)]
    modern = [code for code in codes if judge_discovery(RequestError(code, "no"), ALL) is not None]
    assert modern == [-32022, -32021, -32020]
    assert {judge_discovery(RequestError(code, "no"), ALL) for code in modern} == {LATEST}


@pytest.mark.parametrize(
    ("outcome", "ours"),
    [
        ({"supportedVersions": ["2099-01-01"]}, ALL),
        ({"supportedVersions": []}, ALL),
        ({"supportedVersions": ["2025-11-25"]}, MODERN),
        ({"supportedVersions": [None]}, MODERN),
        (unsupported("2099-01-01"), ALL),
        (unsupported(), ALL),
        (unsupported("2025-11-25"), MODERN),
    ],
    ids=repr,
)
def test_a_modern_server_without_a_common_revision_is_an_error(
    outcome: dict[str, Any] | RequestError, ours: Sequence[Revision]
) -> None:
    """2026-07-28, basic/transports/stdio: it is not asked to initialize."""
    with pytest.raises(RemoteProtocolError, match="no revision in common"):
        judge_discovery(outcome, ours)


# The handshake.


def test_the_answer_to_initialize_settles_the_revision(subtests: pytest.Subtests) -> None:
    """2025-11-25, basic/lifecycle: a client that does not support the server's answer disconnects."""
    cases: list[str] = [*Revision, "2024-10-07", "2099-01-01", ""]
    for version in cases:
        with subtests.test(version=version):
            for ours, offered in ((ours, (*ours, *more)) for ours in subsets(LEGACY) for more in ((), (LATEST,))):
                if version in [str(revision) for revision in ours]:
                    assert judge_initialize({"protocolVersion": version}, offered) is Revision(version)
                else:
                    with pytest.raises(RemoteProtocolError) as caught:
                        judge_initialize({"protocolVersion": version}, offered)
                    assert str(caught.value) == (
                        f"initialize: the server wants to speak {version}, this client {', '.join(offered)}"
                    )


@pytest.mark.parametrize(
    "result", [{}, {"protocolVersion": None}, {"protocolVersion": 5}, {"protocolVersion": ["2025-11-25"]}]
)
def test_an_answer_to_initialize_names_a_revision(result: dict[str, Any]) -> None:
    """It is required in every revision that has the handshake."""
    with pytest.raises(RemoteProtocolError) as caught:
        judge_initialize(result, LEGACY)
    assert str(caught.value) == "initialize: the result names no protocolVersion"


# Both ends together.


def meet(client: Sequence[Revision], server: Sequence[Revision]) -> Revision:
    """Let a client that probes meet a server, decision by decision, and return what both speak then."""
    lifecycle = ServerLifecycle(server)
    legacy = [revision for revision in client if not revision.is_modern]
    if any(revision.is_modern for revision in client):
        meta: dict[str, Any] = {PROTOCOL_VERSION_KEY: str(max(client)), CLIENT_CAPABILITIES_KEY: {}}
        outcome: dict[str, Any] | RequestError
        try:
            lifecycle.agree(Request(1, "server/discover", {"_meta": meta}))
            outcome = {"supportedVersions": lifecycle.supported_versions}
        except RequestError as error:
            outcome = error
        chosen = judge_discovery(outcome, client)
        if chosen is not None and chosen.is_modern:
            return lifecycle.agree(
                Request(2, "tools/list", {"_meta": {**meta, PROTOCOL_VERSION_KEY: chosen}})
            ).revision
        legacy = legacy if chosen is None else [chosen]
    params: dict[str, Any] = {"protocolVersion": str(max(legacy)), "capabilities": {}, "clientInfo": {}}
    answer = lifecycle.initialize(Request(3, "initialize", params))
    return judge_initialize({"protocolVersion": str(answer.revision)}, legacy)


def test_client_and_server_agree_whenever_they_can(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic/versioning, "Compatibility Matrix", for every pair of sets of revisions."""
    for client in subsets(Revision):
        with subtests.test(client=client):
            for server in subsets(Revision):
                common = set(client) & set(server)
                # A legacy handshake has one try: the server's newest must be one of the client's if its first is not.
                theirs = [revision for revision in server if not revision.is_modern]
                if max(client).is_modern or not common:
                    expected = max(common, default=None)
                else:
                    first = max(client)
                    answer = first if first in theirs else max(theirs)
                    expected = answer if answer in client else None
                if expected is not None:
                    assert meet(client, server) is expected
                else:
                    with pytest.raises((RemoteProtocolError, RequestError)):
                        meet(client, server)
