"""Who somebody is: a string like any other, which knows more."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from http_raw import call_tool, open_raw
from inside_wire import encode, stdlib_encode
from raw import initialize

from trio_mcp import Context, HttpCall, Principal, Server

ANN = Principal(
    "ann",
    issuer="https://login.test",
    client_id="app",
    scopes=["b", "a"],
    claims={"email": "ann@example.com"},
    token="s3cret",
)


def test_it_is_the_name_under_which_something_is_kept() -> None:
    """Issuer and subject, and nothing else of it: the next token finds what the last one began."""
    assert ANN == "https://login.test ann"
    assert Principal("ann", issuer="https://login.test") == ANN
    assert Principal("ann", issuer="https://other.test") != ANN
    assert Principal("ann") == "ann" != ANN
    kept: dict[str, int] = {ANN: 1}
    assert kept["https://login.test ann"] == 1
    assert isinstance(ANN, str)
    assert f"{ANN}" == str(ANN)
    assert type(ANN.subject) is str


def test_it_shows_no_secrets() -> None:
    """Neither the token nor what the token says about a person."""
    assert repr(ANN) == ("Principal('ann', issuer='https://login.test', client_id='app', scopes=['a', 'b'])")
    assert repr(Principal("ann")) == "Principal('ann')"
    for shown in (repr(ANN), str(ANN), pickle.dumps(ANN).decode("latin-1"), json.dumps(ANN)):
        assert "s3cret" not in shown
        assert "example.com" not in shown
    restored = pickle.loads(pickle.dumps(ANN))
    assert (restored, type(restored)) == ("https://login.test ann", str)


def test_nothing_of_it_can_be_changed() -> None:
    """What is decided by it once, is decided."""
    changed: Any = ANN
    with pytest.raises(AttributeError, match="scopes"):
        changed.scopes = {"admin"}
    with pytest.raises(AttributeError, match="token"):
        del changed.token
    with pytest.raises(TypeError):
        changed.claims["email"] = "other"
    assert copy.copy(ANN) is ANN
    assert copy.deepcopy({"who": ANN})["who"] is ANN


def test_it_is_written_as_json_like_any_name() -> None:
    """By the fast library and by the standard one."""
    assert encode({"who": ANN, "all": [ANN]}) == stdlib_encode({"who": str(ANN), "all": [str(ANN)]})
    with pytest.raises(TypeError):
        encode({"who": object()})


@pytest.mark.parametrize("wrong", [{"subject": ""}, {"issuer": ""}, {"issuer": "two words"}])
def test_two_principals_never_have_one_name(wrong: dict[str, str]) -> None:
    """The issuer ends at the first space."""
    given: dict[str, Any] = {"subject": "ann", "issuer": "https://login.test", **wrong}
    with pytest.raises(ValueError, match="principal"):
        Principal(**given)
    assert Principal("b c", issuer="a") == "a b c" != Principal("c", issuer="a")


def test_wrong_types_are_told_at_once() -> None:
    """A string of scopes would be a set of letters."""
    nobody: Any = None
    with pytest.raises(TypeError, match="subject"):
        Principal(nobody)
    with pytest.raises(TypeError, match="scopes"):
        Principal("ann", scopes="a b")


@pytest.mark.parametrize("named", [True, False])
async def test_authenticate_may_return_one(named: bool) -> None:
    """Or a name, which becomes one; handlers see the header fields, but no credentials."""
    seen: list[Any] = []
    server: Server[Any] = Server("x")

    @server.tool
    async def note(ctx: Context) -> None:
        seen.append((ctx.principal, ctx.headers))

    async def authenticate(call: HttpCall) -> str:
        return "ann" if named else ANN

    headers = {"Authorization": "Bearer x", "Cookie": "c", "DPoP": "p", "X-Trace": "7", "x-Trace ": None}
    legacy: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "note", "arguments": {}},
    }
    async with open_raw(server, authenticate=authenticate) as raw:
        assert (await raw.send(call_tool("note"), headers)).status == 200
        began = await raw.send(initialize("2025-11-25"), headers)
        session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
        assert (await raw.send(legacy, {**headers, **session})).status == 200
    for principal, fields in seen:
        assert isinstance(principal, Principal)
        assert principal == ("ann" if named else ANN)
        assert (fields["x-trace"], fields["X-TRACE"], fields.get("authorization")) == ("7", "7", None)
        assert {"authorization", "cookie", "dpop"}.isdisjoint(fields)
        assert len(fields) == len(list(fields))
        assert "7" not in repr(fields)
    assert len(seen) == 2
