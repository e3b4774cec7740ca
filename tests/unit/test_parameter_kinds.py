"""What servers and clients are set up with: a value of another kind is refused when it is given, by the name of its field."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from trio_mcp import (
    AskPolicy,
    ClientCredentials,
    HttpServerParameters,
    HttpServerSettings,
    HttpSettings,
    Limits,
    OAuth,
    RestartPolicy,
    SocketServerSettings,
    StdioServerParameters,
    TcpServerParameters,
    UnixServerParameters,
    WebSocketServerParameters,
)

SET_UP: dict[type[Any], dict[str, Any]] = {
    HttpServerParameters: {"url": "http://x/mcp"},
    WebSocketServerParameters: {"url": "ws://x/mcp"},
    StdioServerParameters: {"command": "x"},
    TcpServerParameters: {"host": "x", "port": 1},
    UnixServerParameters: {"path": "x"},
    ClientCredentials: {"client_id": "a", "client_secret": "b"},
    **{kind: {} for kind in (AskPolicy, HttpServerSettings, HttpSettings, Limits, OAuth, RestartPolicy)},
    SocketServerSettings: {},
}


class Odd:
    """What no field can be."""


@pytest.mark.parametrize("kind", SET_UP, ids=lambda kind: kind.__name__)
def test_what_is_of_another_kind_is_refused_by_its_name(kind: type[Any], subtests: pytest.Subtests) -> None:
    for field in attrs.fields(kind):
        if field.init:
            with subtests.test(field.name), pytest.raises((TypeError, ValueError), match=field.name):
                kind(**(SET_UP[kind] | {field.alias: Odd()}))


@pytest.mark.parametrize(
    "kind", [kind for kind in SET_UP if kind.__name__.endswith("Parameters")], ids=lambda kind: kind.__name__
)
def test_restart_is_a_policy_or_whether_there_is_one(kind: type[Any]) -> None:
    policy = RestartPolicy(max_restarts=1)
    given = {True: RestartPolicy(), False: None, None: None, policy: policy}
    for value, expected in given.items():
        assert kind(**SET_UP[kind], restart=value).restart == expected
