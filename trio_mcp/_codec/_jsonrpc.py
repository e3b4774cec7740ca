"""The envelopes of JSON-RPC 2.0 as MCP uses them, and the wire objects in their `params` and `result`.

Envelopes are read from plain values and written to bytes. `from_wire` and `to_wire` read and write the objects of
the protocol; the functions for a class are made by `_structure` and `_unstructure` when it is first used, which
takes about a millisecond and imports cattrs, and kept. No I/O, no Trio, no methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, final, overload

import attrs

from .._absent import ABSENT
from .._errors import INVALID_REQUEST, RequestError
from .._revisions import LATEST, Revision
from . import _json
from ._json import is_object, kind_of

# Messages
#
# Members decide what a message is: `method` with `id` is a request, `method` alone a notification, `result` or
# `error` without `method` a response. Everything else is invalid. An error may be sent for an invalid message
# unless it looks like a response: otherwise two peers could answer each other's errors for ever. Which request a
# message answers is a separate question: `answered_id` also finds it for responses that cannot be used.

RequestId: TypeAlias = str | int
"""A string or an integer; `1` and `"1"` are two ids. Never a `bool`."""


@final
class Encoded(bytes):
    """A JSON object that is already encoded, to be sent unchanged as `params` or `result`. It is not checked."""

    __slots__ = ()


@final
@attrs.define
class Request:
    """A request: it has an id, and the receiver must answer it."""

    id: RequestId
    method: str
    params: dict[str, Any] | None = None


@final
@attrs.define
class Notification:
    """A notification: it has no answer."""

    method: str
    params: dict[str, Any] | None = None


@final
@attrs.define
class Response:
    """A successful answer."""

    id: RequestId
    result: dict[str, Any]


@final
@attrs.define
class ErrorResponse:
    """An answer that is an error; `id` is `None` if the sender could not read that of the request."""

    id: RequestId | None
    error: RequestError


Message: TypeAlias = Request | Notification | Response | ErrorResponse


@final
class InvalidMessage(ValueError):
    """JSON, but not a message.

    Attributes:
        reason: What is wrong, naming the member.
        id: The message's id, or `None` if it cannot be read.
        answerable: Whether an error may be sent for it.
    """

    def __init__(self, reason: str, *, id: RequestId | None = None, answerable: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.id = id
        self.answerable = answerable


def parse_message(value: Any) -> Message:
    """Read the envelope of one message.

    Args:
        value: A decoded JSON value. Callers split batches first.

    Raises:
        InvalidMessage: It is none of the four shapes.
    """
    if value.__class__ is not dict:  # as `is_object`, which is a call
        raise InvalidMessage(f"a message must be an object, not {kind_of(value)}")
    identifier = value.get("id")
    if not (type(identifier) is int or type(identifier) is str):
        identifier = read_id(identifier)
    method = value.get("method", ABSENT)
    if method is ABSENT and ("result" in value or "error" in value):
        return _parse_response(value, identifier)
    if value.get("jsonrpc") != "2.0":
        raise InvalidMessage('jsonrpc must be "2.0"', id=identifier)
    if not isinstance(method, str):
        problem = "is missing" if method is ABSENT else f"must be a string, not {kind_of(method)}"
        raise InvalidMessage(f"method {problem}", id=identifier)
    params = value.get("params")
    if params is not None and params.__class__ is not dict:
        raise InvalidMessage(f"params must be an object, not {kind_of(params)}", id=identifier)
    if "id" not in value:
        return Notification(method, params)
    if identifier is None:
        raise InvalidMessage(f"id must be a string or an integer, not {kind_of(value['id'])}")
    return Request(identifier, method, params)


def _parse_response(message: dict[str, Any], identifier: RequestId | None) -> Response | ErrorResponse:
    def invalid(reason: str) -> InvalidMessage:
        return InvalidMessage(reason, id=identifier, answerable=False)

    if message.get("jsonrpc") != "2.0":
        raise invalid('jsonrpc must be "2.0"')
    if "error" not in message:
        result = message["result"]
        if identifier is None:
            raise invalid("a response needs the id of its request")
        if not is_object(result):
            raise invalid(f"result must be an object, not {kind_of(result)}")
        return Response(identifier, result)
    if "result" in message:
        raise invalid("a response has either a result or an error, not both")
    if identifier is None and message.get("id") is not None:
        raise invalid(f"id must be a string or an integer, not {kind_of(message['id'])}")
    error = message["error"]
    if not is_object(error):
        raise invalid(f"error must be an object, not {kind_of(error)}")
    code = read_id(error.get("code"))
    if not isinstance(code, int):
        raise invalid("error.code must be an integer")
    text = error.get("message", "")
    if not isinstance(text, str):
        raise invalid(f"error.message must be a string, not {kind_of(text)}")
    return ErrorResponse(identifier, RequestError(code, text, error.get("data")))


def read_id(value: Any) -> RequestId | None:
    """Return an id as it is compared and echoed, or `None` if the value cannot be one.

    JSON has one number type: 1.0 is the integer 1, `true` is no number.
    """
    if type(value) is int or type(value) is str:
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def answered_id(value: Any) -> RequestId | None:
    """Return the id of the request that a decoded message answers, whether or not the answer can be used.

    A message with an id but without `method`, `result` and `error` can only be meant as an answer.
    """
    if not is_object(value):
        return None
    method = value.get("method", ABSENT)
    if method is not ABSENT and (isinstance(method, str) or not ("result" in value or "error" in value)):
        return None
    return read_id(value.get("id"))


# Messages that cannot be decoded, because they are too large or broken: guesses from their ends.

_FRAGMENT_ID: Final = re.compile(rb'"id"\s*:\s*(-?\d{1,18}(?:\.0{1,9})?(?=\s*[,}])|"(?:[^"\\]|\\.){0,256}")')


def id_of_fragment(head: bytes, tail: bytes) -> RequestId | None:
    """Guess the id of a message of which only both ends are known.

    Writers put the id first or last. A wrong guess names no pending request, or fails one more request to a peer
    that breaks the limit anyway.

    Args:
        head: How the message begins.
        tail: How it ends.
    """
    for fragment, opening in ((head, (b'"params"', b'"result"', b'"error"')), (tail, ())):
        end = min((i for i in map(fragment.find, opening) if i >= 0), default=len(fragment))
        found = list(_FRAGMENT_ID.finditer(fragment, 0, end))
        if found:
            try:
                value = _json.decode(found[0 if opening else -1][1])
            except ValueError:  # digits or escapes that are not JSON's
                return None
            return read_id(value)
    return None


_FRAGMENT_KIND: Final = re.compile(rb'"(method|params|result|error)"\s*:')


def is_response_fragment(head: bytes, tail: bytes) -> bool:
    """Guess whether a message of which only both ends are known is a response.

    The first member of a known name decides, if the beginning has one, else the last one of the end.

    Args:
        head: How the message begins.
        tail: How it ends.
    """
    return _fragment_kind(head, tail) in {b"result", b"error"}


def is_batch_fragment(head: bytes) -> bool:
    """Whether a message that cannot be decoded is a batch, by how it begins."""
    return head[:64].lstrip().startswith(b"[")


def _fragment_kind(head: bytes, tail: bytes) -> bytes | None:
    found = _FRAGMENT_KIND.search(head) or next(reversed(list(_FRAGMENT_KIND.finditer(tail))), None)
    return None if found is None else found[1]


FRAGMENT_BYTES: Final = 1024
"""How many bytes of each end of a message are searched."""


def answered_id_of_fragment(data: bytes) -> RequestId | None:
    """Guess the id of the request that a message answers; `None` if it does not seem to be a response.

    Args:
        data: The whole message.
    """
    head, tail = data[:FRAGMENT_BYTES], data[-FRAGMENT_BYTES:]
    return id_of_fragment(head, tail) if is_response_fragment(head, tail) else None


def is_request_fragment(data: bytes) -> bool:
    """Guess whether a message is a request or a notification.

    Args:
        data: The whole message.
    """
    return _fragment_kind(data[:FRAGMENT_BYTES], data[-FRAGMENT_BYTES:]) in {b"method", b"params"}


# Encoding


def _as_dict(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return any mapping as a `dict`, the only mapping that JSON libraries encode."""
    if is_object(members):
        return members
    if isinstance(members, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
        return dict(members)
    raise TypeError(f"params takes a mapping, not {type(members).__name__}")


def encode_request(id: RequestId, method: str, params: Mapping[str, Any] | Encoded | None) -> bytes:
    """Return the bytes of a request.

    Raises:
        TypeError: `params` holds something that is not plain JSON.
        ValueError: A number in it is not finite, or a text has half a surrogate pair; the error says where.
    """
    if params is None:
        return _json.encode({"jsonrpc": "2.0", "id": id, "method": method})
    if isinstance(params, Encoded):
        head = _json.encode({"jsonrpc": "2.0", "id": id, "method": method})
        return b'%b,"params":%b}' % (head[:-1], params)
    return _json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": _as_dict(params)})


def encode_notification(method: str, params: Mapping[str, Any] | Encoded | None) -> bytes:
    """Return the bytes of a notification.

    Raises:
        TypeError: `params` holds something that is not plain JSON.
        ValueError: A number in it is not finite, or a text has half a surrogate pair; the error says where.
    """
    if params is None:
        return _json.encode({"jsonrpc": "2.0", "method": method})
    if isinstance(params, Encoded):
        return b'%b,"params":%b}' % (_json.encode({"jsonrpc": "2.0", "method": method})[:-1], params)
    return _json.encode({"jsonrpc": "2.0", "method": method, "params": _as_dict(params)})


def encode_response(id: RequestId, result: Mapping[str, Any] | Encoded) -> bytes:
    """Return the bytes of a successful response.

    Raises:
        TypeError: `result` holds something that is not plain JSON.
    """
    if isinstance(result, Encoded):
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_json.encode(id), result)
    members = result if result.__class__ is dict else dict(result)
    return _json.encode_answer({"jsonrpc": "2.0", "id": id, "result": members})


def encode_error(id: RequestId | None, error: RequestError) -> bytes:
    """Return the bytes of an error response; without an `id` member if the request's is not known.

    Raises:
        TypeError: `error.data` is not plain JSON.
    """
    members: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        members["data"] = error.data
    envelope: dict[str, Any] = {"jsonrpc": "2.0"}
    if id is not None:
        envelope["id"] = id
    envelope["error"] = members
    return _json.encode_answer(envelope)


def encode_batch(messages: Sequence[bytes | memoryview]) -> bytes:
    """Return the bytes of a batch of encoded messages (2025-03-26, basic, "Batching")."""
    return b"[%b]" % b",".join(messages)


def invalid_request(reason: str) -> RequestError:
    """Return the error for a message that is not a valid request."""
    return RequestError(INVALID_REQUEST, f"invalid request: {reason}")


# Between decoded JSON and wire objects


T = TypeVar("T")

_readers: Final[dict[Any, Callable[[Any], Any]]] = {}
_writers: Final[dict[tuple[type, Revision, str | None], Callable[[Any], Any]]] = {}


@overload
def from_wire(data: object, kind: type[T]) -> T: ...
@overload
def from_wire(data: object, kind: Any) -> Any: ...
def from_wire(data: object, kind: Any) -> Any:
    """Read an object of the protocol, of any revision.

    A missing member has its default, if it may be missing. Unknown members are ignored. Known ones are accepted
    in every revision, because peers are often ahead of the one they agreed to. Open objects are not copied.

    Args:
        data: Decoded JSON.
        kind: A class of `trio_mcp.types`, or a union of them.

    Raises:
        InvalidData: The data does not have the form that the specification requires.
    """
    read = _readers.get(kind)
    if read is None:
        from ._structure import reader

        read = _readers[kind] = reader(kind)
    return read(data)


def from_json(data: object, kind: type[T]) -> T:
    """Read an object of the protocol from plain JSON, of any revision: the inverse of `to_json`.

    Unknown members are ignored, and missing ones have their defaults. Open objects in it are not copied.

    Args:
        data: Decoded JSON, such as ``json.loads`` returns.
        kind: A class of `trio_mcp.types`.

    Raises:
        ValueError: The data does not have the form that the specification requires; the error names the members.
    """
    return from_wire(data, kind)


def to_json(obj: object, revision: Revision | str = LATEST) -> dict[str, Any]:
    """Return an object of `trio_mcp.types` as plain JSON, as it is sent to a peer.

    What the revision lacks is left out, or replaced by text or an older form. Open objects in it are not copied.

    Args:
        obj: The object.
        revision: What the peer speaks. Default: the latest.

    Raises:
        LocalProtocolError: The revision has no such object, or requires a member that is missing.
        TypeError: It is no such object, or a value in it has the wrong type.
    """
    return to_wire(obj, Revision(revision))


def to_wire(obj: object, revision: Revision, *, without: str | None = None) -> dict[str, Any]:
    """Write an object of the protocol for a peer of a revision, without anything the revision does not have.

    What the revision lacks is left out. Where that would lose something, it is replaced by text or an older form
    (see `trio_mcp._codec._unstructure`). Open objects are not copied: do not change them in the result.

    Args:
        obj: An instance of a class of `trio_mcp.types`.
        revision: What the peer speaks.
        without: A member that is left out even if it is required, because the caller adds it.

    Raises:
        LocalProtocolError: The revision has no such object, or requires a member that is missing, or a value is
            out of bounds.
        TypeError: `obj` is not an instance of a wire class, or a value in it has the wrong type.
    """
    cls: Any = obj.__class__
    write = _writers.get((cls, revision, without))
    if write is None:
        from ._unstructure import writer

        write = _writers[cls, revision, without] = writer(cls, revision, without)
    written: dict[str, Any] = write(obj)
    return written
