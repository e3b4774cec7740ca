"""A client sends cookies back to the very address that set them, so that a balancer finds the node with its session."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from http_mcp import McpScript
from http_sessions import LEGACY, SSE, HttpServer
from inside_core import Headers
from inside_http import CookieJar, parse_target
from oauth_script import ProtectedScript, oauth

from trio_mcp import AsgiApplication, RequestError, open_client

HERE = "http://a.example/x/mcp"


class Balancer:
    """Two nodes behind one address: who shows no cookie of a node gets the next one."""

    def __init__(self, *nodes: AsgiApplication) -> None:
        self.nodes = nodes
        self.cookies: list[str] = []
        self._next = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        cookie = (Headers(scope["headers"]).get_all("cookie") or [""])[0]
        self.cookies.append(cookie)
        _, is_known, number = cookie.partition("AWSALB=node-number-")
        if not is_known:
            number, self._next = str(self._next), 1 - self._next

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                line = f"AWSALB=node-number-{number}; Expires=Tue, 06 Dec 2072 12:00:00 GMT; Path=/"
                message["headers"] = [*message["headers"], (b"set-cookie", line.encode())]
            await send(message)

        await self.nodes[int(number[:1])](scope, receive, answer)


@pytest.mark.parametrize("speaks", [SSE, *LEGACY[1:]])
async def test_a_session_behind_a_balancer_stays_with_its_node(
    speaks: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The user's own cookie goes along, and no log shows one."""
    caplog.set_level(logging.DEBUG)
    nodes = [HttpServer(speaks), HttpServer(speaks)]
    balancer = Balancer(*(node.script for node in nodes))
    parameters = attrs.evolve(nodes[0].parameters(headers={"Cookie": "own=mine-alone"}), app=balancer)
    async with open_client(parameters) as client:
        for _ in range(3):
            await client.request("x/echo")
    asked: list[McpScript] = [node.script for node in nodes if "x/echo" in str(node.script.said)]
    assert len(asked) == 1
    assert str(asked[0].said).count("x/echo") == 3
    assert balancer.cookies[-1].startswith("own=mine-alone; AWSALB=node-number-")
    assert "node-number" not in caplog.text


async def test_a_stream_that_is_opened_again_goes_to_the_same_node(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """HTTP+SSE is a connection after another; they have the cookies of the client."""
    nodes = [HttpServer(SSE), HttpServer(SSE)]
    balancer = Balancer(*(node.script for node in nodes))
    async with open_client(attrs.evolve(nodes[0].parameters(transport="sse"), app=balancer)) as client:
        for _ in range(3):
            await client.request("x/echo")
            for node in nodes:
                node.forget_sessions()
            await trio.testing.wait_all_tasks_blocked()
    (asked,) = [node for node in nodes if node.script.calls]
    assert len(asked.streams) == 3
    assert not balancer.cookies[0]
    assert len(set(balancer.cookies[1:])) == 1


async def test_an_error_does_not_repeat_a_cookie(autojump_clock: trio.testing.MockClock) -> None:
    """Servers quote what they are sent."""
    node = HttpServer("2025-11-25")
    balancer = Balancer(node.script, node.script)
    async with open_client(attrs.evolve(node.parameters(), app=balancer)) as client:
        await client.request("x/echo")
        node.down = (500, b"the cookie was AWSALB=node-number-0")
        with pytest.raises(RequestError) as failed:
            await client.request("x/echo")
    assert "the cookie was" in str(failed.value)
    assert "node-number-0" not in str(failed.value)


async def test_authorization_servers_get_theirs_back(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript("2025-11-25")
    balancer = Balancer(script, script)
    parameters = attrs.evolve(script.parameters(), app=balancer)
    async with open_client(parameters, auth=oauth(script)) as client:
        await client.call_tool("one")
    assert script.grants() == ["authorization_code"]
    assert balancer.cookies[0] == ""
    assert set(balancer.cookies[1:]) == {"AWSALB=node-number-0"}


async def test_which_cookies_go_where(subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock) -> None:
    """RFC 6265, section 5: address, path, lifetime; what is no cookie is ignored, and costs no other one."""
    rows: list[tuple[list[str], str, str]] = [
        (["a=b"], HERE, "a=b"),
        (["a=b"], "http://a.example/x", "a=b"),
        (["a=b"], "http://a.example/x/y?z", "a=b"),
        (["a=b"], "http://a.example/xy", ""),
        (["a=b"], "http://a.example/", ""),
        (["a=b; Path=/"], "http://a.example/", "a=b"),
        (["a=b; path=other"], HERE, "a=b"),
        (["a=b; Path=/y"], HERE, ""),
        (["a=b; Path=/x/"], "http://a.example/x/mcp", "a=b"),
        (["a=b; Path=/"], "http://a.example:8080/", ""),
        (["a=b; Path=/"], "https://a.example/", ""),
        (["a=b; Path=/"], "http://b.a.example/", ""),
        (["a=b; Path=/; Domain=example"], "http://b.example/", ""),
        (["a=b; Domain=.A.example"], HERE, "a=b"),
        (["a=b; Domain=b.example"], HERE, ""),
        (["a=b; Domain=e"], HERE, ""),
        (["a=b; Secure"], HERE, ""),
        (["a=b", "a=c"], HERE, "a=c"),
        (["a=b", "c=d"], HERE, "a=b; c=d"),
        (["a=1; Path=/", "a=2; Path=/x"], HERE, "a=2; a=1"),
        (["a=b; Max-Age=60"], HERE, "a=b"),
        (["a=b", "a=b; Max-Age=0"], HERE, ""),
        (["a=b; Max-Age=-1; Expires=Tue, 06 Dec 2072 12:00:00 GMT"], HERE, ""),
        (["a=b; Max-Age=9; Expires=Tue, 06 Dec 2002 12:00:00 GMT"], HERE, "a=b"),
        (["a=b", "a=; Expires=Thu, 01-Jan-1970 00:00:00 GMT"], HERE, ""),
        (["a=b; Expires=Tue, 06 Dec 2072 12:00:00 GMT"], HERE, "a=b"),
        (["a=b; Expires=soon; Max-Age=x"], HERE, "a=b"),
        (['a="b c"; HttpOnly; SameSite=Lax'], HERE, 'a="b c"'),
        (["a={1}[2]=="], HERE, "a={1}[2]=="),
        (["a="], HERE, "a="),
        (["=b", "a", "", ";", "a b=c", "a=b\x01", "ok=1"], HERE, "ok=1"),
        ([f"a={'x' * 5000}"], HERE, ""),
    ]
    for lines, url, expected in rows:
        with subtests.test(lines=lines, url=url):
            jar = CookieJar()
            jar.take(parse_target(HERE), Headers([(b"Set-Cookie", line.encode("latin-1")) for line in lines]))
            fields = dict(jar.add_to(parse_target(url), ()))
            assert fields.get(b"Cookie", b"").decode() == expected


async def test_a_cookie_over_tls_a_late_one_and_one_of_the_user(autojump_clock: trio.testing.MockClock) -> None:
    target, jar = parse_target("https://a.example/"), CookieJar()
    jar.take(target, Headers([(b"set-cookie", b"a=1; Secure; Max-Age=10"), (b"set-cookie", b"b=2")]))
    assert jar.add_to(target, ()) == ((b"Cookie", b"a=1; b=2"),)
    own = ((b"X", b"y"), (b"cookie", b"b=mine; c=3"))
    assert jar.add_to(target, own) == ((b"X", b"y"), (b"Cookie", b"b=mine; c=3; a=1"))
    await trio.sleep(10)
    assert jar.add_to(target, ()) == ((b"Cookie", b"b=2"),)
    assert jar.add_to(parse_target("http://a.example/"), own) is own


async def test_a_jar_is_bounded() -> None:
    """In number and in bytes; the oldest go."""
    target = parse_target(HERE)
    many, large = CookieJar(), CookieJar()
    many.take(target, Headers([(b"set-cookie", b"n%d=x" % n) for n in range(1000)]))
    ((_, line),) = many.add_to(target, ())
    assert line.split(b"; ") == [b"n%d=x" % n for n in range(950, 1000)]
    for n in range(100):
        large.take(target, Headers([(b"set-cookie", b"n%d=%b" % (n, b"x" * 4000))]))
    ((_, line),) = large.add_to(target, ())
    assert line.count(b"; ") == 3
    assert "xxx" not in f"{large!r} {vars(large)!r}"
    assert line.endswith(b"n99=" + b"x" * 4000)
