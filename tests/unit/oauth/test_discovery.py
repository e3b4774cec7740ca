"""Where documents are looked for, in which order, and which are believed: tables, without a socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from authorization_pages import shows
from inside_oauth import (
    Discovered,
    Fetched,
    canonical_resource,
    discover,
    is_public_address,
    is_resource_of,
    server_metadata_urls,
)

from trio_mcp import AuthorizationFailed

SERVER: Final = "https://mcp.example.com/public/mcp"
ISSUER: Final = "https://auth.example.com"
AT_PATH: Final = "https://mcp.example.com/.well-known/oauth-protected-resource/public/mcp"
AT_ROOT: Final = "https://mcp.example.com/.well-known/oauth-protected-resource"
AT_ISSUER: Final = f"{ISSUER}/.well-known/oauth-authorization-server"
OPENID: Final = f"{ISSUER}/.well-known/openid-configuration"

RESOURCE: Final = {"resource": SERVER, "authorization_servers": [ISSUER]}
METADATA: Final = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "code_challenge_methods_supported": ["S256"],
}

Answers = Mapping[str, Any]


def walk(answers: Answers, **options: Any) -> tuple[Discovered, list[str]]:
    """Discover with documents, or statuses, at URLs; 404 everywhere else. Returns what was asked for, too."""
    steps = discover(SERVER, **options)
    asked: list[str] = []
    try:
        fetch = next(steps)
        while True:
            asked.append(fetch.url)
            found = answers.get(fetch.url, 404)
            fetch = steps.send(Fetched(found) if isinstance(found, int) else Fetched(200, found))
    except StopIteration as done:
        return done.value, asked


@pytest.mark.parametrize(
    ("answers", "hint", "asked"),
    [
        ({AT_PATH: RESOURCE, AT_ISSUER: METADATA}, None, [AT_PATH, AT_ISSUER]),
        ({AT_ROOT: RESOURCE, AT_ISSUER: METADATA}, None, [AT_PATH, AT_ROOT, AT_ISSUER]),
        ({AT_PATH: RESOURCE, OPENID: METADATA}, None, [AT_PATH, AT_ISSUER, OPENID]),
        ({AT_PATH: 401, AT_ROOT: RESOURCE, AT_ISSUER: METADATA}, None, [AT_PATH, AT_ROOT, AT_ISSUER]),
        ({AT_PATH: [], AT_ROOT: RESOURCE, AT_ISSUER: METADATA}, None, [AT_PATH, AT_ROOT, AT_ISSUER]),
        (
            {"https://mcp.example.com/here": RESOURCE, AT_ISSUER: METADATA},
            "https://mcp.example.com/here",
            ["https://mcp.example.com/here", AT_ISSUER],
        ),
    ],
)
@shows(
    "Protected Resource Metadata Discovery Requirements",
    "Authorization Server Metadata Discovery",
    "Authorization Server Discovery",
    "Sequence Diagram",
    "Authorization Server Discovery Sequence Diagram",
)
def test_documents_are_looked_for_in_the_order_that_is_prescribed(
    answers: Answers, hint: str | None, asked: list[str]
) -> None:
    found, urls = walk(answers, hint=hint)
    assert urls == asked
    assert found.server.token_endpoint == METADATA["token_endpoint"]
    assert found.resource == SERVER


@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        (ISSUER, [AT_ISSUER, OPENID]),
        (f"{ISSUER}/", [AT_ISSUER, OPENID]),
        (
            f"{ISSUER}/tenant1",
            [f"{AT_ISSUER}/tenant1", f"{OPENID}/tenant1", f"{ISSUER}/tenant1/.well-known/openid-configuration"],
        ),
        (
            f"{ISSUER}/a/b/",
            [f"{AT_ISSUER}/a/b", f"{OPENID}/a/b", f"{ISSUER}/a/b/.well-known/openid-configuration"],
        ),
    ],
)
@shows("Authorization Server Metadata Discovery")
def test_an_issuer_with_a_path_has_its_documents_at_three_places_and_never_at_the_root(
    issuer: str, urls: list[str]
) -> None:
    assert server_metadata_urls(issuer) == urls


@shows("Canonical Server URI")
def test_which_resources_are_those_of_a_server() -> None:
    cases: list[tuple[str, bool]] = [
        (SERVER, True),
        ("https://mcp.example.com", True),
        ("https://mcp.example.com/", True),
        ("https://mcp.example.com/public", True),
        ("https://mcp.example.com/public/", True),
        ("HTTPS://MCP.example.com:443/public/mcp", True),
        (f"{SERVER}?tenant=1", True),
        ("https://mcp.example.com/pub", False),
        ("https://mcp.example.com/public/mcp/more", False),
        ("https://mcp.example.com/PUBLIC/mcp", False),
        ("https://mcp.example.com:8443/public/mcp", False),
        ("http://mcp.example.com/public/mcp", False),
        ("https://mcp.example.com.evil.com/public/mcp", False),
        ("https://evil.com/public/mcp", False),
        ("https://mcp.example.com@evil.com/public/mcp", False),
        (f"{SERVER}#part", False),
        ("mcp.example.com", False),
        ("", False),
    ]
    for resource, fits in cases:
        assert is_resource_of(resource, f"{SERVER}?session=1") is fits


@shows("Canonical Server URI", "Resource Parameter Implementation")
def test_equal_resources_are_equal_texts() -> None:
    """And what is no URL is itself: other audiences are names."""
    cases: list[tuple[str, str]] = [
        ("https://mcp.test/mcp", "https://mcp.test/mcp"),
        ("HTTPS://MCP.Test/mcp", "https://mcp.test/mcp"),
        ("https://mcp.test:443/Mcp", "https://mcp.test/Mcp"),
        ("https://mcp.test:8443/mcp", "https://mcp.test:8443/mcp"),
        ("https://mcp.test", "https://mcp.test"),
        ("https://mcp.test/", "https://mcp.test"),
        ("https://mcp.test/mcp/", "https://mcp.test/mcp/"),
        ("https://mcp.test/mcp?tenant=a", "https://mcp.test/mcp?tenant=a"),
        ("http://127.0.0.1:80/mcp", "http://127.0.0.1/mcp"),
        ("urn:other", "urn:other"),
        ("not a URL", "not a URL"),
        ("https://[", "https://["),
    ]
    for written, canonical in cases:
        assert canonical_resource(written) == canonical


@shows("Resource Parameter Implementation", "Token Audience Binding and Validation")
def test_what_a_server_calls_itself_is_sent_byte_for_byte() -> None:
    found, _ = walk({AT_PATH: {**RESOURCE, "resource": "https://mcp.example.com"}, AT_ISSUER: METADATA})
    assert found.resource == "https://mcp.example.com"


@shows("Authorization Server Metadata Discovery")
def test_documents_that_must_not_be_used_are_not(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Answers, str]] = [
        ({AT_PATH: 500}, "HTTP status 500"),
        ({AT_PATH: RESOURCE, AT_ISSUER: 503}, "HTTP status 503"),
        ({AT_PATH: {**RESOURCE, "resource": "https://evil.com"}}, "somebody else"),
        ({AT_PATH: {"authorization_servers": [ISSUER]}}, "no resource"),
        ({AT_PATH: {"resource": SERVER}}, "names no authorization server"),
        ({AT_PATH: {**RESOURCE, "authorization_servers": "x"}}, "not a list"),
        ({AT_PATH: {**RESOURCE, "authorization_servers": ["ftp://x"]}}, "cannot be used"),
        ({AT_PATH: RESOURCE}, r"has no metadata at \S+ \(HTTP status 404\), "),
        ({AT_PATH: RESOURCE, AT_ISSUER: 401}, r"has no metadata at \S+ \(HTTP status 401\), "),
        ({AT_PATH: RESOURCE, AT_ISSUER: []}, r"has no metadata at \S+ \(not a JSON object\), "),
        ({AT_PATH: RESOURCE, AT_ISSUER: 429}, "answered with HTTP status 429"),
        ({AT_PATH: 429}, "answered with HTTP status 429"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "issuer": ""}}, "name the issuer '', not"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "issuer": f"{ISSUER}//"}}, "not used"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "issuer": ISSUER.upper()}}, "not used"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "issuer": f"{ISSUER}:443"}}, "not used"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "issuer": f"{ISSUER}?/"}}, "not used"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "issuer": "https://honest.example"}}, "not used"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "token_endpoint": None}}, "no token_endpoint"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "token_endpoint": 5}}, "not a string"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "token_endpoint": "javascript:x"}}, "cannot be used"),
        ({AT_PATH: RESOURCE, AT_ISSUER: {**METADATA, "token_endpoint": "https://u:p@x/"}}, "password"),
    ]
    for answers, problem in cases:
        with subtests.test(answers=answers), pytest.raises(AuthorizationFailed, match=problem):
            walk(answers)


@shows("Authorization Server Location")
def test_the_first_of_several_authorization_servers_that_answers_is_used() -> None:
    other = "https://gone.example"
    found, _ = walk({AT_PATH: {**RESOURCE, "authorization_servers": [other, ISSUER]}, AT_ISSUER: METADATA})
    assert found.server.issuer == ISSUER


def test_authorization_servers_that_are_dead_hide_none(subtests: pytest.Subtests) -> None:
    """Nor does one that has nothing here hide that another may be there again in a while."""
    others = {"https://down.example": 503, "https://busy.example": 429, "https://none.example": 404}
    places = {f"{other}/.well-known/oauth-authorization-server": status for other, status in others.items()}
    for other in others:
        for named in ([other, ISSUER], [ISSUER, other]):
            with subtests.test(named=named):
                answers = {AT_PATH: {**RESOURCE, "authorization_servers": named}, AT_ISSUER: METADATA, **places}
                assert walk(answers, former=other)[0].server.issuer == ISSUER
    with pytest.raises(AuthorizationFailed, match="503") as failed:
        servers = ["https://none.example", "https://down.example"]
        walk({AT_PATH: {**RESOURCE, "authorization_servers": servers}, **places})
    assert failed.value.may_pass


def test_a_slash_in_place_of_no_path_makes_no_other_issuer(subtests: pytest.Subtests) -> None:
    """The documents of one issuer differ in it."""
    slash = f"{ISSUER}/"
    for named, said, chosen in (
        (ISSUER, slash, None),
        (slash, ISSUER, None),
        (slash, slash, ISSUER),
        (ISSUER, ISSUER, slash),
        (ISSUER, slash, slash),
    ):
        with subtests.test(named=named, said=said, chosen=chosen):
            resource = {**RESOURCE, "authorization_servers": ["https://other.example", named]}
            answers = {AT_PATH: resource, AT_ISSUER: {**METADATA, "issuer": said}}
            found, urls = walk(answers, issuer=chosen, former=None if chosen else said)
            assert (found.server.issuer, urls) == (said, [AT_PATH, AT_ISSUER])
    at_path = "https://auth.example.com/.well-known/oauth-authorization-server/tenant"
    for named, said in ((f"{ISSUER}/tenant", f"{ISSUER}/tenant/"), (f"{ISSUER}/tenant/", f"{ISSUER}/tenant")):
        answers = {AT_PATH: {**RESOURCE, "authorization_servers": [named]}}
        with subtests.test(said=said), pytest.raises(AuthorizationFailed, match="not used"):
            walk({**answers, at_path: {**METADATA, "issuer": said}})


def test_an_authorization_server_that_was_chosen_is_the_only_one() -> None:
    answers = {
        AT_PATH: {**RESOURCE, "authorization_servers": ["https://other.example", ISSUER]},
        AT_ISSUER: METADATA,
    }
    found, urls = walk(answers, issuer=ISSUER)
    assert urls == [AT_PATH, AT_ISSUER]
    assert found.server.issuer == ISSUER
    with pytest.raises(AuthorizationFailed, match="set up for"):
        walk({AT_PATH: RESOURCE, AT_ISSUER: METADATA}, issuer="https://mine.example")


ORIGIN: Final = "https://mcp.example.com"


@shows(
    "Server Metadata Discovery",
    "Server Metadata Discovery Headers",
    "Authorization Base URL",
    "Decision Flow Overview",
    "Authorization Metadata Discovery",
)
def test_a_server_of_2025_03_26_is_its_own_authorization_server() -> None:
    url = f"{ORIGIN}/.well-known/oauth-authorization-server"
    found, urls = walk({url: {"issuer": ORIGIN, "token_endpoint": f"{ORIGIN}/oauth/token"}})
    assert urls == [AT_PATH, AT_ROOT, url]
    assert (found.server.token_endpoint, found.resource) == (f"{ORIGIN}/oauth/token", SERVER)


@shows("Fallbacks for Servers without Metadata Discovery")
def test_a_server_of_2025_03_26_without_metadata_has_its_endpoints_at_the_root() -> None:
    found, urls = walk({})
    assert urls == [AT_PATH, AT_ROOT, f"{ORIGIN}/.well-known/oauth-authorization-server"]
    server = found.server
    assert (server.authorization_endpoint, server.token_endpoint, server.registration_endpoint) == (
        f"{ORIGIN}/authorize",
        f"{ORIGIN}/token",
        f"{ORIGIN}/register",
    )


def test_which_addresses_are_on_the_internet() -> None:
    cases: list[tuple[str, bool]] = [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("8.8.8.8", True),
        ("64:ff9b::808:808", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("172.31.255.255", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
        ("224.0.0.1", False),
        ("192.0.2.1", False),
        ("198.18.0.1", False),
        ("240.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fd12:3456::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("2002:7f00:1::", False),
        ("2002:a00:1::", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2001:db8::1", False),
        ("localhost", False),
        ("", False),
        ("017700000001", False),
    ]
    for address, is_public in cases:
        assert is_public_address(address) is is_public


@shows("Canonical Server URI")
def test_the_query_of_a_server_that_says_nothing_of_itself_is_not_sent() -> None:
    steps = discover(f"{SERVER}?session=1#part")
    try:
        next(steps)
        while True:
            steps.send(Fetched(404))
    except StopIteration as done:
        assert done.value.resource == SERVER


@shows("Server Metadata Discovery Headers")
def test_the_revision_is_named_where_a_server_of_2025_03_26_is_asked() -> None:
    steps = discover(SERVER)
    fetch = next(steps)
    while fetch.url != f"{ORIGIN}/.well-known/oauth-authorization-server":
        fetch = steps.send(Fetched(404))
    assert dict(fetch.headers) == {"MCP-Protocol-Version": "2025-03-26"}
