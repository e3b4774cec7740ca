"""What decoded JSON costs, against what the allocator says it took. Both JSON libraries are held to it."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside_wire import SHORT, close_weight_of, cost_of_json, decode, most_cost_of_json, stdlib_decode
from processor_time import costs_of

Decode = Callable[[bytes], Any]

DECODERS: Final = (decode, stdlib_decode)
MANY: Final = 2_000


def taken_by(decode: Decode, data: bytes) -> int:
    """Return what the decoded values take, in bytes."""
    decode(data)  # what is made once and kept is made now
    was_enabled = gc.isenabled()
    gc.freeze()  # what there is besides need not be looked at, now and later, as in `conftest.py`
    gc.collect()  # empties the lists of objects that are used again
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        value = decode(data)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        if was_enabled:
            gc.enable()
    del value
    return after - before


def least_estimate(data: bytes) -> int:
    """Return the lowest of all that is told of what a text costs."""
    return min(cost_of_json(data), most_cost_of_json(len(data)), close_weight_of(data) - len(data))


def items(item: str, times: int = MANY) -> str:
    return "[" + ",".join([item] * times) + "]"


def members(number: int) -> str:
    return json.dumps({f"k{i}": 0 for i in range(number)}, separators=(",", ":"))


NASTY: Final = {
    "empty lists": items("[]"),
    "lists in lists": "[" * 500 + "]" * 500,
    "lists in lists, many": items("[[[[[]]]]]"),
    "empty objects": items("{}"),
    "objects in objects": '{"":' * 500 + "0" + "}" * 500,
    "an object in each": items('{"a":{}}'),
    "an object with a number in each": items('{"a":-6}'),
    "a list with a number in each": items("[-6]"),
    "small floats": items("1.5"),
    "small integers": items("-6"),
    "large integers": items("1" * 40),
    "lists that have just grown": items("[-6,-7,-8,-9,-10]"),
    "objects that have just grown": items('{"a":-6,"b":-7,"c":-8,"d":-9,"e":-10,"f":-11}'),
    "larger objects that have just grown": items(members(43), 30),
    "many names": members(43_701),
    "letters": items('"a"'),
    "two letters": items('"ab"'),
    "letters that are not ASCII": items('"éa"'),
    "one astral character": '"' + "a" * MANY + '\U0001f600"',
    "one astral character, escaped": '"' + "a" * MANY + '\\ud83d\\uDE00"',
    "one astral character, escaped in capitals": '"' + "a" * MANY + '\\uD83D\\uDE00"',
    "half an astral character": '"' + "a" * MANY + '\\ud83d"',
    "one wide character": '"' + "a" * MANY + '中"',
    "one wide character, escaped": '"' + "a" * MANY + '\\u4e00"',
    "wide names": json.dumps({f"\U0001f600{i}": "\U0001f600" for i in range(MANY)}, ensure_ascii=False),
    "backslashes": '"' + "\\\\" * MANY + '"',
    "strings of a backslash": items('"\\\\"'),
    "strings of a quote": items('"\\""'),
    "backslashes before letters that escape": '["' + "\\\\u" * MANY + 'é"]',
    "what is wide, after backslashes before letters": '["' + "\\\\u" * MANY + '\\u4e00"]',
    "strings that end with a backslash, before lists": items('"\\\\",[]'),
    "a text that looks like lists, and lists": '["' + "[{," * MANY + '",' + items("[]") + "]",
}


@pytest.mark.parametrize("decode", DECODERS)
def test_objects_never_take_more_than_was_estimated(decode: Decode, subtests: pytest.Subtests) -> None:
    """What is bounded by the estimate is bounded in memory, whatever an untrusted peer sends."""
    for name, text in NASTY.items():
        with subtests.test(name):
            data = text.encode()
            assert taken_by(decode, data) <= least_estimate(data)


REQUEST: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 17,
        "method": "tools/call",
        "params": {
            "name": "search",
            "arguments": {"query": "the weather in Paris", "limit": 10, "tags": ["some", "words"]},
            "_meta": {"progressToken": 17, "trio-mcp/timeoutMs": 2_000},
        },
    }
)

ROWS: Final = [
    {"id": i, "name": f"Name {i}", "price": i * 1.5, "tags": [f"tag {i}", "bb"], "ok": True} for i in range(300)
]

ORDINARY: Final = {
    "a request": REQUEST,
    "rows": json.dumps(ROWS),
    "rows in a text": json.dumps({"text": json.dumps(ROWS)}),
    "numbers in a text": json.dumps({"text": json.dumps([[i, 1] for i in range(3_000)])}),
    "a vector": json.dumps([random.Random(1).random() for _ in range(1_000)]),
    "prose": json.dumps({"text": "“It is true, they said: and so it is.” " * 1_000}, ensure_ascii=False),
    "Chinese": json.dumps({"text": "天气预报,是。" * 1_000}, ensure_ascii=False),
    "Chinese, escaped": json.dumps({"text": "天气预报,是。" * 1_000}),
    "a large text": json.dumps({"text": "def f(a: list[int]) -> None:\n    print({a[1]: 1})\n" * 1_000}),
    "base64": json.dumps({"blob": "QUJD" * 10_000}),
}


def test_what_people_send_is_estimated_at_a_small_multiple(subtests: pytest.Subtests) -> None:
    """An estimate that is far too high would turn honest clients away."""
    for name, text in ORDINARY.items():
        with subtests.test(name):
            data = text.encode()
            assert cost_of_json(data) <= 5 * max(taken_by(decode, data) for decode in DECODERS)


LETTERS: Final = st.text(st.sampled_from('aZ"\\,:[]{}/ué中\U0001f600\n\x00'), max_size=8)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | LETTERS,
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(LETTERS, inner, max_size=7),
    max_leaves=12,
)


@settings(deadline=None)
@given(
    parts=st.lists(st.tuples(VALUES, st.integers(1, 60)), min_size=1, max_size=3),
    is_ascii=st.booleans(),
    depth=st.integers(0, 20),
    decode=st.sampled_from(DECODERS),
)
def test_nothing_takes_more_than_was_estimated(
    *, parts: list[tuple[Any, int]], is_ascii: bool, depth: int, decode: Decode
) -> None:
    """The same for whatever is made of strings with marks in them, numbers, lists and objects, many times over."""
    texts = [
        json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":"))
        for value, times in parts
        for _ in range(times)
    ]
    data = ("[" * depth + "[" + ",".join(texts) + "]" + "]" * depth).encode()
    assert taken_by(decode, data) <= least_estimate(data)


@pytest.mark.parametrize("decode", DECODERS)
def test_short_texts_are_estimated_no_lower(decode: Decode, subtests: pytest.Subtests) -> None:
    """They are not counted as closely."""
    for size in range(SHORT - 2, SHORT + 3):
        with subtests.test(size=size):
            for item in ("[[]],", '{"":0},', '"ab",', "1.5,", '"é",', '"ab":-6,'):
                times = (size - 3) // len(item.encode())
                begin, end = ("{", "}") if ":" in item and item[0] == '"' else ("[", "]")
                data = (begin + (item * times)[:-1] + end).encode()
                assert taken_by(decode, data) <= least_estimate(data)


def test_estimating_is_linear(subtests: pytest.Subtests) -> None:
    """It reads untrusted input before anything is known of it, and also what is not JSON."""
    for text in ("[],", '"",', '"\\"",', '\\"', '"', "{", "é,", '["', "\\\\\\", "\\ud83d"):
        with subtests.test(text=text):
            less, more = text.encode() * 20_000, text.encode() * 160_000
            few, many = costs_of(partial(cost_of_json, less), partial(cost_of_json, more))
            assert many / few < 16
