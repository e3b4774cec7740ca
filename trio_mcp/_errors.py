"""The exceptions of this package and the error codes of the wire. Nothing else lives here.

    McpError
    ├── ProtocolError
    │   ├── LocalProtocolError     the caller asked for what the protocol forbids; nothing was sent
    │   └── RemoteProtocolError    the peer broke the specification
    ├── RequestError               the answer to a request was an error: code, message, data
    │   ├── AskRefused             this client, or its user, refused what its server asked
    │   └── HttpStatusError        it was an HTTP error: status, body, retry_after
    │       ├── SessionLost        the server no longer knows the session
    │       └── AuthorizationRefused
    │                              the server wants another authorization, or none is enough: 401, 403
    ├── ToolError                  a tool failed in a way its caller should read
    ├── ResourceNotFound           a resource that was asked for does not exist
    ├── SkillChanged               a file of a skill is not what its server has said
    ├── Lagged                     a listener was too slow for its subscription
    ├── ConnectionLost             the connection is gone, and why
    ├── AuthorizationFailed        no token could be had, and why
    │   └── ClientUnknown          the authorization server does not know this client
    ├── ServerUnavailable          a server of a group is not ready, and why
    └── ConfigError                a configuration of servers is wrong, and where

Timeouts are Trio's own: `trio.TooSlowError`. Use after closing is Trio's own: `trio.ClosedResourceError`.

The text of an error may come from the peer and end up in a log or on a terminal. So `str` makes it printable
(`_printable`). Attributes that are documented as sent keep the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, final

from ._absent import ABSENT, Absent
from ._printable import printable, printable_lines, shown

# JSON-RPC 2.0, section 5.1.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

RESOURCE_NOT_FOUND: Final = -32002
"""The legacy era's own code (2025-11-25, server/resources, "Error Handling"); invalid params since 2026-07-28."""

# 2026-07-28, basic, "Error Codes".
HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
MODERN_ERRORS: Final = frozenset(
    {HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION}
)
"""The codes by which a server shows that it speaks the modern era (2026-07-28, basic/versioning)."""

URL_ELICITATION_REQUIRED: Final = -32042
"""Only 2025-11-25 has it (client/elicitation, "Error Handling")."""

CANCELLED_BY_DEADLINE: Final = -31001
"""Ours: the handler was cancelled because its caller's deadline had passed.

Outside the range that JSON-RPC and MCP reserve, as 2026-07-28 requires of new codes.
"""

SERVER_BUSY: Final = -31002
"""Ours: the request was not started, because too much waits already or the server is about to stop."""

USER_REJECTED: Final = -1
"""The user refuses what a server asks (2025-11-25, client/sampling, "Error Handling")."""

TRANSPORT_FAILED: Final = -31003
"""Ours: there is no answer of the peer, because the transport could not get one. Never on the wire."""

MAX_SHOWN_BODY: Final = 200
"""How many characters of the body of an HTTP error are part of its text."""


class McpError(Exception):
    r"""The base of all errors of this package.

    Its text is safe for a log and a terminal, even if the peer has written it: characters that are not printable
    are escaped as in Python (``\n``, ``\x1b``), and very long texts are cut.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class ProtocolError(McpError):
    """The protocol was broken, or would have been."""


@final
class LocalProtocolError(ProtocolError):
    """The caller asked for something that the protocol forbids now. Nothing was sent."""


@final
class RemoteProtocolError(ProtocolError):
    """The peer broke the specification. What it sent could not be used.

    Attributes:
        question: In a handler that has asked the client, the method of that request, if the answer cannot be
            used; else `None`. If the handler does not catch this error, its own request is answered with one that
            names it.
    """

    question: str | None = None


class RequestError(McpError):
    """The answer to a request was an error. Raise it in a handler to answer with exactly this error.

    Attributes:
        code: A JSON-RPC or MCP error code.
        message: One sentence for people, as it was sent.
        data: Further information of the sender; `None` if there is none.
        question: In a handler that has asked the client, the method that the client answered with this error;
            else `None`.
        status: In a client, the HTTP status that the error came with; `None` if it did not come as an HTTP error.
        retry_after: In a client, how many seconds the server asks to wait before the next request, if HTTP has
            `Retry-After`. On a server, what that is to be, where the error is a whole response: modern HTTP, and
            ``SERVER_BUSY``.
        is_own_share: On a server, with ``SERVER_BUSY``, whether it is this client that has used up what it may
            have. Where the error is a whole response of modern HTTP, its status is then 429, and 503 otherwise.
    """

    def __init__(self, code: int, message: str, data: object | Absent = None) -> None:
        data = None if data is ABSENT else data
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.question: str | None = None
        self.status: int | None = None
        self.retry_after: float | None = None
        self.is_own_share = False

    def __str__(self) -> str:
        extra = "" if self.data is None else f" {shown(self.data)}"
        return f"{shown(self.message, str)} [{self.code}]{extra}"


@final
class AskRefused(RequestError):
    """What a server asked of this client was refused, by its `AskPolicy` or by a person.

    In the legacy era the server gets this error, with the code -1. In the modern era it waits for none, so the
    request of ours that it had asked about raises it.

    Spec: 2025-11-25, client/sampling, "Error Handling"; 2026-07-28, likewise.
    """


class HttpStatusError(RequestError):
    """The answer to a request was an HTTP error without an error of the protocol in it.

    Attributes:
        body: The beginning of its body.
    """

    def __init__(self, status: int, message: str, *, body: str = "", retry_after: float | None = None) -> None:
        data: dict[str, object] = {"httpStatus": status, "body": body}
        if retry_after is not None:
            data["retryAfter"] = retry_after
        super().__init__(TRANSPORT_FAILED, message, data)
        self.status: int | None = status
        self.body = body
        self.retry_after: float | None = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are copied by calling the class with `args`, which here are those of `RequestError`.
        return partial(type(self), body=self.body, retry_after=self.retry_after), (self.status, self.message)

    def __str__(self) -> str:
        message = printable(self.message)
        return message if not self.body else f"{message}: {printable(self.body, MAX_SHOWN_BODY)}"


@final
class SessionLost(HttpStatusError):
    """The server no longer knows the session, so it has not handled the request.

    A new session begins with `initialize` (2025-11-25, basic/transports, "Session Management").
    """


_NOTHING_SAID: Final = frozenset({"", "{}", "[]", "null", '""'})
"""Bodies of refusals that say nothing."""


@final
class AuthorizationRefused(HttpStatusError):
    """The server did not handle a request: it wants to see an authorization (401), or a greater one (403).

    Attributes:
        scheme: The scheme of its challenge, in lower case: ``"bearer"``, ``"dpop"``; `None` if it sent none.
        scope: The scopes that it asks for, separated by blanks, as sent; `None` if it names none.
        resource_metadata: Where it says who issues tokens for it, as sent; `None` if it does not say so there.
        error: The code of its challenge, as sent: ``"invalid_token"``, ``"insufficient_scope"``; or `None`.
        was_authorized: Whether the request had credentials, which the server does not accept.
        reason: What was refused, what the challenge says, and what to write, in one sentence.

    Spec: 2026-07-28, basic/authorization, "Error Handling"; RFC 6750, section 3.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        body: str = "",
        retry_after: float | None = None,
        scheme: str | None = None,
        scope: str | None = None,
        resource_metadata: str | None = None,
        error: str | None = None,
        was_authorized: bool = False,
    ) -> None:
        super().__init__(status, message, body=body, retry_after=retry_after)
        self.was_authorized = was_authorized
        self.scheme = scheme
        self.scope = scope
        self.resource_metadata = resource_metadata
        self.error = error
        self.reason = message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.status, self.message), dict(self.__dict__)

    def __str__(self) -> str:
        sent = self.body if self.message == self.reason else self.message
        sent = "" if sent.strip() in _NOTHING_SAID or sent in self.reason else sent
        reason = printable(self.reason)
        return f"{reason}: {printable(sent, MAX_SHOWN_BODY)}" if sent else reason


class ToolError(McpError):
    """Raise it in a tool to report a failure to the model, in words it can act on.

    The message is sent as a result with `isError`. Every other exception is logged in full on the server, and the
    client gets one fixed sentence instead, because its text was not written for untrusted readers. Prompts and
    resources have no such results: they raise `RequestError`, or `ResourceNotFound`.

    On the client it has the message of the tool: as sent in ``error.args[0]``; printable, and with its lines
    after the first indented, as text.
    """

    def __str__(self) -> str:
        return printable_lines(Exception.__str__(self))


class ResourceNotFound(McpError):
    """Raise it in a function that serves resources if there is none for the URI.

    The client gets the error that its revision has for this, with the URI.

    Attributes:
        message: One sentence for people. It is sent.
        uri: The URI that was not found; with `None`, the URI of the request.

    Spec: 2026-07-28, server/resources, "Error Handling".
    """

    def __init__(self, message: str = "Resource not found", *, uri: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.uri = uri


@final
class SkillChanged(McpError):
    """A file of a skill is not what its server has said of it; it must not be used.

    The skill has changed since, or somebody has tampered with it. `Client.get_skill` with ``fresh=True`` says
    what holds now; who has approved the skill as it was must be asked again.

    Attributes:
        skill: The URI of the skill's SKILL.md.
        uri: The URI of the file.
        problem: What is wrong with it.
    """

    def __init__(self, skill: str, uri: str, problem: str) -> None:
        super().__init__(skill, uri, problem)
        self.skill = skill
        self.uri = uri
        self.problem = problem

    def __str__(self) -> str:
        return printable(f"{self.uri} is not what the server has said of the skill: {self.problem}")


class Lagged(McpError):
    """A listener was too slow, and too many changes wait for it. What it knows may be outdated.

    Attributes:
        max_events: How many different changes may wait.
    """

    def __init__(self, max_events: int) -> None:
        super().__init__(max_events)
        self.max_events = max_events

    def __str__(self) -> str:
        return (
            f"the listener was too slow: more than {self.max_events} different changes wait for it (max_events), "
            "or they take too much memory (max_message_bytes)"
        )


class ConnectionLost(McpError):
    """The connection ended before the work was done.

    Attributes:
        reason: Why, in one sentence, made printable.
        exit_status: The server process's exit status, negative for a signal; `None` if there is no process or
            it is still running.
        stderr: The last lines the server process wrote to its standard error, oldest first, made printable. The
            original goes to `StdioServerParameters.stderr`.
        is_stderr_shown: Whether that is this program's own standard error, so that they can be seen there. The
            text of this error then repeats the last of them alone.
        question: In a handler that has asked the client, the method that was not answered; else `None`.
    """

    def __init__(
        self,
        reason: str,
        *,
        exit_status: int | None = None,
        stderr: Sequence[str] = (),
        is_stderr_shown: bool = False,
    ) -> None:
        reason = printable(reason)
        super().__init__(reason)
        self.reason: str = reason
        self.exit_status = exit_status
        self.stderr: tuple[str, ...] = tuple(map(printable, stderr))
        self.is_stderr_shown = is_stderr_shown
        self.question: str | None = None

    def __str__(self) -> str:
        if not self.stderr:
            return self.reason
        if self.is_stderr_shown:
            last = next((line for line in reversed(self.stderr) if line.strip()), "")
            return f"{self.reason}; its standard error, shown above, ends with: {last.strip()}"
        tail = "\n".join(f"    {line}" for line in self.stderr)
        return f"{self.reason}; the last of its standard error:\n{tail}"

    def renewed(self) -> ConnectionLost:
        """Return an equal error without traceback.

        One loss fails many waiting tasks. Each raises its own error, so that tracebacks stay separate.
        """
        again = ConnectionLost(
            self.reason, exit_status=self.exit_status, stderr=self.stderr, is_stderr_shown=self.is_stderr_shown
        )
        again.__cause__ = self.__cause__
        return again


class AuthorizationFailed(McpError):
    """No token could be had for a server, so nothing was sent to it, or it had refused what was sent.

    Attributes:
        error: The code of an authorization server's refusal, as sent, such as ``"access_denied"`` or
            ``"invalid_grant"``; `None` if none of them refused.
        issuer: The authorization server, as far as it was known by then.
        may_pass: Whether the same may succeed later, because nobody refused: an authorization server could not be
            reached, was busy, or failed.
    """

    def __init__(
        self, reason: str, *, error: str | None = None, issuer: str | None = None, may_pass: bool = False
    ) -> None:
        super().__init__(reason)
        self.error = error
        self.issuer = issuer
        self.may_pass = may_pass

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(type(self), error=self.error, issuer=self.issuer, may_pass=self.may_pass)
        return made, self.args


@final
class ClientUnknown(AuthorizationFailed):
    """The authorization server does not know this client, which somebody must register there by hand.

    Spec: 2026-07-28, basic/authorization/client-registration.
    """


@final
class TaskCancelled(McpError):
    """The task that a server had made of a call was cancelled, by its server or by another client.

    Attributes:
        id: The task's id.
        reason: Its last status message, as it was sent; `None` if it had none.

    Spec: ext-tasks, "Task Cancellation".
    """

    def __init__(self, id: str, reason: str | None = None) -> None:
        super().__init__(id, reason)
        self.id = id
        self.reason = reason

    def __str__(self) -> str:
        why = "" if self.reason is None else f": {shown(self.reason, str)}"
        return f"the task {shown(self.id, str)} was cancelled{why}"


@final
class ServerUnavailable(McpError):
    """A server of a group is not ready, so it cannot be asked.

    Attributes:
        server: Its name in the group.
        status: Its status then: ``"connecting"``, ``"lost"``, ``"failed"``, ``"disabled"`` or ``"closed"``.
        reason: Why, in one sentence, made printable; `None` if there is nothing to say.
    """

    def __init__(self, server: str, status: str, reason: str | None = None) -> None:
        super().__init__(server, status, reason)
        self.server = server
        self.status = status
        self.reason: str | None = None if reason is None else printable(reason)

    def __str__(self) -> str:
        what = f"the server {shown(self.server)} is not ready: {self.status}"
        return what if self.reason is None else f"{what}: {self.reason}"


@final
class ConfigError(McpError, ValueError):
    """A configuration of servers is wrong. Nothing was started.

    Attributes:
        source: The file, or what else it was read from.
        problems: Everything that is wrong in it, each with its place and what is allowed, made printable. No
            values of ``args``, ``env`` and ``headers`` are quoted: they may be secrets.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source: str = printable(source)
        self.problems: tuple[str, ...] = tuple(map(printable, problems))
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return f"{self.source}: {self.problems[0]}"
        lines = "".join(f"\n    {problem}" for problem in self.problems)
        return f"{self.source}: {len(self.problems)} problems:{lines}"
