"""Attacks that cost time: what is long to read, to check or to look up, for what it weighs."""

from __future__ import annotations

import itertools
import json
from typing import Final

from attacking import META, MIB, MOST, Attacker, attack, call_with, head, modern, post, request

# Heads.


@attack
async def host_of_dots(me: Attacker) -> None:
    """Names of 31 KB of dots."""
    await me.flood(head(0, {"Host": "." * 31_000}))


@attack
async def long_fields(me: Attacker) -> None:
    """Every header field that is looked at, 31 KB long, in the forms that parsers dislike."""
    pieces = (
        ",",
        ";",
        ", ;",
        "a,",
        "a;q=",
        '"',
        '\\"',
        '";"',
        " ",
        "=?",
        "a/b;c=d,",
        "%",
        "://",
        "[",
        "a.",
        ":",
        "=?base64?",
    )
    names = (
        "Accept", "Content-Type", "Origin", "Authorization", "Cookie", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
        "Mcp-Session-Id", "Last-Event-ID", "X-Forwarded-For", "Forwarded", "Connection", "Expect", "Mcp-Param-A",
        "Access-Control-Request-Headers", "Host",
    )  # fmt: skip
    body = json.dumps(request("tools/list", _meta=META)).encode()
    requests = itertools.cycle(
        [head(len(body), {name: (piece * 30_000)[:30_000].strip()}) + body for name in names for piece in pieces]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def many_fields(me: Attacker) -> None:
    """Thousands of short header fields."""
    await me.flood(head(0, {f"A{number}": "" for number in range(4_000)}))


@attack
async def odd_paths(me: Attacker) -> None:
    """Paths of 30 KB, and such as forge lines of the log."""
    paths = (
        "/" * 30_000,
        "/%2e%2e" * 4_000,
        "/mcp" + "/" * 30_000,
        "/x%0a2026-01-01 00:00:00 CRITICAL the server is on fire",
        "/x%1b[2J%0d%0a",
        "/mcp?" + "a=b&" * 7_000,
        "/sse?" + "%" * 30_000,
    )
    requests = itertools.cycle([head(0, {}, "GET", path.replace(" ", "%20")) for path in paths])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


# Bodies.

SOME: Final = MIB
"""Little enough to be decoded: beyond that it is refused for what it would take."""


@attack
async def schema_errors(me: Attacker) -> None:
    """A megabyte of arguments, of which each is wrong, against a raw schema."""
    await me.flood(call_with("check", '{{"numbers":[{}]}}'.format(",".join(['""'] * (SOME // 3)))))


@attack
async def schema_alternatives(me: Attacker) -> None:
    """The same against alternatives."""
    await me.flood(call_with("check", '{{"either":[{}]}}'.format(",".join(["{}"] * (SOME // 3)))))


@attack
async def schema_unique(me: Attacker) -> None:
    """Tens of thousands of objects that must be unlike each other."""
    await me.flood(
        call_with("check", '{{"unlike":[{}]}}'.format(",".join(f'{{"a":{n}}}' for n in range(SOME // 14))))
    )


@attack
async def schema_unevaluated(me: Attacker) -> None:
    """Tens of thousands of members that nothing has evaluated, and a great value that is none of an enumeration."""
    rest = ",".join(f'"{n}":0' for n in range(SOME // 22))
    chosen = ",".join(["[0]"] * (SOME // 9))
    await me.flood(call_with("check", f'{{"rest":{{{rest}}},"chosen":{{"a":[{chosen}]}}}}'))


@attack
async def typed_errors(me: Attacker) -> None:
    """4 MB of wrong arguments for a typed tool."""
    await me.flood(
        call_with(
            "order", '{{"order":{{"title":"a","copies":1}},"notes":[{}]}}'.format(",".join(["0"] * (MOST // 2)))
        )
    )


@attack
async def colliding_numbers(me: Attacker) -> None:
    """Numbers that are all the same to a hash table."""
    step = 2**61 - 1
    numbers = ",".join(str(step * n) for n in range(1, MOST // 26))
    named = ",".join(f'"{step * n}":""' for n in range(1, MOST // 32))
    requests = itertools.cycle(
        [call_with("pick", f'{{"numbers":[{numbers}]}}'), call_with("pick", f'{{"named":{{{named}}}}}')]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(2, work)


@attack
async def empty_arrays(me: Attacker) -> None:
    """Empty arrays, which weigh thirty times as much once they are decoded: 4 MB of them, and what is still let in."""

    def full_of(size: int) -> bytes:
        return call_with("wait", '{"seconds":0,"note":[%s]}' % ",".join(["[]"] * (size // 3)))  # noqa: UP031 - braces

    requests = itertools.cycle([full_of(MOST), full_of(SOME)])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def deep_arrays(me: Attacker) -> None:
    """Arrays in arrays, two million deep; and a thousand deep, many times."""
    bodies = (
        b"[" * MOST,
        b"[" * (MOST // 2) + b"]" * (MOST // 2),
        b'{"a":' * (MOST // 5),
        b"[%s]" % b",".join([b"[" * 900 + b"]" * 900] * (MOST // 1801)),
    )
    requests = itertools.cycle([post(body) for body in bodies])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def long_numbers(me: Attacker) -> None:
    """A number of four million digits, as an argument, as an id, and with a great exponent."""
    digits = "9" * MOST
    body = '{"jsonrpc":"2.0","id":%s,"method":"ping","params":{}}'
    requests = itertools.cycle(
        [
            call_with("add", f'{{"a":{digits},"b":1}}'),
            call_with("check", f'{{"numbers":[{digits}]}}'),
            post((body % digits).encode()),
            post((body % ("1e" + "9" * 1_000_000)).encode()),
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def slow_numbers(me: Attacker) -> None:
    """Short numbers at the edge of what a float can hold, which take long to read."""
    numbers = ",".join(["1e308"] * (MOST // 6))
    await me.flood(post(f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":[{numbers}]}}}}'.encode()), 2)


@attack
async def odd_uris(me: Attacker) -> None:
    """URIs that templates have to look at for long, and that climb."""
    uris = (
        "book://" + "/line/" * 1_300,
        "book://" + "a" * 8_000 + "/line/x",
        "shelf://" + "../" * 2_600,
        "shelf://" + "%2e%2e%2f" * 900,
        "book://%00/line/1",
        "book://" + "%" * 8_000,
        "x" * MOST,
    )
    requests = itertools.cycle([modern("resources/read", uri=uri) for uri in uris])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def forged_states(me: Attacker) -> None:
    """States that were never given out, up to 4 MB."""
    states = ["A" * size for size in (10, 1_000, 60_000, MOST)]
    requests = itertools.cycle(
        [
            modern("tools/call", name="ask", arguments={}, requestState=state, inputResponses={})
            for state in states
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(8, work)
