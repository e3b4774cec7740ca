"""A server that is protected by OAuth: who is let in, what others are told, and what each may do. No sockets."""

from __future__ import annotations

import base64
import functools
import gc
import hashlib
import hmac
import json
import logging
import re
import time
from collections import Counter
from typing import Any, cast
from urllib.parse import urlsplit

import attrs
import pytest
import trio
import trio.testing
from authorization_pages import shows
from http_raw import Events, Raw, call_tool, modern, open_raw
from http_server_fixtures import EVERY_HOST
from inside_base import repetitions
from inside_protection import guard_module
from living import objects_of_ours
from raw import initialize

from trio_mcp import (
    Context,
    HttpServerParameters,
    HttpServerSettings,
    JwtVerifier,
    McpASGI,
    Principal,
    Proxy,
    ResourceServer,
    Server,
    StaticToken,
)
from trio_mcp.testing import AuthorizationServer

pytestmark = pytest.mark.usefixtures("under")

ISSUER = "https://login.test"
RESOURCE = "https://mcp.test/mcp"
METADATA = "https://mcp.test/.well-known/oauth-protected-resource/mcp"
AUTHORIZATION = AuthorizationServer(issuer=ISSUER)
"""Made once: what it has signed is not changed by anybody."""


def protection(**options: Any) -> ResourceServer:
    verifier = JwtVerifier(ISSUER, jwks=AUTHORIZATION.jwks())
    given: dict[str, Any] = {"authorization_servers": [ISSUER], "verifier": verifier, **options}
    return ResourceServer(RESOURCE, **given)


def bearer(*scopes: str, **claims: Any) -> dict[str, str]:
    given: dict[str, Any] = {"resource": RESOURCE, **claims}
    token = AUTHORIZATION.issue(scopes=scopes, **given)
    return {"Authorization": f"Bearer {token}"}


def make_server() -> Server[Any]:
    server: Server[Any] = Server("protected")

    @server.tool
    async def whoami(ctx: Context) -> dict[str, Any]:
        who = ctx.principal
        assert isinstance(who, Principal)
        return {"who": who, "subject": who.subject, "scopes": sorted(who.scopes), "headers": sorted(ctx.headers)}

    @server.tool(scopes={"orders:write"})
    async def order(title: str) -> str:
        return title

    @server.tool(scopes=lambda who: who is not None and who.subject == "root")
    async def shut_down() -> str:
        return "down"

    @server.prompt(scopes={"orders:read"})
    def summarise(order: str) -> str:
        return order

    @server.resource("orders://recent", scopes={"orders:read"})
    def recent() -> str:
        return "few"

    @server.resource("orders://{id}", scopes={"orders:read"})
    def one(id: str) -> str:
        return id

    server.add_resource("public://x", "x")
    return server


def challenge_of(headers: dict[str, str]) -> dict[str, str]:
    """Return the parameters of the one challenge."""
    scheme, _, rest = headers["www-authenticate"].partition(" ")
    return {"scheme": scheme, **dict(re.findall(r'(\w+)="([^"]*)"', rest))}


@shows("Authorization Server Location")
@shows("Protected Resource Metadata Discovery Requirements")
@shows("Authorization Server Discovery")
@shows("Error Handling")
@EVERY_HOST
async def test_without_a_token_clients_are_shown_the_way() -> None:
    """RFC 9728, section 5.1, before anything of the body is read; and every page may read the metadata."""
    async with open_raw(make_server(), auth=protection(scopes={"mcp"}, name="Orders")) as raw:
        for message, method in ((b"not JSON", "POST"), (None, "GET"), (None, "DELETE"), (call_tool("x"), "POST")):
            refused = await raw.send(message, method=method)
            assert refused.status == 401
            assert challenge_of(refused.headers) == {
                "scheme": "Bearer",
                "resource_metadata": METADATA,
                "scope": "mcp",
            }
        path = urlsplit(METADATA).path
        for place in (path, "/.well-known/oauth-protected-resource"):
            metadata = await raw.send(None, {"Origin": "https://app.test"}, method="GET", path=place)
            assert metadata.status == 200
            assert metadata.headers["access-control-allow-origin"] == "*"
            assert metadata.message == {
                "resource": RESOURCE,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["mcp"],
                "resource_name": "Orders",
                "dpop_signing_alg_values_supported": metadata.message["dpop_signing_alg_values_supported"],
                "dpop_bound_access_tokens_required": False,
            }
        preflight = await raw.send(None, {"Origin": "https://app.test"}, method="OPTIONS", path=path)
        assert (preflight.status, preflight.headers["access-control-allow-headers"]) == (204, "*")
        assert (await raw.send(None, method="POST", path=path)).status == 405
        assert (await raw.send(None, method="GET", path="/.well-known/other")).status == 404


@shows("Token Requirements")
@shows("Access Token Usage")
async def test_a_token_says_who_it_is() -> None:
    """Its issuer and its subject are the principal; handlers get no credentials."""
    async with open_raw(make_server(), auth=protection()) as raw:
        for _ in range(3):
            answer = await raw.send(call_tool("whoami"), {**bearer("a"), "Cookie": "c=1", "X-Trace": "7"})
            assert answer.status == 200
            result = answer.message["result"]["structuredContent"]
            assert (result["who"], result["subject"], result["scopes"]) == (f"{ISSUER} ann", "ann", ["a"])
            assert "x-trace" in result["headers"]
            assert not {"authorization", "cookie"} & set(result["headers"])


def signed_by_nobody() -> str:
    parts = bearer()["Authorization"].split(".")
    return ".".join(["Bearer eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0", parts[1], ""])


def signed_by_the_public_key() -> str:
    """RFC 8725, section 2.1: the public key as a shared secret."""
    header = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=").decode()
    claims = bearer()["Authorization"].split(".")[1]
    secret = json.dumps(AUTHORIZATION.jwks()["keys"][0]).encode()
    tag = hmac.digest(secret, f"{header}.{claims}".encode(), hashlib.sha256)
    return f"Bearer {header}.{claims}.{base64.urlsafe_b64encode(tag).rstrip(b'=').decode()}"


def signed_with(more: dict[str, Any]) -> str:
    """Return a token with more in its header; signed by hand, since the library refuses to."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    header, claims, _ = bearer()["Authorization"].removeprefix("Bearer ").split(".")
    plain = {**json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4))), **more}
    header = base64.urlsafe_b64encode(json.dumps(plain).encode()).rstrip(b"=").decode()
    key: Any = AUTHORIZATION._issued._key.private_key
    pair = utils.decode_dss_signature(key.sign(f"{header}.{claims}".encode(), ec.ECDSA(hashes.SHA256())))
    signature = b"".join(number.to_bytes(32, "big") for number in pair)
    return f"{header}.{claims}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def changed() -> str:
    scheme_header, claims, signature = bearer()["Authorization"].split(".")
    plain = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)).replace(b'"ann"', b'"bob"')
    return f"{scheme_header}.{base64.urlsafe_b64encode(plain).rstrip(b'=').decode()}.{signature}"


@shows("Token Handling")
@shows("Error Handling")
@shows("Token Audience Binding and Validation")
async def test_other_tokens_are_refused(caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests) -> None:
    """Each by a constant text; neither the answer nor the log shows anything of it."""
    rows: list[tuple[str, str]] = [
        (bearer(lifetime=-120)["Authorization"], "the token has expired"),
        (bearer(nbf=4_000_000_000)["Authorization"], "the token is not valid yet"),
        (bearer(resource="https://other.test/mcp")["Authorization"], "the token is for another resource"),
        (bearer(resource="https://mcp.test")["Authorization"], "the token is for another resource"),
        (bearer(resource=None)["Authorization"], "the token is for another resource"),
        (bearer(exp="soon")["Authorization"], "exp of the token is no time"),
        (bearer(sub="")["Authorization"], "the token does not say whose it is"),
        (bearer(key="k")["Authorization"], "the token is bound to a key, and needs a proof"),
        (bearer(cnf={"x5t#S256": "c"})["Authorization"], "the token is bound to another certificate"),
        (bearer(cnf={"other": 1})["Authorization"], "the token is bound to something that is not known here"),
        (bearer(iss="https://evil.test")["Authorization"], "the token is not valid"),
        (signed_by_nobody(), "the token is signed by an algorithm that is not accepted"),
        (signed_by_the_public_key(), "the token is signed by an algorithm that is not accepted"),
        (changed(), "the signature of the token is wrong"),
        ("Bearer abc", "the token is not valid"),
        ("Bearer a.b.c", "the token is not valid"),
        ("Bearer WyJhbGciXQ.e30.AA", "the token is not valid"),  # whose header is a list
        ("Bearer " + "x" * 17_000, "the token is too long"),
        ("Bearer \xe4", "the token is not valid"),
    ]
    async with open_raw(make_server(), auth=protection()) as raw:
        for field, reason in rows:
            with subtests.test(field=field[:100], reason=reason):
                repetitions.forget()  # what is logged of the last one would not be logged again
                for _ in range(2):
                    refused = await raw.send(call_tool("whoami"), {"Authorization": field})
                    assert refused.status == 401
                    said = challenge_of(refused.headers)
                    assert (said["error"], said["error_description"]) == ("invalid_token", reason)
                    assert said["resource_metadata"] == METADATA
                    if len(field) > 20:
                        assert field[-20:] not in caplog.text + refused.body.decode() + repr(refused.headers)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"iss": "https://evil.test\n"}, "issuer 'https://evil.test\\n' is none of authorization_servers ["),
        (
            {"resource": "https://other.test/mcp"},
            f"its audience is ['https://other.test/mcp'], expected one of ['{RESOURCE}']",
        ),
    ],
)
async def test_the_log_says_what_came_and_what_was_expected(
    claims: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of whoever asks, only the server's operator learns it."""
    field = bearer(**claims)["Authorization"]
    with caplog.at_level(logging.INFO, "trio_mcp.authorization"):
        async with open_raw(make_server(), auth=protection()) as raw:
            refused = await raw.send(call_tool("whoami"), {"Authorization": field})
    assert refused.status == 401
    assert said in caplog.text
    assert said not in refused.body.decode() + repr(refused.headers)
    assert field[-20:] not in caplog.text


async def test_other_ways_to_log_in_are_none(subtests: pytest.Subtests) -> None:
    """As without a token: there is nothing to say about it (RFC 6750, section 3.1)."""
    async with open_raw(make_server(), auth=protection()) as raw:
        for field in ("Basic YTpi", "Bearer", "Bearer ", ""):
            with subtests.test(field=field):
                refused = await raw.send(call_tool("whoami"), {"Authorization": field})
                assert (refused.status, "error" in challenge_of(refused.headers)) == (401, False)


@shows("Token Requirements")
async def test_a_token_in_a_url_is_not_looked_at() -> None:
    """It would be in logs and histories."""
    token = bearer()["Authorization"].removeprefix("Bearer ")
    async with open_raw(make_server(), auth=protection()) as raw:
        refused = await raw.send(call_tool("whoami"), path=f"/mcp?access_token={token}")
        assert refused.status == 401


async def test_headers_of_tokens_may_hold_more() -> None:
    """What is not known and not critical is ignored, such as a chain of certificates; what is critical is not."""
    for more, status in (({"x5c": ["A" * 4_000], "private": 1}, 200), ({"crit": ["exp"], "exp": 1}, 401)):
        own = {"Authorization": f"Bearer {signed_with(more)}"}
        async with open_raw(make_server(), auth=protection()) as raw:
            assert (await raw.send(call_tool("whoami"), own)).status == status


async def test_made_up_tokens_displace_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are remembered apart, for a short time, and as many as there is room for."""
    asked: list[str] = []

    async def verify(token: str) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        asked.append(token)
        return {"sub": token, "aud": RESOURCE} if token == "ann" else None

    monkeypatch.setattr(guard_module, "_MAX_REFUSED", 3)
    auth = protection(verifier=verify, max_kept_bytes=4_000)
    async with open_raw(make_server(), auth=auth) as raw:
        for token in ("ann", *map(str, range(5)), "4", "0", "ann"):
            await raw.send(call_tool("whoami"), {"Authorization": f"Bearer {token}"})
    assert asked == ["ann", "0", "1", "2", "3", "4", "0"]


@shows("Canonical Server URI")
async def test_a_token_may_be_for_several(subtests: pytest.Subtests) -> None:
    """RFC 7519, section 4.1.3; names of hosts have no case."""
    rows: list[Any] = [RESOURCE, "HTTPS://MCP.test:443/mcp", ["https://x.test", RESOURCE]]
    async with open_raw(make_server(), auth=protection()) as raw:
        for audience in rows:
            with subtests.test(audience=audience):
                assert (await raw.send(call_tool("whoami"), bearer(aud=audience))).status == 200


# Scopes.


@shows("Scope Challenge Handling")
@shows("Error Handling")
async def test_what_every_request_needs() -> None:
    """403, and not 401: another login of the same kind would not help."""
    async with open_raw(make_server(), auth=protection(scopes={"mcp"})) as raw:
        refused = await raw.send(call_tool("whoami"), bearer("other"))
        assert refused.status == 403
        said = challenge_of(refused.headers)
        assert (said["error"], said["scope"], said["resource_metadata"]) == (
            "insufficient_scope",
            "mcp",
            METADATA,
        )
        assert "close" not in refused.headers.get("connection", "")
        assert (await raw.send(call_tool("whoami"), bearer("mcp"))).status == 200
        assert (await raw.send(call_tool("whoami"), bearer("other"))).status == 403, "also the second time"


async def listed(raw: Raw, method: str, kind: str, headers: dict[str, str]) -> tuple[list[str], str]:
    result = (await raw.send(modern(method), headers)).message["result"]
    return [item.get("name") for item in result[kind]], result["cacheScope"]


async def test_what_is_not_permitted_is_not_listed() -> None:
    """And the lists are for nobody else."""
    few, more, root = bearer("a"), bearer("orders:read", "orders:write"), bearer(subject="root")
    async with open_raw(make_server(), auth=protection()) as raw:
        assert await listed(raw, "tools/list", "tools", few) == (["whoami"], "private")
        assert await listed(raw, "tools/list", "tools", more) == (["whoami", "order"], "private")
        assert await listed(raw, "tools/list", "tools", root) == (["whoami", "shut_down"], "private")
        assert await listed(raw, "prompts/list", "prompts", few) == ([], "private")
        assert await listed(raw, "prompts/list", "prompts", more) == (["summarise"], "private")
        assert await listed(raw, "resources/list", "resources", few) == (["x"], "private")
        assert await listed(raw, "resources/list", "resources", more) == (["recent", "x"], "private")
        templates = "resources/templates/list", "resourceTemplates"
        assert await listed(raw, *templates, few) == ([], "private")
        assert await listed(raw, *templates, more) == (["one"], "private")


REQUESTS = [
    (modern("tools/call", name="order", arguments={"title": "Dune"}), "orders:write"),
    (modern("prompts/get", name="summarise", arguments={"order": "1"}), "orders:read"),
    (modern("resources/read", uri="orders://recent"), "orders:read"),
    (modern("resources/read", uri="orders://7"), "orders:read"),
    (modern("subscriptions/listen", notifications={"resourceSubscriptions": ["orders://7"]}), "orders:read"),
]


@shows("Scope Challenge Handling")
@shows("Runtime Insufficient Scope Errors")
async def test_who_lacks_a_scope_is_asked_to_come_back_with_it(subtests: pytest.Subtests) -> None:
    """Before anything is done; with all that the request needs (RFC 6750, section 3.1)."""
    async with open_raw(make_server(), auth=protection(scopes={"mcp"})) as raw:
        for request_, scope in REQUESTS:
            with subtests.test(request=request_, scope=scope):
                refused = await raw.send(request_, bearer("mcp"))
                assert refused.status == 403
                said = challenge_of(refused.headers)
                assert (said["error"], said["scope"]) == ("insufficient_scope", f"mcp {scope}")
                if request_["method"] != "subscriptions/listen":
                    assert (await raw.send(request_, bearer("mcp", scope))).status == 200


async def test_what_a_function_refuses_is_not_there() -> None:
    """No scope would help, so nothing is said about it."""
    async with open_raw(make_server(), auth=protection()) as raw:
        refused = await raw.send(call_tool("shut_down"), bearer())
        unknown = await raw.send(call_tool("no_such"), bearer())
        assert (refused.status, refused.error["message"]) == (unknown.status, "Unknown tool: shut_down")
        assert refused.error["code"] == unknown.error["code"]
        misspelt = await raw.send(call_tool("shut_dwn"), bearer())
        assert misspelt.error["message"] == "Unknown tool: shut_dwn", "nobody is shown its name"
        assert (await raw.send(call_tool("shut_down"), bearer(subject="root"))).status == 200


async def test_a_scope_includes_others() -> None:
    """A hierarchy, however deep; circles in it do no harm."""
    implies = {"admin": {"orders:write"}, "orders:write": {"orders:read"}, "orders:read": {"admin"}}
    async with open_raw(make_server(), auth=protection(scope_implies=implies)) as raw:
        answer = await raw.send(modern("resources/read", uri="orders://recent"), bearer("admin"))
        assert answer.status == 200


async def test_scopes_count_in_sessions_and_in_batches_too() -> None:
    """The legacy era."""
    few, more = bearer("mcp"), bearer("mcp", "orders:write")
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
    call["params"] = {"name": "order", "arguments": {"title": "Dune"}}
    async with open_raw(make_server(), auth=protection()) as raw:
        for body in (call, [call]):
            began = await raw.send(initialize("2025-03-26"), few)
            session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
            refused = await raw.send(body, {**few, **session})
            assert (refused.status, challenge_of(refused.headers)["scope"]) == (403, "orders:write")
            assert (await raw.send(body, {**more, **session})).status == 200


async def test_http_and_sse_is_protected_too() -> None:
    """The deprecated transport: its stream, and each message that is posted beside it."""
    few, more = bearer("mcp"), bearer("mcp", "orders:write")
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
    call["params"] = {"name": "order", "arguments": {"title": "Dune"}}
    settings = HttpServerSettings(sse=True)
    async with open_raw(make_server(), settings, auth=protection(scopes={"mcp"})) as raw:
        refused = await raw.send(None, {"Accept": "text/event-stream"}, method="GET", path="/sse")
        assert refused.status == 401
        opening = raw.open(None, {**few, "Accept": "text/event-stream"}, method="GET", path="/sse")
        async with opening as response:
            events = Events(response)
            first = await events.next()
            assert first is not None
            path = first.data.decode()
            assert (await raw.send(initialize("2024-11-05"), path=path)).status == 401
            assert (await raw.send(initialize("2024-11-05"), few, path=path)).status == 202
            await events.message()
            assert (await raw.send(call, few, path=path)).status == 403
            assert (await raw.send(call, bearer("mcp", "orders:write", subject="bob"), path=path)).status == 404
            assert (await raw.send(call, more, path=path)).status == 202
            assert (await events.message())["result"]["content"] == [{"type": "text", "text": "Dune"}]


@shows("Protocol Requirements")
async def test_over_stdio_and_in_memory_nothing_is_asked(under: str) -> None:
    """Who has started the server may use all of it (basic/authorization: stdio has no authorization)."""
    from trio_mcp import open_client

    async with open_client(make_server()) as client:
        assert {tool.name async for tool in client.list_tools()} == {"whoami", "order", "shut_down"}
        assert not (await client.call_tool("order", {"title": "Dune"})).is_error


async def test_without_authorization_scopes_let_nobody_in() -> None:
    """A server that was meant to be protected, and is not."""
    async with open_raw(make_server()) as raw:
        refused = await raw.send(call_tool("order", title="Dune"))
        assert refused.error["data"] == {"scopes": ["orders:write"]}
        assert [tool["name"] for tool in (await raw.send(modern("tools/list"))).message["result"]["tools"]] == [
            "whoami"
        ]


def test_scopes_are_several_strings() -> None:
    """A string would be a set of letters, and what is shared with all cannot be for a few."""
    server: Server[Any] = Server("x")
    wrong: Any
    for wrong in ("orders", 7, ["a b"], [7]):
        with pytest.raises(TypeError, match="scopes"):
            server.tool(name="x", scopes=wrong)(lambda: None)
    with pytest.raises(ValueError, match="scope"):
        server.add_resource("x://y", "", scopes={"a"}, scope="public")
    with pytest.raises(TypeError, match="several"):
        ResourceServer(RESOURCE, authorization_servers=[ISSUER], scopes="mcp")


async def test_a_function_for_scopes_that_fails_permits_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is called for lists, too. One that would be true whatever it says is refused, late or early."""
    server: Server[Any] = Server("x")
    decide: Any = None

    async def later(who: Principal | None) -> bool:
        return False

    class Later:
        async def __call__(self, who: Principal | None) -> bool:
            return False

    def undecided(who: Principal | None) -> Any:
        return decide(who)

    def fail(who: Principal | None) -> bool:
        raise LookupError("s3cret")

    def nothing(who: Principal | None) -> Any:
        return []

    def complete(value: str) -> list[str]:
        return ["reached"]

    for wrong in (later, Later(), functools.partial(later)):
        with pytest.raises(TypeError, match="async"):
            server.tool(name="x", scopes=cast("Any", wrong))(lambda: None)

    @server.tool(scopes=undecided)
    async def guarded() -> str:
        return "reached"

    @server.resource("x://{id}", scopes=undecided)
    def one(id: str) -> str:
        return f"reached {id}"

    server.completion("x://{id}", "id")(complete)

    @server.prompt(scopes=undecided)
    def say() -> str:
        return "reached"

    requests = [
        call_tool("guarded"),
        modern("tools/list"),
        modern("prompts/list"),
        modern("resources/templates/list"),
        modern("resources/read", uri="x://1"),
        modern("prompts/get", name="say"),
        modern("completion/complete", ref={"type": "ref/resource", "uri": "x://{id}"}, argument=ARGUMENT),
        modern("subscriptions/listen", notifications={"resourceSubscriptions": ["x://1"]}),
    ]
    async with open_raw(server, auth=protection()) as raw:
        for decide in (fail, later, nothing):
            for request_ in requests:
                with trio.fail_after(10):
                    answer = await raw.send(request_, bearer("orders:read"))
                text = answer.body.decode()
                assert "reached" not in text
                assert "s3cret" not in text
                kind = {"tools/list": "tools", "prompts/list": "prompts"}.get(
                    request_["method"], "resourceTemplates"
                )
                if "result" in answer.message:
                    assert answer.message["result"][kind] == [], text
                    assert decide not in (fail, later)
    assert "s3cret" in caplog.text


ARGUMENT = {"name": "id", "value": ""}


async def test_what_nobody_may_see_completes_nothing_for_them() -> None:
    """Neither prompts nor templates, nor with arguments that were filled in before."""
    server: Server[Any] = Server("x")
    completed: list[str] = []

    def complete(value: str) -> list[str]:
        completed.append(value)
        return ["7"]

    @server.prompt(scopes={"orders:read"})
    def summarise(order: str) -> str:
        return order

    @server.resource("orders://{id}", scopes={"orders:read"})
    def one(id: str) -> str:
        return id

    server.completion("summarise", "order")(complete)
    server.completion("orders://{id}", "id")(complete)
    refs = [
        ({"type": "ref/prompt", "name": "summarise"}, "order"),
        ({"type": "ref/resource", "uri": "orders://{id}"}, "id"),
    ]
    async with open_raw(server, auth=protection(scopes={"mcp"})) as raw:
        for ref, name in refs:
            message = modern("completion/complete", ref=ref, argument={"name": name, "value": "x"})
            refused = await raw.send(message, bearer("mcp"))
            assert refused.status == 403
            assert challenge_of(refused.headers)["scope"] == "mcp orders:read"
            assert completed == []
            answer = await raw.send(message, bearer("mcp", "orders:read"))
            assert answer.message["result"]["completion"]["values"] == ["7"]
            completed.clear()


async def test_nobody_is_notified_of_what_they_may_not_read() -> None:
    """However the URI is written; and one among many is enough to be refused."""
    async with open_raw(make_server(), auth=protection()) as raw:
        for uri in ("orders://7", "ORDERS://7", "orders://%37", "orders://recent"):
            wanted = {"resourceSubscriptions": ["public://x", uri]}
            refused = await raw.send(modern("subscriptions/listen", notifications=wanted), bearer())
            assert refused.status == 403, uri
        began = await raw.send(initialize("2025-11-25"), bearer())
        session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
        message = {"jsonrpc": "2.0", "id": 5, "method": "resources/subscribe", "params": {"uri": "orders://7"}}
        assert (await raw.send(message, {**bearer(), **session})).status == 403


@EVERY_HOST
async def test_a_challenge_holds_nothing_but_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a request, a token or the names of scopes contain: one field, one line."""
    server: Server[Any] = Server("x")
    odd = 'a",error="x\\'

    @server.tool(scopes={odd, "b"})
    async def order() -> str:
        return "ordered"

    async with open_raw(server, auth=protection()) as raw:
        refused = await raw.send(call_tool("order"), bearer("b"))
        assert refused.headers["www-authenticate"].count("insufficient_scope") == 1
        assert 'scope="a\\",error=\\"x\\\\ b"' in refused.headers["www-authenticate"]
        for token in ('x", error="y', "a\tb", "\xa0\xff", "%0d%0aSet-Cookie: a=b"):
            refused = await raw.send(call_tool("order"), {"Authorization": f"Bearer {token}"})
            assert refused.status == 401
            assert challenge_of(refused.headers)["error_description"] == "the token is not valid"
            assert token not in repr(refused.headers) + caplog.text
    assert not any("\n" in record.getMessage() for record in caplog.records)


# What belongs to somebody.


async def test_another_token_of_the_same_person_finds_its_session() -> None:
    """A session belongs to issuer and subject: a refreshed token does not lose it, and nobody else finds it."""
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with open_raw(make_server(), auth=protection()) as raw:
        began = await raw.send(initialize("2025-11-25"), bearer())
        session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
        assert (await raw.send(ping, {**bearer("more", client_id="x"), **session})).status == 200
        assert (await raw.send(ping, {**bearer(subject="bob"), **session})).status == 404
        assert (await raw.send(ping, session)).status == 401


@shows("Token Theft")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@EVERY_HOST
async def test_a_stream_ends_when_its_token_expires(era: str, autojump_clock: trio.testing.MockClock) -> None:
    """A long one must not outlive the right to read it; requests that are under way are finished."""
    settings = HttpServerSettings(keep_alive_interval=1_000)
    ready = trio.Event()
    server = make_server()

    @server.tool
    async def wait() -> str:
        ready.set()
        await trio.sleep(500)
        return "done"

    async with open_raw(server, settings, auth=protection(leeway=0.0)) as raw, trio.open_nursery() as nursery:
        own = bearer(lifetime=100)
        answers: list[int] = []

        async def call() -> None:
            answers.append((await raw.send(call_tool("wait"), own)).status)

        nursery.start_soon(call)
        await ready.wait()
        if era == "modern":
            message: Any = modern("subscriptions/listen", notifications={"toolsListChanged": True})
            opening = raw.open(message, own)
        else:
            began = await raw.send(initialize("2025-11-25"), own)
            headers = {**own, "Mcp-Session-Id": began.headers["mcp-session-id"], "Accept": "text/event-stream"}
            opening = raw.open(None, headers, method="GET")
        began_at = trio.current_time()
        async with opening as response:
            events = Events(response)
            with pytest.raises(Exception, match=r"middle|ended|closed"):
                while not events.has_ended:
                    await events.next()
                raise RuntimeError("it has ended in good order")
            assert 95 < trio.current_time() - began_at < 101
    assert answers == [200]


# What is remembered.


async def test_a_token_is_verified_once_in_a_while() -> None:
    """Kept by its hash for `keep_for`, in `max_kept_bytes`, and no longer than it lives."""
    seen: list[str] = []

    async def verify(token: str) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        seen.append(token)
        return None if token == "bad" else {"sub": token, "aud": RESOURCE, "padding": "x" * 1_000}

    auth = protection(verifier=verify, max_kept_bytes=10_000)
    async with open_raw(make_server(), auth=auth) as raw:

        async def ask(token: str) -> int:
            return (await raw.send(call_tool("whoami"), {"Authorization": f"Bearer {token}"})).status

        assert [await ask("ann") for _ in range(3)] == [200] * 3
        assert [await ask("bad") for _ in range(3)] == [401] * 3
        assert seen == ["ann", "bad"]
        for number in range(20):
            assert await ask(f"other {number}") == 200
        seen.clear()
        assert await ask("other 19") == 200
        assert seen == []
        assert await ask("ann") == 200
        assert seen == ["ann"], "others needed the room"


async def test_a_verifier_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    """So that a revoked token is noticed within `keep_for`."""
    revoked = False

    async def verify(token: str) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        return None if revoked else {"client_id": token, "aud": RESOURCE}

    async with open_raw(make_server(), auth=protection(verifier=verify, keep_for=30.0)) as raw:
        own = {"Authorization": "Bearer job"}
        assert (await raw.send(call_tool("whoami"), own)).status == 200
        revoked = True
        await trio.sleep(29)
        assert (await raw.send(call_tool("whoami"), own)).status == 200
        await trio.sleep(2)
        assert (await raw.send(call_tool("whoami"), own)).status == 401


async def test_tokens_are_forgotten_when_they_are_asked_about_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Somebody who comes with another one each minute, good or made up, fills nothing in a day."""

    async def verify(token: str) -> dict[str, Any] | None:
        await trio.lowlevel.checkpoint()
        return None if token.startswith("bad") else {"sub": token, "aud": RESOURCE}

    async with open_raw(make_server(), auth=protection(verifier=verify, keep_for=30.0)) as raw:

        async def bring(minutes: range) -> Counter[str]:
            for number in minutes:
                for token, status in ((f"good{number}", 200), (f"bad{number}", 401)):
                    answer = await raw.send(call_tool("whoami"), {"Authorization": f"Bearer {token}"})
                    assert answer.status == status
                await trio.sleep(60)
            return objects_of_ours()

        before = await bring(range(3))
        after = await bring(range(3, 60))
        kept = "_endpoint._authorization._Kept"
        assert (before[kept], after[kept]) == (1, 1)
        (guard,) = (each for each in gc.get_objects() if type(each).__qualname__ == "Guard")
        assert len(guard._refused) == 1


async def test_an_expired_token_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own time counts before `keep_for`."""
    async with open_raw(make_server(), auth=protection(leeway=0.0)) as raw:
        own = bearer(lifetime=2)
        assert (await raw.send(call_tool("whoami"), own)).status == 200
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3)  # its end is a whole second
        assert (await raw.send(call_tool("whoami"), own)).status == 401


async def test_a_verifier_of_ones_own_that_fails_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    """As `authenticate` does: 500, and the log knows why."""

    async def verify(token: str) -> dict[str, Any] | None:
        raise LookupError(f"no table for {token}")

    async with open_raw(make_server(), auth=protection(verifier=verify)) as raw:
        refused = await raw.send(call_tool("whoami"), {"Authorization": "Bearer s3cret"})
        assert (refused.status, b"s3cret" in refused.body) == (500, False)
    assert any(record.levelno >= logging.ERROR for record in caplog.records)


@shows("Access Token Privilege Restriction")
async def test_a_handler_gets_the_token_if_that_is_wanted() -> None:
    """For exchanging it; never by default, and never in what is printed."""
    server: Server[Any] = Server("x")
    seen: list[Principal | None] = []

    @server.tool
    async def note(ctx: Context) -> None:
        seen.append(ctx.principal)

    own = bearer()
    for hands_on in (False, True):
        async with open_raw(server, auth=protection(hands_on_tokens=hands_on)) as raw:
            assert (await raw.send(call_tool("note"), own)).status == 200
    plain, handed = seen
    token = own["Authorization"].removeprefix("Bearer ")
    assert plain is not None
    assert handed is not None
    assert (plain.token, handed.token) == (None, token)
    assert token not in repr(handed) + str(handed)


@shows("Communication Security")
@shows("Canonical Server URI")
def test_a_resource_is_a_url(subtests: pytest.Subtests) -> None:
    """RFC 8707, section 2: absolute, and without a fragment; plain http is for this machine."""
    rows: list[Any] = ["http://mcp.test/mcp", "https://mcp.test/#x", "mcp.test", "https://", 7]
    for url in rows:
        with subtests.test(url=url), pytest.raises((ValueError, TypeError), match="resource"):
            ResourceServer(url, authorization_servers=[ISSUER])


@shows("Refresh Tokens")
def test_offline_access_is_no_scope_of_a_server() -> None:
    """What a client may do without its user is between the client and the authorization server."""
    for option in ("scopes", "scopes_supported"):
        with pytest.raises(ValueError, match="offline_access"):
            protection(**{option: {"mcp", "offline_access"}})
    with pytest.raises(ValueError, match="offline_access"):
        make_server().tool(name="x", scopes={"offline_access"})(lambda: None)


@shows("Access Token Privilege Restriction")
async def test_a_proxy_sends_no_token_of_its_client_on() -> None:
    """It was issued for the proxy. The server behind is asked with the proxy's own, if there is one."""
    seen: list[str | None] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"authorization", b"").decode() or None)
        await application(scope, receive, send)

    server: Server[Any] = Server("behind")
    server.tool(name="touch")(lambda: "touched")
    application = McpASGI(server)
    for auth, sent in ((None, None), (StaticToken("own"), "Bearer own")):
        seen.clear()
        target = HttpServerParameters("http://localhost:8000/mcp", app=behind)
        target = target if auth is None else attrs.evolve(target, auth=auth)
        proxy: Any = Proxy(target)
        async with open_raw(proxy, auth=protection()) as raw:
            answer = await raw.send(call_tool("touch"), bearer())
            assert answer.message["result"]["content"][0]["text"] == "touched"
        assert set(seen) == {sent}


def test_something_vouches_for_tokens() -> None:
    """By default, the keys of each authorization server."""
    with pytest.raises(ValueError, match="vouches"):
        ResourceServer(RESOURCE)

    async def verify(token: str) -> None:
        pass

    assert "authorization_servers" not in ResourceServer(RESOURCE, verifier=verify).metadata()
    auth = ResourceServer(RESOURCE, authorization_servers=[ISSUER])
    assert auth.verifier == (JwtVerifier(ISSUER),)
    for algorithms in (["none"], ["HS256"], []):
        with pytest.raises(ValueError, match="algorithms"):
            JwtVerifier(ISSUER, algorithms=algorithms)
