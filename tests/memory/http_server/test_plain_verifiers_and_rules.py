"""Functions of users that say who a client is, plain ones too, slow signatures, and what depends on arguments."""

from __future__ import annotations

import functools
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, cast

import pytest
import trio
from http_raw import call_tool, modern, open_raw
from inside_oauth import DpopKey
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from trio_mcp import (
    CertificateVerifier,
    Context,
    HttpCall,
    JwtVerifier,
    OAuth,
    Principal,
    ResourceServer,
    ScopeRule,
    Server,
    open_client,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer

pytestmark = pytest.mark.usefixtures("under")

ISSUER = "https://login.test"
RESOURCE = "https://mcp.test/mcp"
AUTHORIZATION = AuthorizationServer(issuer=ISSUER)


def protection(**options: Any) -> ResourceServer:
    verifier = JwtVerifier(ISSUER, jwks=AUTHORIZATION.jwks())
    given: dict[str, Any] = {"authorization_servers": [ISSUER], "verifier": verifier, **options}
    return ResourceServer(RESOURCE, **given)


def bearer(*scopes: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {AUTHORIZATION.issue(scopes=scopes, resource=RESOURCE)}"}


def make_server() -> Server[Any]:
    server: Server[Any] = Server("orders")

    @server.tool
    async def who(ctx: Context) -> str:
        return str(ctx.principal)

    @server.tool(scopes={"orders:write"})
    async def order() -> str:
        return "done"

    return server


# Functions of users.


def verify_plainly(token: str) -> Mapping[str, object] | None:
    assert threading.current_thread() is not threading.main_thread()
    return {"sub": "ann", "aud": RESOURCE} if token == "k" else None


async def verify(token: str) -> Mapping[str, object] | None:
    await trio.lowlevel.checkpoint()
    return {"sub": "ann", "aud": RESOURCE} if token == "k" else None


def verify_late(token: str) -> Any:
    return verify(token)


def verify_nothing(token: str) -> None:
    assert token


class Verifying:
    async def __call__(self, token: str) -> Mapping[str, object] | None:
        return await verify(token)


async def test_a_verifier_may_be_a_plain_function(subtests: pytest.Subtests) -> None:
    """It runs in a thread, for it may ask a database."""
    rows: list[Any] = [
        verify_plainly,
        functools.partial(verify_plainly),
        verify,
        functools.partial(verify),
        verify_late,
        Verifying(),
        [verify_nothing, verify_plainly],
    ]
    for given in rows:
        with subtests.test(given=given):
            async with open_raw(make_server(), auth=ResourceServer(RESOURCE, verifier=given)) as raw:
                answer = await raw.send(call_tool("who"), {"Authorization": "Bearer k"})
                assert answer.message["result"]["content"][0]["text"] == "ann"
                assert (await raw.send(call_tool("who"), {"Authorization": "Bearer x"})).status == 401


async def test_a_verifier_that_returns_something_else_is_told_what_to_return(
    caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    rows: list[Any] = [True, "ann", 7, ["sub"], ("sub", "ann")]
    for nonsense in rows:
        with subtests.test(nonsense=nonsense):
            await return_from_a_verifier(nonsense, caplog)


async def return_from_a_verifier(nonsense: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Let verifiers of both kinds return this."""

    async def wrong(token: str) -> Any:
        await trio.lowlevel.checkpoint()
        return nonsense

    def plainly_wrong(token: str) -> Any:
        return nonsense

    each: Any
    for each in (wrong, plainly_wrong):
        caplog.clear()
        auth = ResourceServer(RESOURCE, verifier=each)
        async with open_raw(make_server(), auth=auth) as raw:
            assert (await raw.send(call_tool("who"), {"Authorization": "Bearer k"})).status == 500
        assert (
            "TypeError: a verifier must return what the token contains, a mapping with aud and sub, or None if it is "
            f"not genuine, and not {type(nonsense).__name__}"
        ) in caplog.text


def test_what_is_no_verifier_is_refused_where_it_is_given(subtests: pytest.Subtests) -> None:
    rows: list[Any] = ["k", 7, {"k": "ann"}, JwtVerifier, CertificateVerifier, [verify, None]]
    for wrong in rows:
        with (
            subtests.test(wrong=wrong),
            pytest.raises(
                TypeError, match=r"^verifier must be a function, or an object such as JwtVerifier\(\.\.\.\)"
            ),
        ):
            ResourceServer(RESOURCE, verifier=wrong)


def authenticate_plainly(call: HttpCall) -> str | None:
    assert threading.current_thread() is not threading.main_thread()
    return "ann" if call.headers.get("authorization") == "Bearer k" else None


async def test_authenticate_may_be_a_plain_function() -> None:
    async with open_raw(make_server(), authenticate=authenticate_plainly) as raw:
        answer = await raw.send(call_tool("who"), {"Authorization": "Bearer k"})
        assert answer.message["result"]["content"][0]["text"] == "ann"
        assert (await raw.send(call_tool("who"))).status == 401


async def test_a_plain_function_that_hangs_costs_its_request_alone() -> None:
    """It is left behind, as plain tools are."""
    release = threading.Event()

    def hang(call: HttpCall) -> str:
        if call.headers.get("authorization") == "Bearer slow":
            release.wait(10)
        return "ann"

    async with open_raw(make_server(), authenticate=hang) as raw:
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                with trio.move_on_after(0.2):
                    await raw.send(call_tool("who"), {"Authorization": "Bearer slow"})
                answer = await raw.send(call_tool("who"), {"Authorization": "Bearer k"})
                assert answer.status == 200
                nursery.cancel_scope.cancel()
        release.set()


async def test_what_cannot_let_anybody_in_is_refused_at_once(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"authenticate": "ann"}, "authenticate takes a function, not str"),
        ({"auth": OAuth()}, r"auth takes ResourceServer\(\.\.\.\), not OAuth"),
        ({"auth": verify}, r"auth takes ResourceServer\(\.\.\.\), not function"),
    ]
    for given, problem in rows:
        with subtests.test(given=given, problem=problem), pytest.raises(TypeError, match=f"^{problem}$"):
            await serve_http(make_server(), port=0, **given)


# Signatures.

KEYS: dict[str, Any] = {
    "ES256": ECKey.generate_key("P-256"),
    "ES384": ECKey.generate_key("P-384"),
    "ES512": ECKey.generate_key("P-521"),
    "EdDSA": OKPKey.generate_key("Ed25519"),
    "EdDSA 448": OKPKey.generate_key("Ed448"),
    "RS256": RSAKey.generate_key(2048),
    "PS512 4097": RSAKey.generate_key(4104),
}


@pytest.mark.filterwarnings("ignore:EdDSA")
@pytest.mark.parametrize("kind", KEYS)
async def test_slow_signatures_are_verified_in_a_thread(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes more than 200 microseconds holds up nobody; what takes less needs no thread."""
    threads: list[object] = []
    run_sync = trio.to_thread.run_sync

    async def note(function: Any, *args: Any, **options: Any) -> Any:
        threads.append(function)
        return await run_sync(function, *args, **options)

    algorithm, key = kind.partition(" ")[0], KEYS[kind]
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "ann", "exp": now + 60, "jti": secrets.token_hex(4)}
    token = jwt.encode({"alg": algorithm, "kid": "k"}, claims, key, algorithms=[algorithm])
    forged = token[:-8] + ("AAAAAAAA" if token[-8:] != "AAAAAAAA" else "BBBBBBBB")
    keys = {"keys": [{**key.as_dict(private=False), "kid": "k"}]}
    async with open_raw(make_server(), auth=protection(verifier=JwtVerifier(ISSUER, jwks=keys))) as raw:
        monkeypatch.setattr(trio.to_thread, "run_sync", note)
        answer = await raw.send(call_tool("who"), {"Authorization": f"Bearer {token}"})
        assert answer.status == 200
        verified = len([each for each in threads if getattr(each, "func", None) is not None])
        assert verified == (kind not in ("ES256", "EdDSA", "RS256"))
        assert (await raw.send(call_tool("who"), {"Authorization": f"Bearer {forged}"})).status == 401


@pytest.mark.filterwarnings("ignore:EdDSA")
@pytest.mark.parametrize("kind", ["ES384", "ES512", "EdDSA 448", "PS512 4097"])
async def test_proofs_by_keys_that_are_slow_to_verify_with_are_refused(kind: str) -> None:
    """Whoever sends them chooses the key: so it is said which are taken."""
    algorithm, key = kind.partition(" ")[0], KEYS[kind]
    public = {
        name: value
        for name, value in key.as_dict(private=False).items()
        if name in ["kty", "crv", "x", "y", "n", "e"]
    }
    token = AUTHORIZATION.issue(resource=RESOURCE, key=key.thumbprint())
    claims = {"htm": "POST", "htu": RESOURCE, "iat": int(time.time()), "jti": secrets.token_hex(4)}
    header = {"typ": "dpop+jwt", "alg": algorithm, "jwk": public}
    proof = jwt.encode(header, claims, key, algorithms=[algorithm])
    async with open_raw(make_server(), auth=protection()) as raw:
        answer = await raw.send(call_tool("who"), {"Authorization": f"DPoP {token}", "DPoP": proof})
        assert answer.status == 401
        challenge = answer.headers["www-authenticate"]
        assert "the proof is by a key of a kind or a size that is not accepted" in challenge
        assert "ES256 RS256 PS256" in challenge
        assert "ES384" not in challenge
        good = DpopKey()
        token = AUTHORIZATION.issue(resource=RESOURCE, key=good.thumbprint)
        proof = good.prove("POST", RESOURCE, now=time.time(), access_token=token)
        assert (await raw.send(call_tool("who"), {"Authorization": f"DPoP {token}", "DPoP": proof})).status == 200


# Scopes.


def files() -> Server[Any]:
    server: Server[Any] = Server("files")

    def needed(params: Mapping[str, Any]) -> set[str]:
        return {"files:write"} if params["arguments"]["mode"] == "w" else set()

    @server.tool(scopes=ScopeRule({"files:read"}, of_request=needed))
    async def open_file(mode: str) -> str:
        return f"opened {mode}"

    @server.prompt(scopes=ScopeRule(of_request=lambda params: {f"say:{params['arguments']['what']}"}))
    def say(what: str) -> str:
        return what

    @server.resource(
        "file:///{name}",
        scopes=ScopeRule(of_request=lambda params: {"root"} if "etc" in params["uri"] else set()),
    )
    def file(name: str) -> str:
        return name

    @server.tool(scopes=ScopeRule({"admin"}, is_listed=True))
    async def shut_down() -> str:
        return "off"

    return server


async def test_what_a_request_needs_may_depend_on_its_arguments() -> None:
    """It is decided before the handler runs, and the challenge names all of it."""
    async with open_raw(files(), auth=protection()) as raw:
        fine = await raw.send(call_tool("open_file", mode="r"), bearer("files:read"))
        assert fine.message["result"]["content"][0]["text"] == "opened r"
        refused = await raw.send(call_tool("open_file", mode="w"), bearer("files:read"))
        assert refused.status == 403
        assert 'scope="files:read files:write"' in refused.headers["www-authenticate"]
        both = await raw.send(call_tool("open_file", mode="w"), bearer("files:read", "files:write"))
        assert both.message["result"]["content"][0]["text"] == "opened w"
        for name, scope, status in (("a", "say:a", 200), ("b", "say:a", 403)):
            answer = await raw.send(modern("prompts/get", name="say", arguments={"what": name}), bearer(scope))
            assert answer.status == status
        for uri, scopes, status in (
            ("file:///a", [], 200),
            ("file:///etc", [], 403),
            ("file:///etc", ["root"], 200),
        ):
            assert (await raw.send(modern("resources/read", uri=uri), bearer(*scopes))).status == status
        listen = modern("resources/subscribe", uri="file:///etc")
        assert (await raw.send(listen, bearer())).status == 403


async def test_what_somebody_may_not_use_can_be_listed_all_the_same() -> None:
    async with open_raw(files(), auth=protection()) as raw:
        listed = await raw.send(modern("tools/list"), bearer())
        assert [tool["name"] for tool in listed.message["result"]["tools"]] == ["shut_down"]
        refused = await raw.send(call_tool("shut_down"), bearer())
        assert (refused.status, 'scope="admin"' in refused.headers["www-authenticate"]) == (403, True)
        listed = await raw.send(modern("tools/list"), bearer("files:read"))
        assert [tool["name"] for tool in listed.message["result"]["tools"]] == ["open_file", "shut_down"]


@pytest.mark.parametrize("arguments", [{}, {"mode": []}, {"mode": {"w": 1}}])
async def test_a_rule_that_fails_lets_nobody_in(arguments: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Arguments are whatever a client has sent."""
    server: Server[Any] = Server("files")
    reached: list[str] = []

    def needed(params: Mapping[str, Any]) -> Any:
        mode = params["arguments"]["mode"]
        return "files:write" if mode == [] else {mode: 1}

    @server.tool(scopes=ScopeRule(of_request=needed))
    async def open_file(mode: str = "r") -> str:
        reached.append(mode)
        return "opened"

    async with open_raw(server, auth=protection()) as raw:
        answer = await raw.send(call_tool("open_file", **arguments), bearer("files:write"))
        assert "Unknown tool" in answer.error["message"]
    assert not reached
    assert "the function for scopes failed" in caplog.text


def test_a_rule_is_checked_where_it_is_given() -> None:
    async def later(params: Mapping[str, Any]) -> set[str]:
        return set()

    with pytest.raises(TypeError, match="must not be async"):
        ScopeRule(of_request=cast("Any", later))
    with pytest.raises(TypeError, match="scopes must be several strings"):
        ScopeRule("orders")
    with pytest.raises(ValueError, match="offline_access"):
        ScopeRule({"offline_access"})


async def test_a_rule_asks_for_nothing_over_a_pipe() -> None:
    async with open_client(files()) as client:
        assert (await client.call_tool("open_file", {"mode": "w"})).text == "opened w"
        assert {tool.name async for tool in client.list_tools()} == {"open_file", "shut_down"}


# A server that asks nobody for a token.


@pytest.mark.parametrize("given", [None, authenticate_plainly])
async def test_scopes_without_tokens_are_explained(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    """In the log once, when it begins to serve, and to whoever is refused: no other connection would help."""
    headers = {"Authorization": "Bearer k"}
    with caplog.at_level(logging.WARNING):
        async with open_raw(make_server(), authenticate=given) as raw:
            said = {(await raw.send(call_tool("order"), headers)).error["message"] for _ in range(2)}
    warned = (
        "nobody can use what needs the scopes orders:write: no client is asked for a token, because neither auth= nor "
        "authenticate= is given"
    )
    if given is None:
        assert said == {
            (
                "this needs the scopes orders:write, and this server asks nobody for a token (it has no auth=), so "
                "nobody has scopes"
            )
        }
        assert caplog.text.count(warned) == 1
    else:
        assert said == {
            (
                "this needs the scopes orders:write, and authenticate= of this server says who its clients are by a "
                "str, which has none: by a Principal"
            )
        }
        assert warned not in caplog.text


async def test_a_principal_of_authenticate_has_scopes() -> None:
    async def authenticate(call: HttpCall) -> Principal:
        await trio.lowlevel.checkpoint()
        return Principal("ann", scopes=["orders:write"])

    async with open_raw(make_server(), authenticate=authenticate) as raw:
        assert (await raw.send(call_tool("order"))).message["result"]["content"][0]["text"] == "done"
