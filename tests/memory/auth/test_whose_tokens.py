"""Whose a token in a store is, and to whom a platform's token, or a secret, is shown: to nobody else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing
from inside_oauth import holder_of
from oauth_script import ORIGIN, ProtectedScript, oauth

from trio_mcp import (
    AuthorizationFailed,
    ClientCredentials,
    EnterpriseManaged,
    HttpServerParameters,
    MemoryTokenStore,
    OAuth,
    TokenStore,
    WorkloadIdentity,
    open_client,
)

JAG = "urn:ietf:params:oauth:token-type:id-jag"


def jwt(**claims: Any) -> str:
    """Return a token that says something; nobody looks at its signature."""
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{part}.c2ln"


def employee(script: ProtectedScript, id_token: Any, store: TokenStore, **options: Any) -> EnterpriseManaged:
    script.answers.setdefault("/idp", []).extend(
        (200, {"access_token": "jag", "issued_token_type": JAG, "token_type": "N_A"}) for _ in range(9)
    )
    return EnterpriseManaged(
        id_token=id_token,
        idp_token_endpoint=f"{ORIGIN}/idp",
        idp_client_id="there",
        client_id="here",
        store=store,
        **options,
    )


async def token_of(script: ProtectedScript, auth: Any) -> str | None:
    """Return the token that a new connection comes with in the end."""
    async with open_client(script.parameters(), auth=auth, era="modern") as client:
        await client.call_tool("one")
    return script.seen[-1]


ANN, BOB = jwt(iss="https://idp.test", sub="ann"), jwt(iss="https://idp.test", sub="bob")


@pytest.mark.parametrize("kind", ["employee", "workload", "account", "person", "client"])
async def test_nobody_gets_the_token_of_somebody_else(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    script, store = ProtectedScript(), MemoryTokenStore()
    script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    makers: dict[str, Callable[[str, str], Any]] = {
        "employee": lambda who, issuer: employee(script, lambda: who, store),
        "workload": lambda who, issuer: WorkloadIdentity(token=lambda: who, store=store),
        "account": lambda who, issuer: WorkloadIdentity(token=lambda: "opaque", account=who, store=store),
        "person": lambda who, issuer: oauth(script, account=who, store=store),
        "client": lambda who, issuer: ClientCredentials(
            client_id="job", client_secret="s3cret", issuer=issuer, store=store
        ),
    }
    made = makers[kind]
    other = script.move() if kind == "client" else ORIGIN
    script.resource["authorization_servers"] = [ORIGIN, other]
    script.answers[f"/.well-known/oauth-authorization-server{other.removeprefix(ORIGIN)}"] = []
    servers = {ORIGIN: {**script.server, "issuer": ORIGIN}, other: {**script.server, "issuer": other}}

    async def token(who: str, issuer: str = ORIGIN) -> str | None:
        path = f"/.well-known/oauth-authorization-server{issuer.removeprefix(ORIGIN)}"
        script.answers[path] = [(200, servers[issuer])]
        script.server["issuer"] = issuer  # for `iss`
        return await token_of(script, made(who, issuer))

    assert await token(ANN) == "access-1"
    assert await token(BOB, other) == "access-2"
    assert await token(ANN) == "access-1", "and it is still there"
    assert await token(BOB, other) == "access-2"
    assert len(script.at("/token")) == 2
    if kind in ("employee", "workload"):
        assert not any(ANN in key or "idp.test" in key for key in store._kept), "a key is no place for a token"


async def test_a_source_that_speaks_for_somebody_else_has_another_token(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The same object, for whoever sits at the machine."""
    script, who = ProtectedScript(), [ANN]
    auth = employee(script, lambda: who[0], MemoryTokenStore())
    assert await token_of(script, auth) == "access-1"
    who[0] = BOB
    assert await token_of(script, auth) == "access-2"
    who[0] = ANN
    assert await token_of(script, auth) == "access-1"
    who[0] = jwt(iss="https://idp.test", sub="ann", iat=7)
    assert await token_of(script, auth) == "access-1", "a fresh token of the same person"
    who[0] = "opaque"
    assert await token_of(script, auth) == "access-3", "whoever that is"


def test_for_whom_a_token_is() -> None:
    assert holder_of(ANN) == holder_of(jwt(iss="https://idp.test", sub="ann", exp=1))
    others = [
        ANN,
        BOB,
        jwt(iss="https://idp.test a", sub="nn"),
        jwt(iss="https://other.test", sub="ann"),
        jwt(sub="ann"),
        jwt(iss="https://idp.test", sub=["ann"]),
        jwt(iss="https://idp.test", sub=""),
        "opaque",
        "a.b.c",
        "a.e30",
        "e30.ümlaut.x",
        "",
        f"e30.{'x' * 100_000}.x",
    ]
    assert len({holder_of(each) for each in others}) == len(others)


def test_an_account_is_a_name() -> None:
    wrong: Any = {"account": ""}
    with pytest.raises(ValueError, match="account must not be empty"):
        OAuth(**wrong)
    with pytest.raises(TypeError, match="account must be a str, not int"):
        WorkloadIdentity(token="x", account=cast("Any", 7))
    # Whatever they contain, different ones are different keys.
    keys = {
        OAuth(client_id=client_id, account=account)._identity(None)
        for client_id in (None, "a", "a account b", "a account", "b")
        for account in (None, "a", "b", "account b", "a account b")
    }
    assert len(keys) == 25


@pytest.mark.parametrize("options", [{"issuer": f"{ORIGIN}/other"}, {"dpop": True}])
async def test_a_stored_token_that_is_not_what_was_asked_for_is_not_used(
    options: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever has put it there was set up otherwise."""
    script, store = ProtectedScript(), MemoryTokenStore()
    assert await token_of(script, oauth(script, store=store)) == "access-1"
    script.seen.clear()
    with pytest.raises(AuthorizationFailed):
        await token_of(script, oauth(script, store=store, **options))
    assert set(script.seen) == {None}


# To whom credentials are shown.


@pytest.mark.parametrize("kind", ["opaque", "named", "account"])
async def test_a_platforms_token_is_shown_to_one_authorization_server(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Not to every one that a server names; and one that the platform has made anew is no other."""
    script, store = ProtectedScript(), MemoryTokenStore()
    given = iter(range(9))
    auth = WorkloadIdentity(
        token=lambda: f"opaque-{next(given)}" if kind == "opaque" else ANN,
        account="reports" if kind == "account" else None,
        store=store,
    )
    assert await token_of(script, auth) == "access-1"
    script.tokens.clear()
    moved = script.move()
    with pytest.raises(AuthorizationFailed) as failed:
        await token_of(script, auth)
    assert str(failed.value) == (
        f"the workload was first used at {ORIGIN}, and {script.url} names {moved}: its credentials are not shown to "
        "another authorization server, unless issuer (or --issuer) says that they are for it"
    )
    assert len(script.at("/token")) == 1
    script.answers["/.well-known/oauth-authorization-server/other"] = [(200, script.server)]
    named = WorkloadIdentity(token=lambda: ANN, issuer=moved, store=store)
    assert await token_of(script, named) == "access-2"


async def test_servers_of_a_group_do_not_both_get_a_secret(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """They begin at the same time, and each names an authorization server of its own."""
    kinds: dict[str, Callable[[], Any]] = {
        "client": lambda: ClientCredentials(client_id="job", client_secret="s3cret"),
        "workload": lambda: WorkloadIdentity(token=lambda: ANN),
    }
    for kind, make in kinds.items():
        with subtests.test(kind=kind):
            scripts = [ProtectedScript(origin=f"http://localhost:{port}") for port in (1, 2, 3)]
            auth = make()
            for script in scripts:
                script.server["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
            failures: list[AuthorizationFailed] = []

            async def connect(
                script: ProtectedScript, auth: Any = auth, failures: list[AuthorizationFailed] = failures
            ) -> None:
                try:
                    async with open_client(HttpServerParameters(script.url, app=script), auth=auth):
                        pass
                except AuthorizationFailed as error:
                    failures.append(error)

            async with trio.open_nursery() as nursery:
                for script in scripts:
                    nursery.start_soon(connect, script)
            assert sorted(len(script.at("/token")) for script in scripts) == [0, 0, 1]
            assert [("was first used at" in str(failure)) for failure in failures] == [True, True]


async def test_who_was_used_before_is_used_again_if_the_server_goes_on_naming_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its neighbour was not there at first. Now it is, and would be somebody whom the credentials are not for."""
    script, store = ProtectedScript(), MemoryTokenStore()
    script.resource["authorization_servers"] = [f"{ORIGIN}/other", ORIGIN]
    auth = WorkloadIdentity(token=lambda: ANN, store=store)
    assert await token_of(script, auth) == "access-1"
    script.tokens.clear()
    other = {**script.server, "issuer": f"{ORIGIN}/other"}
    script.answers["/.well-known/oauth-authorization-server/other"] = [(200, other)]
    assert await token_of(script, auth) == "access-2"
    assert script.answers["/.well-known/oauth-authorization-server/other"], "nobody asks it"


@pytest.mark.parametrize(("returned", "what"), [(None, "NoneType"), (b"x", "bytes"), ("", "an empty str")])
async def test_a_source_returns_a_token(returned: Any, what: str) -> None:
    async def late() -> Any:
        await trio.lowlevel.checkpoint()
        return returned

    for source in (lambda: returned, late):
        with pytest.raises(
            AuthorizationFailed, match=f"^the function for a token must return one as a str, not {what}$"
        ):
            await token_of(ProtectedScript(), WorkloadIdentity(token=source))
