"""The shapes of JSON-RPC 2.0: what is a message, what is none and who hears of it, and what goes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inside_base import INVALID_REQUEST
from inside_wire import (
    ErrorResponse,
    InvalidMessage,
    Message,
    Request,
    Response,
    answered_id,
    answered_id_of_fragment,
    encode_batch,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    id_of_fragment,
    invalid_request,
    is_request_fragment,
    parse_message,
)
from inside_wire import json_module as _json

from trio_mcp import ABSENT, Encoded, Notification, RequestError, RequestId

V: Final = {"jsonrpc": "2.0"}
HUGE: Final = 10**400
IN_AN_ARRAY: Final[list[dict[str, Any]]] = [{"id": 1, "result": {}}]


def facts(message: Message) -> tuple[object, ...]:
    """What a message says, comparable, with `1`, `1.0` and `True` kept apart."""
    if isinstance(message, ErrorResponse):
        error = message.error
        return ("error", repr(message.id), repr(error.code), error.message, error.data)
    return (repr(message),)


def read(data: bytes) -> Message:
    return parse_message(_json.decode(data))


# The four shapes.


def test_the_four_shapes_are_told_apart(subtests: pytest.Subtests) -> None:
    """JSON-RPC 2.0, sections 4 and 5; JSON has one number type, so 1.0 is the integer 1, and `true` is not."""
    cases: list[tuple[object, Message]] = [
        ({**V, "id": 1, "method": "ping"}, Request(1, "ping")),
        ({**V, "id": "1", "method": "ping"}, Request("1", "ping")),
        ({**V, "id": "", "method": ""}, Request("", "")),
        ({**V, "id": 0, "method": "ping"}, Request(0, "ping")),
        ({**V, "id": -7, "method": "ping"}, Request(-7, "ping")),
        ({**V, "id": 1.0, "method": "ping"}, Request(1, "ping")),
        ({**V, "id": -0.0, "method": "ping"}, Request(0, "ping")),
        ({**V, "id": 1e300, "method": "ping"}, Request(int(1e300), "ping")),
        ({**V, "id": HUGE, "method": "ping"}, Request(HUGE, "ping")),
        ({**V, "id": 1, "method": "m", "params": {"a": None}}, Request(1, "m", {"a": None})),
        ({**V, "id": 1, "method": "m", "params": {}}, Request(1, "m", {})),
        ({**V, "id": 1, "method": "m", "params": None}, Request(1, "m")),
        ({**V, "id": 1, "method": "m", "novelty": 5}, Request(1, "m")),
        # `method` decides, whatever else there is.
        ({**V, "id": 1, "method": "m", "result": {}, "error": {}}, Request(1, "m")),
        ({**V, "method": "m"}, Notification("m")),
        ({**V, "method": "m", "params": {"a": 1}}, Notification("m", {"a": 1})),
        ({**V, "method": "m", "params": None}, Notification("m")),
        ({**V, "id": 1, "result": {}}, Response(1, {})),
        ({**V, "id": "1", "result": {"a": []}}, Response("1", {"a": []})),
        ({**V, "id": 2.0, "result": {}}, Response(2, {})),
        ({**V, "id": 1, "error": {"code": -32600, "message": "no"}}, ErrorResponse(1, RequestError(-32600, "no"))),
        ({**V, "id": None, "error": {"code": 1, "message": ""}}, ErrorResponse(None, RequestError(1, ""))),
        ({**V, "error": {"code": 1, "message": ""}}, ErrorResponse(None, RequestError(1, ""))),
        ({**V, "id": 1, "error": {"code": -32600.0, "message": "m"}}, ErrorResponse(1, RequestError(-32600, "m"))),
        ({**V, "id": 1, "error": {"code": HUGE, "message": "m"}}, ErrorResponse(1, RequestError(HUGE, "m"))),
        ({**V, "id": 1, "error": {"code": 5}}, ErrorResponse(1, RequestError(5, ""))),
        ({**V, "id": 1, "error": {"code": 5, "message": "m", "data": None}}, ErrorResponse(1, RequestError(5, "m", None))),
        ({**V, "id": 1, "error": {"code": 5, "message": "m", "data": [1]}}, ErrorResponse(1, RequestError(5, "m", [1]))),
    ]  # fmt: skip
    for value, message in cases:
        with subtests.test(value=value):
            parsed = parse_message(value)
            assert type(parsed) is type(message)
            assert facts(parsed) == facts(message)


# What is none of them.


def test_what_could_have_been_a_request_is_answered(subtests: pytest.Subtests) -> None:
    """JSON-RPC 2.0, section 5: an invalid request is answered, under its id if that can be read."""
    cases: list[tuple[object, str, RequestId | None]] = [
        (None, "a message must be an object, not null", None),
        (True, "a message must be an object, not a boolean", None),
        (1, "a message must be an object, not an integer", None),
        (1.5, "a message must be an object, not a number", None),
        ("{}", "a message must be an object, not a string", None),
        ([], "a message must be an object, not a list", None),
        ({}, 'jsonrpc must be "2.0"', None),
        ({"id": 1, "method": "m"}, 'jsonrpc must be "2.0"', 1),
        ({"jsonrpc": "1.0", "id": 1, "method": "m"}, 'jsonrpc must be "2.0"', 1),
        ({"jsonrpc": 2.0, "id": "a", "method": "m"}, 'jsonrpc must be "2.0"', "a"),
        ({"jsonrpc": 2, "method": "m"}, 'jsonrpc must be "2.0"', None),
        (V, "method is missing", None),
        ({**V, "id": 1}, "method is missing", 1),
        ({**V, "id": 1, "method": None}, "method must be a string, not null", 1),
        ({**V, "id": 1, "method": 5}, "method must be a string, not an integer", 1),
        ({**V, "id": "a", "method": ["m"]}, "method must be a string, not a list", "a"),
        ({**V, "id": 1.5, "method": {}}, "method must be a string, not an object", None),
        ({**V, "id": 1, "method": "m", "params": []}, "params must be an object, not a list", 1),
        ({**V, "id": 1, "method": "m", "params": [1]}, "params must be an object, not a list", 1),
        ({**V, "id": 1, "method": "m", "params": "p"}, "params must be an object, not a string", 1),
        ({**V, "id": 1, "method": "m", "params": False}, "params must be an object, not a boolean", 1),
        ({**V, "method": "m", "params": 0}, "params must be an object, not an integer", None),
        ({**V, "id": None, "method": "m"}, "id must be a string or an integer, not null", None),
        ({**V, "id": 1.5, "method": "m"}, "id must be a string or an integer, not a number", None),
        ({**V, "id": True, "method": "m"}, "id must be a string or an integer, not a boolean", None),
        ({**V, "id": False, "method": "m"}, "id must be a string or an integer, not a boolean", None),
        ({**V, "id": [1], "method": "m"}, "id must be a string or an integer, not a list", None),
        ({**V, "id": {}, "method": "m"}, "id must be a string or an integer, not an object", None),
    ]  # fmt: skip
    for value, reason, id in cases:
        with subtests.test(value=value):
            with pytest.raises(InvalidMessage) as caught:
                parse_message(value)
            assert (caught.value.reason, caught.value.id, caught.value.answerable) == (reason, id, True)
            assert str(caught.value) == reason


def test_what_looks_like_a_response_is_never_answered(subtests: pytest.Subtests) -> None:
    """Two peers that answer each other's errors would never stop."""
    cases: list[tuple[object, str, RequestId | None]] = [
        ({"id": 1, "result": {}}, 'jsonrpc must be "2.0"', 1),
        ({"jsonrpc": "2", "id": 1, "error": {"code": 1, "message": ""}}, 'jsonrpc must be "2.0"', 1),
        ({**V, "result": {}}, "a response needs the id of its request", None),
        ({**V, "id": None, "result": {}}, "a response needs the id of its request", None),
        ({**V, "id": 1.5, "result": {}}, "a response needs the id of its request", None),
        ({**V, "id": True, "result": {}}, "a response needs the id of its request", None),
        ({**V, "id": 1, "result": None}, "result must be an object, not null", 1),
        ({**V, "id": 1, "result": []}, "result must be an object, not a list", 1),
        ({**V, "id": "a", "result": "r"}, "result must be an object, not a string", "a"),
        ({**V, "id": 1, "result": {}, "error": {"code": 1, "message": ""}}, "a response has either a result or an error, not both", 1),
        ({**V, "id": 1, "result": {}, "error": None}, "a response has either a result or an error, not both", 1),
        ({**V, "id": 1.5, "error": {"code": 1, "message": ""}}, "id must be a string or an integer, not a number", None),
        ({**V, "id": False, "error": {"code": 1, "message": ""}}, "id must be a string or an integer, not a boolean", None),
        ({**V, "id": 1, "error": None}, "error must be an object, not null", 1),
        ({**V, "id": 1, "error": "no"}, "error must be an object, not a string", 1),
        ({**V, "id": 1, "error": {}}, "error.code must be an integer", 1),
        ({**V, "id": 1, "error": {"code": None, "message": ""}}, "error.code must be an integer", 1),
        ({**V, "id": 1, "error": {"code": "-1", "message": ""}}, "error.code must be an integer", 1),
        ({**V, "id": 1, "error": {"code": 1.5, "message": ""}}, "error.code must be an integer", 1),
        ({**V, "id": 1, "error": {"code": True, "message": ""}}, "error.code must be an integer", 1),
        ({**V, "id": 1, "error": {"code": 1, "message": None}}, "error.message must be a string, not null", 1),
        ({**V, "id": 1, "error": {"code": 1, "message": {}}}, "error.message must be a string, not an object", 1),
    ]  # fmt: skip
    for value, reason, id in cases:
        with subtests.test(value=value):
            with pytest.raises(InvalidMessage) as caught:
                parse_message(value)
            assert (caught.value.reason, caught.value.id, caught.value.answerable) == (reason, id, False)


ANYTHING: Final = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 1.5, 1e300, HUGE, "", "2.0", "x", [], [1], {}, {"code": 1, "message": "m"}]
)
MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")


@given(
    st.fixed_dictionaries({}, optional={**dict.fromkeys(MEMBERS, ANYTHING), "jsonrpc": st.just("2.0") | ANYTHING})
)
def test_every_object_is_a_message_or_says_what_is_wrong(value: dict[str, Any]) -> None:
    """Nothing a peer sends raises anything else, and what is accepted was said as the specification has it."""
    message: Message | InvalidMessage
    try:
        message = parse_message(value)
    except InvalidMessage as error:
        message = error
    if isinstance(message, InvalidMessage):
        looks_like_a_response = "method" not in value and ("result" in value or "error" in value)
        assert message.answerable is not looks_like_a_response
        assert message.id is None or message.id == value["id"]
        assert message.reason
    else:
        assert value["jsonrpc"] == "2.0"
        assert isinstance(message, (Request, Notification)) == ("method" in value)
        assert isinstance(message, Notification) or (message.id == value.get("id"))
        assert type(getattr(message, "id", None)) in (int, str, type(None))


def test_an_invalid_request_has_its_code() -> None:
    """JSON-RPC 2.0, section 5.1."""
    error = invalid_request("id is odd")
    assert (error.code, error.message, error.data) == (INVALID_REQUEST, "invalid request: id is odd", None)


# Out and in again.

IDS: Final = st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
OBJECTS: Final = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    max_size=4,
)
METHODS: Final = st.text(st.characters(exclude_categories=["Cs"]))


@given(IDS, METHODS, st.none() | OBJECTS)
def test_requests_and_notifications_come_back(id: RequestId, method: str, params: dict[str, Any] | None) -> None:
    """What is written is read by the other end, params left out or not."""
    assert read(encode_request(id, method, params)) == Request(id, method, params)
    assert read(encode_notification(method, params)) == Notification(method, params)
    if params is None:
        assert b"params" not in encode_request(1, "m", None) + encode_notification("m", None)


@given(IDS, OBJECTS)
def test_responses_come_back(id: RequestId, result: dict[str, Any]) -> None:
    """An empty result is a result."""
    assert read(encode_response(id, result)) == Response(id, result)


@given(st.none() | IDS, st.integers(), METHODS, st.just(ABSENT) | st.none() | OBJECTS)
def test_errors_come_back(id: RequestId | None, code: int, text: str, data: object) -> None:
    """`data` that is null is as good as `data` that is missing."""
    error = RequestError(code, text, data)
    assert facts(read(encode_error(id, error))) == facts(ErrorResponse(id, error))


def test_an_error_without_id_has_no_id_member() -> None:
    """2025-11-25 made the id of an error optional; null is no id in any revision."""
    assert _json.decode(encode_error(None, RequestError(1, "m"))) == {**V, "error": {"code": 1, "message": "m"}}


@pytest.mark.parametrize("params", [b"{}", b'{"a":[1,{"b":"}"}]}', b'{ "spaced" : 1.0 }'])
def test_what_is_encoded_goes_out_to_the_letter(params: bytes) -> None:
    """Cached lists are not encoded twice."""
    encoded = Encoded(params)
    for data, member in (
        (encode_request(1, "m", encoded), "params"),
        (encode_notification("m", encoded), "params"),
        (encode_response("a", encoded), "result"),
    ):
        assert data.endswith(b'"%b":%b}' % (member.encode(), params))
        assert _json.decode(data)[member] == json.loads(params)


def test_encoded_and_plain_make_the_same_message() -> None:
    """Which of the two it was, nobody can tell from the wire."""
    plain = {"a": 1}
    encoded = Encoded(b'{"a":1}')
    assert encode_request('"\n', "m", encoded) == encode_request('"\n', "m", plain)
    assert encode_notification("m", encoded) == encode_notification("m", plain)
    assert encode_response('"\n', encoded) == encode_response('"\n', plain)


@pytest.mark.parametrize("members", [{"a": 1}, {}])
def test_any_mapping_may_be_params_and_result(members: dict[str, Any]) -> None:
    """The signatures say `Mapping`."""
    mapping: Mapping[str, Any] = MappingProxyType(members)
    assert read(encode_request(1, "m", mapping)) == Request(1, "m", members)
    assert read(encode_notification("m", mapping)) == Notification("m", members)
    assert read(encode_response(1, mapping)) == Response(1, members)


def test_what_is_not_plain_is_not_sent() -> None:
    """The caller, or the handler, hears of it."""
    odd: dict[str, Any] = {"a": object()}
    with pytest.raises(TypeError):
        encode_request(1, "m", odd)
    with pytest.raises(TypeError):
        encode_notification("m", odd)
    with pytest.raises(TypeError):
        encode_response(1, odd)
    with pytest.raises(TypeError):
        encode_error(1, RequestError(1, "m", odd))


def test_a_batch_is_an_array_of_messages() -> None:
    """2025-03-26, basic, "Batching"."""
    one, other = encode_request(1, "a", None), encode_notification("b", {"c": "],["})
    assert [parse_message(value) for value in _json.decode(encode_batch([one, other]))] == [
        Request(1, "a"),
        Notification("b", {"c": "],["}),
    ]
    assert _json.decode(encode_batch([one])) == [_json.decode(one)]


# The id of a message of which only the ends are known.


def test_the_id_is_found_in_the_ends(subtests: pytest.Subtests) -> None:
    """A message that is too large costs the request it belongs to, and no other."""
    cases: list[tuple[bytes, bytes, RequestId | None]] = [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"...', b'..."}}', 7),
        (b'{"jsonrpc":"2.0","id":"7","result":{"a":"...', b'..."}}', "7"),
        (b'{ "jsonrpc" : "2.0" , "id" : -7 , "result" : { "a" : "...', b'..." } }', -7),
        (b'{"id":0,"jsonrpc":"2.0","method":"m","params":{', b"}}", 0),
        (b'{"id":"a\\"b\\\\\\u00e9","result":{', b"}}", 'a"b\\\u00e9'),
        (b'{"id":"","result":{', b"}}", ""),
        (b'{"id":999999999999999999,"result":{', b"}}", 10**18 - 1),
        # The id comes last.
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"...', b'..."},"id":7}', 7),
        (b'{"jsonrpc":"2.0","result":{"a":"...', b'..."},"id":"x"}\r', "x"),
        (b'{"error":{"data":"...', b'...","message":"m"},"id":7,"jsonrpc":"2.0"}', 7),
        (b'{"jsonrpc":"2.0","result":{"a":"...', b'..."}, "id" : 7 }', 7),
        # What has an id of its own inside comes after the first, or before the last.
        (b'{"jsonrpc":"2.0","id":7,"params":{"id":8', b'"id":9}}', 7),
        (b'{"id":7,"novelty":{"id":8},"params":{', b'"id":9}}', 7),
        (b'{"jsonrpc":"2.0","result":{"id":8,"b":', b'{"id":9}},"id":7}', 7),
        (b'{"jsonrpc":"2.0","error":{"id":8', b'{"id":9}},"id":7}', 7),
        # Names inside strings are no names.
        (b'{"jsonrpc":"2.0","method":"\\"params\\"","id":7,"params":{', b"}}", 7),
        (b'{"jsonrpc":"2.0","method":"\\"id\\":8","id":7,"params":{', b"}}", 7),
        (b'{"jsonrpc":"2.0","result":{"a":"...', b'\\"id\\":8"},"id":7}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"id","params":{', b'"id"}}', 7),
        # Cut in the middle of what matters, or of what does not.
        (b'{"jsonrpc":"2.0","result":{', b'"id":7}', 7),
        (b'{"jsonrpc":"2.0","result":{', b'd":8},"id":7}', 7),
        (b'{"jsonrpc":"2.0","result":{', b'd\\":8"},"id":7}', 7),
        (b'{"jsonrpc":"2.0","result":{', b'd":7}', None),
        (b'{"jsonrpc":"2.0","result":{', b":7}", None),
        (b'{"jsonrpc":"2.0","id":"abc', b"}}", None),
        (b'{"jsonrpc":"2.0","id":"abc\\', b'"}}', None),
        (b'{"jsonrpc":"2.0","id":', b"}}", None),
        (b'{"jsonrpc":"2.0","id"', b"}}", None),
        # There is none, or none that this is for.
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"...', b'..."}}', None),
        (b"", b"", None),
        (b"\0" * 1024, b"\xff" * 1024, None),
        (b'{"id":null,"result":{', b"}}", None),
        (b'{"id":true,"result":{', b"}}", None),
        (b'{"id":1.5,"result":{', b"}}", None),
        (b'{"id":1e3,"result":{', b"}}", None),
        (b'{"id":[7],"result":{', b"}}", None),
        (b'{"id":1234567890123456789,"result":{', b"}}", None),
        (b'{"id":"' + b"x" * 257 + b'","result":{', b"}}", None),
    ]  # fmt: skip
    for head, tail, id in cases:
        with subtests.test(head=head, tail=tail):
            found = id_of_fragment(head, tail)
            assert (found, type(found)) == (id, type(id))


@pytest.mark.parametrize("head", [b'{"id":12', b'{"id":-1', b'{"jsonrpc":"2.0","id": 123'])
def test_half_a_number_is_no_id(head: bytes) -> None:
    """Where the head ends inside the id, the rest of its digits is unknown, and another request has the half."""
    assert id_of_fragment(head, b'..."}}') is None


def test_what_is_no_json_is_no_id(subtests: pytest.Subtests) -> None:
    """One broken message costs that message, not the connection."""
    for id in (b"007", b"-01", b'"\\q"', b'"\\u12"', b'"\xff"', b'"\x00"', b'"\n"', b'"\xed\xa0\x80"'):
        with subtests.test(id=id):
            assert id_of_fragment(b'{"jsonrpc":"2.0","id":%b,"result":{' % id, b"}}") is None
            assert id_of_fragment(b'{"jsonrpc":"2.0","result":{', b'},"id":%b}' % id) is None


FRAGMENTS: Final = st.lists(
    st.sampled_from(
        [b'"id"', b":", b" ", b"7", b"0", b"-", b'"', b"\\", b"\\u", b"x", b"\xff", b"\0", b",", b"{", b"}", b'"id":7', b'"result"']
    ),
    max_size=8,
).map(b"".join)  # fmt: skip


@given(FRAGMENTS, FRAGMENTS)
@example(b'"id":00', b"")
@example(b"", b'"id":"\\u"')
def test_a_guess_never_fails(head: bytes, tail: bytes) -> None:
    """Any bytes may be the ends of a message that is too large."""
    assert type(id_of_fragment(head, tail)) in (int, str, type(None))


NESTED_IDS: Final = st.recursive(
    st.integers() | st.text(max_size=8) | st.sampled_from(['"id":8', '{"id":8}', '\\"id\\":8', '"params":', '"result":{']),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "params", "result", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@given(
    id=st.integers(-(10**17), 10**18 - 1) | st.text(max_size=20),
    payload=st.dictionaries(st.sampled_from(["id", "a", "params", "z"]), NESTED_IDS, min_size=1),
    shape=st.sampled_from(
        [
            ["jsonrpc", "id", "method", "params"],
            ["jsonrpc", "method", "id", "params"],
            ["jsonrpc", "method", "params", "id"],
            ["method", "params", "jsonrpc", "id"],
            ["jsonrpc", "id", "result"],
            ["jsonrpc", "result", "id"],
            ["result", "id", "jsonrpc"],
            ["id", "jsonrpc", "error"],
            ["error", "id", "jsonrpc"],
        ]
    ),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    ascii_only=st.booleans(),
    filled_first=st.booleans(),
)
def test_the_id_is_found_whatever_the_writer(
    id: RequestId,
    payload: dict[str, Any],
    shape: list[str],
    separators: tuple[str, str],
    ascii_only: bool,
    filled_first: bool,
) -> None:
    """Writers put the id first or last, with or without spaces, in UTF-8 or in escapes."""
    filling = {"filling": "x" * 2048}
    whole = filling | payload if filled_first else payload | filling
    members = {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": whole,
        "result": whole,
        "error": whole,
    }
    message = {name: members[name] for name in shape}
    text = json.dumps(message, separators=separators, ensure_ascii=ascii_only).encode()
    assert id_of_fragment(text[:1024], text[-1024:]) == id


def test_what_is_answered_is_seen_whether_or_not_the_answer_can_be_used() -> None:
    """The caller that waits for the answer must learn that there will be no other."""
    cases: list[tuple[Any, RequestId | None]] = [
        ({"id": 1, "result": {}}, 1),
        ({"id": "a", "error": None}, "a"),
        ({"id": 1}, 1),
        ({"id": 1.0, "method": None, "result": 5}, 1),
        ({"id": 1, "method": None}, None),
        ({"id": 1, "method": "x", "result": {}}, None),
        ({"id": None, "result": {}}, None),
        ({"id": True, "result": {}}, None),
        (IN_AN_ARRAY, None),
        (7, None),
    ]
    for value, id in cases:
        assert answered_id(value) == id


def test_the_answer_is_seen_in_what_cannot_be_decoded(subtests: pytest.Subtests) -> None:
    """Torn, too deep, no UTF-8: the ends of a message still say what it is."""
    cases: list[tuple[bytes, RequestId | None, bool]] = [
        (b'{"jsonrpc":"2.0","id":7,"result":{"n":1e', 7, False),
        (b'{"jsonrpc":"2.0","id":7.0,"result":{"n":NaN}}', 7, False),
        (b'{"jsonrpc":"2.0","id":7.5,"result":{"n":NaN}}', None, False),
        (b'{"result":{"n":-Infinity},"id":7}', 7, False),
        (b'{"result":"\xff","id":"x"}', "x", False),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"result":', None, True),
        (b'{"jsonrpc":"2.0","method":"notifications/x"', None, True),
        (b"<html>", None, False),
        (b'[{"id":3,"error":', 3, False),
    ]
    for data, id, is_asked in cases:
        with subtests.test(data=data):
            assert answered_id_of_fragment(data) == id
            assert is_request_fragment(data) is is_asked
