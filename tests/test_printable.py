"""`_printable` and `_logs`: what others wrote forges no line of a log and moves no terminal."""

from __future__ import annotations

import ast
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_base import MAX_LINES, MAX_PRINTED, Log, printable, printable_lines, shown
from inside_schema import InvalidValue, expected
from inside_wire import InvalidData, located, show

import trio_mcp
from trio_mcp import (
    AuthorizationFailed,
    AuthorizationRefused,
    ClientUnknown,
    ConfigError,
    ConnectionLost,
    HttpRefused,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
    ResourceNotFound,
    ServerUnavailable,
    SessionLost,
    ToolError,
)

PACKAGE: Final = Path(trio_mcp.__file__).parent

NASTY: Final = "a\nERROR root: forged\r\x1b[2J\x9b2J\x00\x7f\u2028\u2029\u202e\u2066\u200b\ud800é"
SHOWN: Final = r"a\nERROR root: forged\r\x1b[2J\x9b2J\x00\x7f\u2028\u2029\u202e\u2066\u200b\ud800é"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("reserve Dune, 2 copies: 12 €", "reserve Dune, 2 copies: 12 €"),
        (r"C:\new", r"C:\new"),
        (NASTY, SHOWN),
        ("x" * MAX_PRINTED, "x" * MAX_PRINTED),
        ("x" * (MAX_PRINTED + 1), "x" * MAX_PRINTED + "…"),
        ("\0" * MAX_PRINTED, r"\x00" * (MAX_PRINTED // 4) + "…"),
    ],
)
def test_what_is_not_printable_is_shown_as_python_spells_it(text: str, shown: str) -> None:
    """A reader sees what was there, and nothing obeys it; an honest text stays as it is."""
    assert printable(text) == shown


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_whatever_comes_is_one_printable_line_of_bounded_length(text: str, limit: int) -> None:
    """There is no character that gets through, and none at which this fails."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit + 1
    assert printable(shown, limit) == shown


def test_lines_of_others_cannot_pass_for_ours() -> None:
    """A failure of a tool may have several lines; none but the first begins at the margin."""
    assert printable_lines("one\ntwo\r\n\x1b[2J") == "one\n    two\\r\n    \\x1b[2J"
    many = printable_lines("\n".join(map(str, range(MAX_LINES * 3)))).split("\n")
    assert len(many) == MAX_LINES + 1
    assert many[0] == "0"
    assert many[-1].strip() == str(MAX_LINES * 3 - 1)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_what_has_no_text_is_shown_as_far_as_it_goes() -> None:
    """Python cannot spell lists in lists in lists, nor long numbers; saying so must not fail in turn."""
    for value in (nested(100_000), 10**5_000):
        kind = type(value).__name__
        assert shown(value) == f"<{kind}, which cannot be shown>"
        assert str(RequestError(1, "refused", value)) == f"refused [1] <{kind}, which cannot be shown>"


# Exceptions.


def kinds_of(parent: type[McpError]) -> Iterator[type[McpError]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from kinds_of(kind)


ERRORS: Final[list[Exception]] = [
    McpError(NASTY),
    LocalProtocolError(NASTY),
    RemoteProtocolError(NASTY),
    RequestError(-32000, NASTY, {NASTY: [NASTY]}),
    HttpStatusError(500, NASTY, body=NASTY),
    SessionLost(404, NASTY, body=NASTY),
    AuthorizationRefused(401, NASTY, body=NASTY, scope=NASTY, error=NASTY),
    AuthorizationFailed(NASTY, error=NASTY),
    ClientUnknown(NASTY, issuer=NASTY),
    ToolError(NASTY),
    ResourceNotFound(NASTY, uri=NASTY),
    ConnectionLost(NASTY, stderr=[NASTY, "x" * 100_000]),
    InvalidData(located(NASTY, [(show(NASTY), show(NASTY))])),
    expected("a number", NASTY),
    InvalidValue([(NASTY, NASTY)]),
    InvalidData([(NASTY, NASTY)]),
    HttpRefused(400, NASTY),
    ConfigError(NASTY, [NASTY, NASTY]),
    ServerUnavailable(NASTY, "failed", NASTY),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_can_be_printed(error: Exception) -> None:
    """A printed error, or one that ends the program, shows text of the other side on a terminal."""
    first, *others = str(error).split("\n")
    assert first.isprintable()
    for line in others:
        assert line.isprintable()
        assert line.startswith("    ")
    assert len(str(error)) < 20_000
    assert repr(error).isascii() or repr(error).isprintable()


def test_every_kind_of_error_makes_its_text_printable() -> None:
    """One that says things in its own way says so here, and is in the table above."""
    own = {kind for kind in kinds_of(McpError) if "__str__" in vars(kind) and kind.__module__ == "trio_mcp"}
    assert own <= {type(error) for error in ERRORS} | {trio_mcp.Lagged}  # which says a number


def test_what_was_sent_can_still_be_read_as_it_was() -> None:
    """The text is for people; a program finds what the other side has said."""
    assert RequestError(1, NASTY, NASTY).message == NASTY
    assert HttpStatusError(500, "m", body=NASTY).body == NASTY
    assert ToolError(NASTY).args[0] == NASTY


# The log.


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a handler of the usual kind writes of our loggers."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("trio_mcp")
    logger.addHandler(handler)
    try:
        yield written
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize(
    ("template", "arguments", "shown"),
    [
        ("refused %s", (NASTY,), f"refused {SHOWN}"),
        ("refused %.3s", (NASTY,), r"refused a\n"),
        ("refused %.3r of %d in %g s", ("\n\n", 2, 0.5), r"refused '\n of 2 in 0.5 s"),
        ("refused: %s", (ValueError(NASTY),), f"refused: {SHOWN}"),
        ("refused: %s", ({"a": NASTY[0]},), "refused: {'a': 'a'}"),
        ("refused %r", (10**5_000,), "refused <int, which cannot be shown>"),
        ("refused: %s", ("x" * 5_000,), f"refused: {'x' * MAX_PRINTED}…"),
        ("refused", (), "refused"),
    ],
)
def test_a_record_is_one_printable_line(
    written: io.StringIO, template: str, arguments: tuple[Any, ...], shown: str
) -> None:
    """A path with `%0a` in it looked like two records, the second of them the caller's own words."""
    Log("trio_mcp.http").warning(template, *arguments)
    assert written.getvalue() == f"WARNING trio_mcp.http: {shown}\n"


def test_a_traceback_forges_no_record(written: io.StringIO) -> None:
    """The text of an exception may be untrusted: every line of a traceback is indented."""
    try:
        try:
            raise KeyError(NASTY)
        except KeyError:
            raise ExceptionGroup(NASTY, [ValueError(NASTY)]) from None
    except ExceptionGroup:
        Log("trio_mcp.http").exception("failed")
    first, *others = written.getvalue().removesuffix("\n").split("\n")
    assert first == "ERROR trio_mcp.http: failed"
    assert any("ERROR root: forged" in line for line in others)
    for line in others:
        assert line.isprintable()
        assert line.startswith("    ")


def test_a_record_names_the_line_that_wrote_it(caplog: pytest.LogCaptureFixture) -> None:
    """Formatters can show it, and programs filter by it."""
    log = Log("trio_mcp.http")
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        for write in (log.debug, log.info, log.warning, log.error, log.exception):
            write("here")
        log.log(logging.WARNING, "here")
    assert {(record.module, record.funcName) for record in caplog.records} == {
        ("test_printable", "test_a_record_names_the_line_that_wrote_it")
    }
    assert [record.levelno for record in caplog.records] == [10, 20, 30, 40, 40, 30]


def test_every_logger_of_the_package_is_made_in_one_place() -> None:
    """What is logged by any other would reach the log as an untrusted peer has written it."""
    found = set[str]()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                "logging.getLogger", "getLogger", "logging.Logger", "logging.warning", "logging.error",
                "logging.info", "logging.debug", "logging.exception", "logging.log", "print", "warnings.warn",
            }:  # fmt: skip
                found.add(path.name)
            if isinstance(node, ast.ImportFrom) and node.module == "logging":
                found.add(path.name)
    assert found == {"_logs.py"}


def test_templates_of_records_are_constants() -> None:
    """A message that is put together before it is logged has no arguments that could be made printable."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not re.fullmatch(r"_log\.\w+", ast.unparse(node.func)):
                continue
            template = node.args[1 if ast.unparse(node.func) == "_log.log" else 0]
            assert isinstance(template, ast.Constant), f"{path.name}, line {node.lineno}"
