"""The words of the command line: a parser for each command, and what it gives. No Trio, no attrs, no protocol.

Each command has a parser of its own, made when the command is given, so that ``--help`` costs little and options
may stand anywhere among the words.
"""

from __future__ import annotations

import argparse
import enum
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TextIO, final

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


@final
class Exit(enum.IntEnum):
    """The exit statuses of every command. A signal that ends one gives 128 and its number: 130 for Ctrl+C."""

    DONE = 0
    FAILED = 1
    """The tool has failed, and its text says why; the user was asked, and said no; or an address cannot be
    listened on, which is the status of `Server.run`, too."""
    USAGE = 2
    """The command line, or a file that it names, is not as it must be. Nothing was sent."""
    PROTOCOL = 3
    """The server has answered with an error, or has broken the protocol."""
    UNREACHABLE = 4
    """The server cannot be reached or started, or the connection was lost."""
    LATE = 5
    """The seconds of ``--timeout`` have passed; without it, those in which a server may be silent."""
    BUG = 70
    """An error of this program."""
    OUTPUT = 74
    """There is no standard output, or none to serve on, or it does not take more."""


@final
class Failure(Exception):
    """A command cannot go on.

    Attributes:
        status: The exit status.
        message: Why, for people. It may quote a server.
    """

    def __init__(self, status: Exit, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


@final
class Options(argparse.Namespace):
    """What a command line says. Every command has some of these; the others keep their defaults.

    Attributes:
        target: The server, as it is written; `None` for a command line after ``--``.
        server_command: The command line after ``--``.
    """

    target: str | None = None
    server_command: Sequence[str] | None = None
    name: str = ""
    words: Sequence[str] = ()
    kind: str | None = None
    # For a client.
    config: str | None = None
    auth: bool = False
    client_id: str | None = None
    issuer: str | None = None
    timeout: float = math.inf
    header: Sequence[str] | None = None
    root: Sequence[str] | None = None
    era: str = "auto"
    log_level: str | None = None
    wire: bool = False
    record: str | None = None
    # What is printed.
    json: bool = False
    raw: bool = False
    arguments_json: str | None = None
    output: str | None = None
    count: int | None = None
    # run
    file: str = ""
    file_arguments: Sequence[str] = ()
    transport: str = "stdio"
    host: str | None = None
    port: int | None = None
    path: str | None = None
    reload: bool = False
    workers: int | None = None
    store: str | None = None
    # bridge
    listener: str = ""
    allow_host: Sequence[str] | None = None
    # login, cimd
    no_browser: bool = False
    device: bool = False
    url: str = ""
    redirect_uri: Sequence[str] | None = None
    registered_uri: str | None = None
    key: str | None = None
    algorithm: str = "ES256"
    check: bool = False
    # bench
    rounds: int | None = None
    seconds: float | None = None
    only: Sequence[str] | None = None
    quick: bool = False
    growth: float | None = None
    client: bool = False
    tool: str | None = None
    slow: str | None = None
    slow_arguments: str | None = None
    flood: str | None = None
    flood_arguments: str | None = None
    # install
    to: str = ""
    scope: str | None = None
    env: Sequence[str] | None = None
    yes: bool = False


AFTER_DASHES: Final = "What follows -- is the command line of the file, which it finds in sys.argv."


class Command(NamedTuple):
    """A command.

    Attributes:
        summary: What it does, in a line.
        add: Adds its arguments to its parser.
        has_target: Whether one of its words is a server: the first, but for `bridge`.
        epilog: What follows its arguments in its help.
    """

    summary: str
    add: Callable[[argparse.ArgumentParser], object]
    has_target: bool = True
    epilog: str = ""


WRITTEN_AT_ONCE: Final = 64 * 1024
"""How many bytes standard output is given at once."""

MAX_DIGITS: Final = 20
"""Numbers with as many digits are none that somebody means."""

MAX_PORT: Final = 65_535

KINDS: Final = ("tools", "resources", "templates", "prompts")
TRANSPORTS: Final = ("stdio", "streamable-http", "sse", "websocket", "tcp", "unix")
LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none")
"""The severities of log messages, the least first, and the word for no messages."""
LOGGING: Final = frozenset({"call", "read", "prompt", "listen"})
"""The commands for which a server works long enough to have something to log."""
ERAS: Final = ("auto", "modern", "legacy", "sse")
HOSTS: Final = ("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "gemini", "mcp-json")

TARGETS: Final = """\
TARGET is one of
  https://example.com/mcp    a URL that a client can be opened on
  examples/calculator.py     a Python file with a server; FILE.py:object if it has several
  calculator                 a name from an mcp.json
  -- COMMAND ARGUMENT...     instead of TARGET, at the end: a program that serves its standard input and output
"""

LISTENERS: Final = """\
FROM is where clients come in
  stdio                      standard input and output, for the program that starts this one
  http://127.0.0.1:8000/mcp  Streamable HTTP, every revision
  sse://127.0.0.1:8000       the same, and HTTP+SSE beside it for clients of 2024-11-05
  ws://127.0.0.1:8000/mcp    WebSockets
  tcp://127.0.0.1:8000       one message a line; only where everybody may use the server
  unix:///run/mcp.sock       the same, for those who may open the socket
"""

MEASURED: Final = """\
TARGET is one of
  https://example.com/mcp    a server that is running: http, https, ws, wss, tcp, tls, unix
  'npx some-server --flag'   a command that serves its standard input and output
  'server --port 8000 @ http://127.0.0.1:8000/mcp'
                             a command, and where what it starts can be reached
  examples/calculator.py     a Python file with a server; FILE.py:object if it has several
  calculator                 a name from an mcp.json
  -- COMMAND ARGUMENT...     instead of TARGET, at the end
  .benchmarks/.../record.json
                             what an earlier run has kept: shown again; compared, if there are two
Several are measured in turn, and compared with the first.

With --client, a TARGET is the command of a client, in which {url} stands for the URL of a server to call, or
{server} for the command that starts one over stdio.
"""

STATUSES: Final = """\
exit status
  0  done
  1  the tool has failed, and said why
  2  the command line, or a file that it names, is not as it must be
  3  the server has answered with an error, or has broken the protocol
  4  the server cannot be reached, or the connection was lost; or it wants a login, or refuses a token
  5  the seconds of --timeout have passed; without it, five minutes of silence
  70  an error of this program, or of the server that it runs; there is a traceback
  74  standard output is missing, or full; or a server over stdio has no standard input
  130, 143  Ctrl+C, SIGTERM; the call was cancelled at the server as well
  141  nobody reads the output any more
"""


def _add_pairs(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("words", nargs="*", metavar="key=value", help=what)


def _add_kind(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help=f"only these: {', '.join(KINDS)}")


def _add_tool(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOOL", help="the tool's name")


def _add_call(parser: argparse.ArgumentParser) -> None:
    _add_tool(parser)
    _add_pairs(parser, "an argument; its value is read as the tool's schema says, repeated keys are a list")
    parser.add_argument(
        "--json", dest="arguments_json", metavar="OBJECT", help="the arguments as JSON; - reads standard input"
    )


def _add_read(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="URI", help="the resource")
    parser.add_argument("--output", metavar="FILE", help="write the contents to a file, byte for byte")


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the prompt's name")
    _add_pairs(parser, "an argument")


def _add_listen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WHAT",
        help="tools, prompts, resources, or the URI of a resource; default: every list whose changes the server "
        "declares",
    )
    parser.add_argument("--count", type=_count, metavar="N", help="end after so many changes")


def _add_login(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", metavar="SCOPES", help="what to ask for; default: what the server asks for")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--no-browser",
        action="store_true",
        help="print the page to open, at any machine, and read from the terminal the address at which it ends",
    )
    ways.add_argument("--device", action="store_true", help="print a code to enter at any machine (RFC 8628)")
    parser.add_argument(
        "--redirect-uri",
        dest="registered_uri",
        metavar="URI",
        help="where the answer comes to, as it is registered for --client-id; default: any port of this machine",
    )


def _add_cimd(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="where the document is published; it becomes the client id")
    parser.add_argument("--name", help="what people see where they log in; default: trio-mcp")
    parser.add_argument(
        "--redirect-uri",
        action="append",
        metavar="URI",
        help="where answers to logins come to; may be repeated; default: this machine",
    )
    parser.add_argument("--key", metavar="FILE", help="the private key (PEM) that the client proves itself by")
    parser.add_argument("--algorithm", help="how that signs; default: ES256")
    parser.add_argument("--device", action="store_true", help="the client lets people log in by a code, too")
    parser.add_argument("--check", action="store_true", help="see whether what is published there is in order")


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    del parser


def _in_full(name: str) -> str:
    return "streamable-http" if name == "http" else name


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE[:object]", help="a Python file with a server")
    parser.add_argument("--transport", type=_in_full, choices=TRANSPORTS, default="stdio", help="default: stdio")
    parser.add_argument("--host", help="the address to listen on; default: 127.0.0.1")
    parser.add_argument("--port", type=_port, metavar="PORT", help="the port; 0 for any that is free")
    parser.add_argument("--path", help="the path of the endpoint, or of the Unix socket")
    _add_allow_host(parser)
    parser.add_argument("--reload", action="store_true", help="start again when a .py file beside it changes")
    parser.add_argument("--workers", type=_count, metavar="N", help="serve HTTP in N processes behind one socket")
    parser.add_argument(
        "--store",
        metavar="FILE_OR_URL",
        help="where all processes that serve it over HTTP keep sessions, events and tasks: a file, or redis://…",
    )


def _add_allow_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="a name by which clients may reach it; may be repeated",
    )


def _add_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE[:object]", help="a Python file with a server")
    parser.add_argument("--to", required=True, choices=HOSTS, help="the host")
    parser.add_argument(
        "--name",
        type=_server_name,
        default=argparse.SUPPRESS,
        help="the server's name there; default: the file's",
    )
    parser.add_argument("--scope", choices=("user", "project"), help="whose configuration; default: the user's")
    parser.add_argument(
        "--env", action="append", metavar="NAME=VALUE", help="a variable that the server gets; may be repeated"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TARGET", help="a server, or a record; see below")
    parser.add_argument("--client", action="store_true", help="measure clients")
    group = parser.add_argument_group("what is called")
    group.add_argument("--tool", metavar="NAME", help="the tool; default: one that declares that it only reads")
    group.add_argument(
        "--arguments", dest="arguments_json", metavar="JSON", help="its arguments; default: made up"
    )
    group.add_argument("--slow", metavar="NAME", help="a tool that takes seconds, to be given up")
    group.add_argument("--slow-arguments", metavar="JSON", help="its arguments")
    group.add_argument("--flood", metavar="NAME", help="a tool that reports progress very often")
    group.add_argument("--flood-arguments", metavar="JSON", help="its arguments")
    group = parser.add_argument_group("how it is measured")
    group.add_argument("--only", action="append", metavar="ROW", help="only these rows; may be repeated")
    group.add_argument("--rounds", type=_count, metavar="N", help="how often everything is measured; default: 5")
    group.add_argument("--seconds", type=_seconds, metavar="SECONDS", help="how long each time; default: 0.3")
    group.add_argument(
        "--growth", type=_seconds, metavar="SECONDS", help="how long memory is watched to grow; default: 30"
    )
    group.add_argument("--quick", action="store_true", help="only see whether everything can be measured")
    group.add_argument("--output", metavar="FOLDER", help="where record and plots go; default: in .benchmarks")
    group = parser.add_argument_group("options of the client")
    group.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="how long a server may say nothing; default: 20"
    )
    group.add_argument("--era", choices=(*ERAS, "both"), default="auto", help="what is spoken; default: auto")
    group.add_argument(
        "--header",
        action="append",
        metavar="'NAME: VALUE'",
        help="a header field of HTTP, or of a WebSocket's handshake; may be repeated",
    )
    group.add_argument("--config", metavar="PATH", help="the mcp.json that has the name")


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "run": Command(
            "serve what a Python file offers",
            _add_run,
            has_target=False,
            epilog="The object is the one Server in the file, else the one called server, mcp or app.\n"
            + AFTER_DASHES,
        ),
        "list": Command("list tools, resources, templates and prompts", _add_kind),
        "describe": Command("say what a tool does and takes", _add_tool),
        "call": Command("call a tool", _add_call),
        "read": Command("read a resource", _add_read),
        "prompt": Command("get a prompt, filled in", _add_prompt),
        "listen": Command("print changes of lists and resources as they happen", _add_listen),
        "ping": Command("see whether a server answers", _add_nothing),
        "discover": Command("say what a server is and can do", _add_nothing),
        "bridge": Command("let clients come in at FROM, and reach the server TO", _add_allow_host),
        "bench": Command(
            "measure servers, or clients, beside each other", _add_bench, has_target=False, epilog=MEASURED
        ),
        "login": Command("log in at a server, for commands with --auth", _add_login),
        "logout": Command("forget a login, and revoke it", _add_nothing),
        "cimd": Command("print the document of a client whose id is a URL", _add_cimd, has_target=False),
        "install": Command(
            "add a server to a host's configuration", _add_install, has_target=False, epilog=AFTER_DASHES
        ),
        "config": Command("list the servers that are configured, and where", _add_nothing, has_target=False),
    }
)


def pairs_of(texts: Iterable[str] | None, mark: str, problem: str) -> list[tuple[str, str]]:
    """Return names and values that are written with a mark between them.

    Args:
        texts: The texts, as they were given.
        mark: What is between the name and the value.
        problem: The error for a text without it, or without a name. The text is not shown: it may be a secret.

    Raises:
        Failure: There is such a text.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts or ():
        name, found, value = text.partition(mark)
        if not found or not name.strip():
            raise Failure(Exit.USAGE, problem)
        pairs.append((name, value))
    return pairs


def _server_name(text: str) -> str:
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"must be one or more printable characters, not {text!r}")
    return text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_PORT)) and int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MAX_PORT}, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, more than 0, not {text!r}")
    return seconds


def _directory(text: str) -> str:
    if not os.path.isdir(text):  # noqa: PTH112 - pathlib is not needed for --help
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}")
    return text


def _count(text: str) -> int:
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text!r}")
    return count


def check_standard_streams() -> None:
    """Check that there is a standard input and output, to serve on.

    Raises:
        Failure: One of them was closed when this program was started.
    """
    for name, stream in (("input", sys.__stdin__), ("output", sys.__stdout__)):
        if stream is None:
            raise Failure(Exit.OUTPUT, f"a server over stdio needs a standard {name}, and there is none")


def write_out(text: str) -> None:
    """Write to standard output, and wait until it has taken all.

    Past the buffer and the lock of `sys.stdout`, for which Python would wait at its end if a thread still writes.

    Raises:
        BrokenPipeError: Nobody reads it any more.
        Failure: There is no standard output, or it does not take more.
    """
    stream: TextIO | None = sys.stdout
    if stream is None:
        raise Failure(Exit.OUTPUT, "there is no standard output")
    try:
        try:
            descriptor = stream.fileno()
        except ValueError:  # of whoever runs this in a process of its own
            stream.write(text)
            stream.flush()
            return
        stream.flush()
        rest = memoryview(text.replace("\n", os.linesep).encode(stream.encoding, stream.errors or "strict"))
        while rest:
            rest = rest[os.write(descriptor, rest[:WRITTEN_AT_ONCE]) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(Exit.OUTPUT, f"standard output cannot be written: {error.strerror}") from None


@final
class _Parser(argparse.ArgumentParser):
    """A parser that does not hide that nobody reads its help any more."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, in one line, and exit.

        Raises:
            SystemExit: Always.
        """
        # What may be left out is not required, whatever argparse says when nothing is given.
        message = message.replace(", key=value", "")
        self.exit(Exit.USAGE, f"trio-mcp: {message}; see {self.prog} --help\n")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help.

        Raises:
            BrokenPipeError: Nobody reads it.
            Failure: It cannot be written.
        """
        if file is None:
            write_out(self.format_help())
        else:
            file.write(self.format_help())


def parser_for_all() -> argparse.ArgumentParser:
    """Return the parser that explains which commands there are."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name.ljust(width)}  {command.summary}" for name, command in COMMANDS.items())
    return _Parser(
        prog="trio-mcp",
        usage="trio-mcp COMMAND ...\n       trio-mcp COMMAND --help",
        description=f"Serve, look at and call servers of the Model Context Protocol.\n\ncommands\n{commands}",
        epilog=f"{TARGETS}\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def parser_for(name: str, *, is_target_given: bool = False) -> argparse.ArgumentParser:
    """Return the parser of one command.

    Args:
        name: The command.
        is_target_given: Whether the server follows ``--``, so that no word is a target.
    """
    command, what = COMMANDS[name], "TARGET"
    epilog = f"{TARGETS}\n{STATUSES}" if command.has_target else command.epilog
    if name == "bridge":
        what = "TO"
        epilog = f"{LISTENERS}\n{TARGETS.replace('TARGET', what)}"
    parser = _Parser(
        prog=f"trio-mcp {name}",
        description=f"{command.summary[0].upper()}{command.summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # what is meant for the tool (--a 5) would be taken for --auth
    )
    if name == "bridge":
        parser.add_argument("listener", metavar="FROM", help="where clients come in; see below")
    if command.has_target and not is_target_given:
        parser.add_argument("target", metavar=what, help="the server; see below")
    command.add(parser)
    if name not in {"call", "run", "bridge", "bench", "install", "ping", "login", "logout", "cimd"}:
        parser.add_argument("--json", action="store_true", help="print JSON")
    if command.has_target:
        if name not in {"bridge", "ping", "login", "logout"}:
            parser.add_argument("--raw", action="store_true", help="print the whole result as one line of JSON")
        _add_client_options(parser, name)
    if name == "config":
        parser.add_argument("--config", metavar="PATH", help="look only at this file")
    return parser


def _add_client_options(parser: argparse.ArgumentParser, name: str) -> None:
    group = parser.add_argument_group("options of the client")
    if name != "bridge":
        group.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up after this time")
        group.add_argument(
            "--era", choices=ERAS, default="auto", help="what is known of the server; default: auto"
        )
    group.add_argument("--wire", action="store_true", help="print every message to standard error")
    group.add_argument("--record", metavar="FILE", help="keep every message in a file, as lines of JSON")
    group.add_argument(
        "--header",
        action="append",
        metavar="'NAME: VALUE'",
        help="a header field of HTTP, or of a WebSocket's handshake; may be repeated",
    )
    group.add_argument(
        "--auth", action="store_true", help="log in, in the browser, if the server wants that; see login, logout"
    )
    group.add_argument("--client-id", metavar="ID", help="the client id for that, from a registration by hand")
    group.add_argument("--issuer", metavar="URL", help="the authorization server that it is for")
    group.add_argument("--config", metavar="PATH", help="the mcp.json that has the name")
    if name not in {"bridge", "login", "logout"}:
        group.add_argument(
            "--root",
            action="append",
            type=_directory,
            metavar="DIR",
            help="a directory that the server is told to work in, if it asks; may be repeated",
        )
    if name in LOGGING:
        group.add_argument(
            "--log-level",
            choices=LOG_LEVELS,
            metavar="LEVEL",
            help=f"show log messages of the server of this severity and above: {', '.join(LOG_LEVELS)}; "
            "default: info",
        )


def read_command_line(argv: Sequence[str]) -> tuple[str, Options]:
    """Return the command and what is said about it.

    Raises:
        SystemExit: The words are not as they must be, or ask for help, which was printed.
    """
    name = argv[0] if argv else "--help"
    if name not in COMMANDS:
        parser = parser_for_all()
        if name == "--version":
            from .._version import __version__

            write_out(f"trio-mcp {__version__}\n")
            parser.exit()
        if name in {"-h", "--help"}:
            parser.print_help()
            parser.exit(0 if argv else Exit.USAGE)
        import difflib

        alike = difflib.get_close_matches(name, COMMANDS, 1)
        parser.error(f"there is no command {name!r}" + (f"; did you mean {alike[0]!r}?" if alike else ""))
    words = list(argv[1:])
    command: list[str] | None = None
    of_file: list[str] = []
    if (COMMANDS[name].has_target or name in {"bench", "run", "install"}) and "--" in words:
        at = words.index("--")
        words, after = words[:at], words[at + 1 :]
        if name in {"run", "install"}:
            of_file = after
        else:
            command = after
    parser = parser_for(name, is_target_given=command is not None)
    if command is not None and not command:
        parser.error("a command must follow --")
    if name == "list" and command is not None:
        extra = [word for word in words[:1] if not word.startswith("-") and word not in KINDS]
        if extra:
            parser.error(f"the server is given twice: {extra[0]!r}, and after --")
    options = parser.parse_intermixed_args(words, Options(server_command=command, file_arguments=of_file))
    return name, options
