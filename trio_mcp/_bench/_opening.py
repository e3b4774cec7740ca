"""Reaching a server, started or not, and coming to an agreement with it, in whichever era it speaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, final
from urllib.parse import unquote, urlsplit

import attrs

from .._codec._json import is_object, show
from ._http_links import NO_FIELDS, HttpLink, Refused, SseLink
from ._links import (
    Descriptors,
    Ended,
    LineLink,
    Link,
    LoadError,
    open_unix_wire,
    open_websocket,
    open_wire,
    seconds_now,
)
from ._messages import DIALECTS, LEGACY_REVISIONS, Dialect, Message
from ._processes import ServerProcess, start_server

PATIENCE: Final = 60.0
"""How long a server may take to start, and to answer what is asked once, in seconds."""
GUESSING: Final = 3.0
"""How many seconds a server may say nothing in the modern era, before it is asked in the legacy one as well."""
LOOK_SECONDS: Final = 0.005
NOT_ADMITTED: Final = frozenset({401, 403})
NOT_FOUND: Final = frozenset({400, 404, 405})
"""What an endpoint of HTTP+SSE answers to a POST."""
METHOD_NOT_FOUND: Final = -32601


class AnsweredByError(LoadError):
    """A request was answered by an error."""


@final
class Opened:
    """A link to a server over which requests can go, and the server, if it was started for that.

    Attributes:
        server: Its process; `None` if somebody else has started it.
        link: The link.
        address: Where it is, unless it is at the other end of two pipes.
        dialect: What is spoken with it.
        fields: Header fields of each request.
        name: What it calls itself.
        version: Which version of that.
    """

    def __init__(
        self,
        server: ServerProcess | None,
        link: Link,
        address: str | None,
        *,
        fields: Mapping[str, str] = NO_FIELDS,
        info: Message | None = None,
    ) -> None:
        self.server = server
        self.link = link
        self.address = address
        self.fields = fields
        info = info or {}
        self.name = str(info.get("name", ""))
        self.version = str(info.get("version", ""))

    @property
    def dialect(self) -> Dialect:
        """What is spoken."""
        return self.link.dialect

    def connect_again(self) -> Link:
        """Return another link to the same server, without any agreement.

        Raises:
            LoadError: That is a pipe.
        """
        if self.address is None:
            raise LoadError("nobody else can connect to a pipe")
        return connect(self.address, self.dialect, "sse" if isinstance(self.link, SseLink) else "", self.fields)

    def process(self) -> ServerProcess:
        """Return the server's process.

        Raises:
            LoadError: It is not known.
        """
        if self.server is None:
            raise LoadError("the server's process is not known")
        return self.server

    def cpu_seconds(self) -> float:
        """Return how much time the server has been computing; 0 where nobody knows."""
        return 0.0 if self.server is None else self.server.cpu_seconds()

    def memory_bytes(self) -> int:
        """Return how much memory the server has.

        Raises:
            LoadError: Nobody knows.
        """
        memory = self.process().memory_bytes()
        if not memory:
            raise LoadError("this system does not tell how much memory a process has")
        return memory

    def last_words(self) -> str:
        """Return the end of what the server has written to standard error."""
        return "" if self.server is None else self.server.last_words()

    def close(self) -> None:
        """End both."""
        self.link.close()
        if self.server is not None:
            self.server.close()


def open_server(job: Mapping[str, Any]) -> Opened:
    """Start the server of a job, connect to it, and agree.

    The job has ``era``: ``legacy``, ``modern``, or ``auto`` and ``sse`` for a server of which nothing more is
    known; ``command``, ``address`` or both; and may have ``transport``, ``cwd``, ``variables``, ``server_cores``,
    ``fields``, ``capabilities``, and ``handshake``, the seconds that it may take. A server that has a command and
    a transport, but no address, prints its address.

    Raises:
        LoadError: It does not start, cannot be reached, or does not agree.
    """
    opened, error = _try_to_open(job)
    if isinstance(error, Ended) and job["era"] == "auto" and not job.get("address"):
        # Some servers end at the first message that they do not know.
        opened, error = _try_to_open({**job, "era": "legacy", "is_lenient": True})
    if opened is None:
        assert error is not None
        raise error
    return opened


def _try_to_open(job: Mapping[str, Any]) -> tuple[Opened | None, LoadError | None]:
    command, address = job.get("command"), job.get("address")
    is_found = address is not None
    server: ServerProcess | None = None
    if command:
        server = start_server(
            command,
            cwd=job.get("cwd"),
            cores=job.get("server_cores"),
            variables=job.get("variables"),
            is_quiet=is_found,
        )
    try:
        if server is not None and not is_found and job.get("transport", "stdio") != "stdio":
            address = server.read_address()
        if server is not None and address is not None and is_found:
            wait_until_reachable(address, server)
        return _agree_somehow(server, address, job), None
    except LoadError as error:
        words = "" if server is None else server.last_words()
        if server is not None:
            server.close()
        return None, _with_words(error, words) if words else error
    except BaseException:
        if server is not None:
            server.close()
        raise


def _with_words(error: LoadError, words: str) -> LoadError:
    kind = Ended if isinstance(error, Ended) else LoadError
    return kind(f"{error}; it wrote: {words}")


def wait_until_reachable(address: str, server: ServerProcess) -> None:
    """Wait until somebody answers at an address.

    Raises:
        LoadError: The server has ended, or nobody does.
    """
    end = seconds_now() + PATIENCE
    parts = urlsplit(address)
    while True:
        try:
            if parts.scheme == "unix":
                open_unix_wire(unquote(parts.path)).close()
            else:
                is_tls = parts.scheme in {"https", "wss", "tls"}
                open_wire(parts.hostname or "", parts.port or (443 if is_tls else 80)).close()
        except Ended:
            server.check_alive()
            if seconds_now() > end:
                raise
            time.sleep(LOOK_SECONDS)
        else:
            return


def _agree_somehow(server: ServerProcess | None, address: str | None, job: Mapping[str, Any]) -> Opened:
    era, transport = job["era"], job.get("transport", "")
    fields: Mapping[str, str] = job.get("fields") or NO_FIELDS
    dialects = dict(DIALECTS)
    if "capabilities" in job:
        dialects = {name: attrs.evolve(one, capabilities=job["capabilities"]) for name, one in DIALECTS.items()}
    patience: float = job.get("handshake", PATIENCE)
    is_lenient = era in {"auto", "sse"} or job.get("is_lenient", False)
    revisions = LEGACY_REVISIONS if is_lenient else (DIALECTS["legacy"].revision,)

    def open_link(dialect: Dialect, transport: str = transport) -> Link:
        if address is not None:
            return connect(address, dialect, transport, fields)
        assert server is not None
        stdin, stdout = server.process.stdin, server.process.stdout
        assert stdin is not None
        assert stdout is not None
        wire = Descriptors(stdout.fileno(), stdin.fileno())
        return LineLink(wire, dialect, admits_strays=job.get("admits_strays", False))

    def opened(link: Link, info: Message | None) -> Opened:
        return Opened(server, link, address, fields=fields, info=info)

    if era == "auto":
        link = open_link(dialects["modern"])
        try:
            if isinstance(link, LineLink):
                return opened(link, _guess_era(link, dialects["legacy"], revisions, patience))
            return opened(link, discover(link, within=patience))
        except LoadError as error:
            link.close()
            if isinstance(error, Refused) and error.status in NOT_ADMITTED:
                raise LoadError(f"{error}; it wants a header field, such as Authorization") from error
            if address is None or not isinstance(error, (AnsweredByError, Ended, Refused)):
                raise
    if era == "modern":
        link = open_link(dialects["modern"])
        return opened(link, discover(link, within=patience) if job.get("is_lenient") else None)
    try:
        link = open_link(dialects["legacy"], "sse" if era == "sse" else transport)
        return opened(link, _agreed(link, revisions, patience))
    except Refused as refused:
        if era != "auto" or refused.status not in NOT_FOUND:
            raise
        link = open_link(dialects["legacy"], "sse")
        return opened(link, _agreed(link, revisions, patience))


def _agreed(link: Link, revisions: Collection[str], patience: float) -> Message | None:
    try:
        return agree(link, revisions, within=patience)
    except LoadError:
        link.close()
        raise


def connect(address: str, dialect: Dialect, transport: str, fields: Mapping[str, str] = NO_FIELDS) -> Link:
    """Return a link to an address, without any agreement.

    Raises:
        LoadError: Nobody answers there, or in another way.
    """
    parts = urlsplit(address)
    match parts.scheme:
        case "http" | "https":
            kind: Callable[[str, Dialect, Mapping[str, str]], Link] = SseLink if transport == "sse" else HttpLink
            return kind(address, dialect, fields)
        case "ws" | "wss":
            return open_websocket(address, dialect, fields)
        case "tcp" | "tls":
            wire = open_wire(parts.hostname or "", parts.port or 0, tls=parts.scheme == "tls")
            return LineLink(wire, dialect)
        case "unix":
            return LineLink(open_unix_wire(unquote(parts.path)), dialect)
        case _:
            raise LoadError(f"{address} is no address of a server")


def discover(link: Link, *, within: float) -> Message | None:
    """Ask a server of the modern era what it is.

    Raises:
        LoadError: It is none.
    """
    return _about_discovered(link, ask_once(link, "server/discover", within=within))


def _about_discovered(link: Link, result: Message) -> Message | None:
    versions: object = result.get("supportedVersions")
    if not isinstance(versions, list) or link.dialect.revision not in versions:
        raise AnsweredByError(f"the server does not speak {link.dialect.revision}")
    meta: Any = result.get("_meta")
    about: Any = meta.get("io.modelcontextprotocol/serverInfo") if is_object(meta) else None
    return about if is_object(about) else result.get("serverInfo")


def _guess_era(link: LineLink, legacy: Dialect, revisions: Collection[str], patience: float) -> Message | None:
    """Ask in the modern way; if that is no use, or nothing comes of it for a while, in the legacy way as well.

    A server that takes long to start so counts as what it answers first.
    """
    modern, asked = link.dialect, link.ids.take()
    link.send(0, link.template("server/discover").fill(asked))
    answers = wait_for_answers(link, {asked}, min(GUESSING, patience))
    greeted = 0
    if not answers:
        link.dialect, greeted = legacy, link.ids.take()
        link.send(0, link.template("initialize", legacy.handshake).fill(greeted))
        answers = wait_for_answers(link, {asked, greeted}, patience)
    answer = next(iter(answers.values()), None)
    if answer is not None and answer["id"] == asked and is_object(answer.get("result")):
        link.dialect = modern
        with suppress(AnsweredByError):
            return _about_discovered(link, answer["result"])
    link.dialect = legacy
    if answer is not None and answer["id"] == asked and greeted:
        answer = (answers if greeted in answers else wait_for_answers(link, {greeted}, patience)).get(greeted)
    elif answer is not None and answer["id"] == asked:
        return agree(link, revisions, within=patience)
    if answer is None:
        raise LoadError(f"the server has answered nothing within {patience:g} s")
    return _shaken(link, answer, revisions)


def agree(link: Link, revisions: Collection[str] | None = None, *, within: float = PATIENCE) -> Message | None:
    """Shake hands, where the era wants it; return what the server says that it is.

    Args:
        link: The link. It speaks the revision that was agreed on from then on.
        revisions: Those that will do. Default: the link's own.
        within: How long the server may take, in seconds.

    Raises:
        LoadError: The server does not want any of them.
    """
    if link.dialect.is_modern:
        return None
    result = ask_once(link, "initialize", link.dialect.handshake, within=within)
    return _shaken(link, {"result": result}, revisions or (link.dialect.revision,))


def _shaken(link: Link, answer: Message, revisions: Collection[str]) -> Message | None:
    """Take the answer to a handshake, and end it."""
    result: Any = answer.get("result")
    if not is_object(result):
        raise AnsweredByError(f"initialize was answered by an error: {answer}")
    revision: str = result.get("protocolVersion", "")
    if revision not in revisions:
        raise LoadError(f"the server wants {show(revision)}, not {link.dialect.revision}")
    link.dialect = attrs.evolve(link.dialect, revision=revision)
    if isinstance(link, HttpLink):
        link.learn_session()
    link.reply({"method": "notifications/initialized"})
    if isinstance(link, HttpLink):
        link.settle()
    else:
        link.flush()
    info: Message | None = result.get("serverInfo")
    return info


def ask_once(
    link: Link,
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    lane: int = 0,
    within: float = PATIENCE,
    **how: Any,
) -> Message:
    """Send one request on a lane that is free, and wait for its result.

    Raises:
        LoadError: It is an error, or does not come.
    """
    if lane == 0:
        link.open_lanes(1)
    id = link.ids.take()
    link.send(lane, link.template(method, params, **how).fill(id))
    message = wait_for_answers(link, {id}, within).get(id)
    if message is None:
        raise LoadError(f"{method} was not answered within {within:g} s")
    result: Any = message.get("result")
    if not is_object(result):
        raise AnsweredByError(f"{method} was answered by an error: {message}")
    return result


def wait_for_answers(link: Link, ids: Collection[int], seconds: float) -> dict[int, Message]:
    """Wait for an answer to one of some requests. Questions are answered.

    Returns:
        The answers that have come together, by their ids, the first one first; nothing if none came for so long.
    """
    answers: dict[int, Message] = {}
    end = seconds_now() + seconds
    while not answers and (left := end - seconds_now()) > 0:
        for _, message in link.poll(left):
            if "method" in message:
                answer_question(link, message)
            elif isinstance(id := message.get("id"), int) and id in ids:
                answers.setdefault(id, message)
    return answers


def answer_question(link: Link, message: Message) -> None:
    """Answer what a server asks, if it asks something: that it is there, and nothing else."""
    if "id" in message:
        if message["method"] == "ping":
            link.reply({"id": message["id"], "result": {}})
        else:
            error = {"code": METHOD_NOT_FOUND, "message": "this client answers no questions"}
            link.reply({"id": message["id"], "error": error})


def leave(link: Link) -> None:
    """Say that a session is over, where there is one, and close the link."""
    if isinstance(link, HttpLink) and link.session is not None:
        with suppress(LoadError):
            link.end_session()
    link.close()
