"""The records for other programs: what is in one, and that nobody forges one."""

from __future__ import annotations

import json
import logging

import pytest
from inside_base import MAX_FIELD, Records, audit

from trio_mcp import RequestError, Server, open_client


def test_a_refusal_is_one_record_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A formatter for JSON finds each field as an attribute; the message says the same to people."""
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    audit("http", "no room", status=429, limit="max_requests", client="10.0.0.7", retry_after=1.5)
    (record,) = caplog.records
    assert record.name == "trio_mcp.audit"
    found = {
        name: record.__dict__[name] for name in ("event", "outcome", "reason", "status", "limit", "retry_after")
    }
    assert found == {
        "event": "http",
        "outcome": "refused",
        "reason": "no room",
        "status": 429,
        "limit": "max_requests",
        "retry_after": 1.5,
    }
    assert record.getMessage() == (
        'event=http outcome=refused reason="no room" status=429 limit=max_requests client=10.0.0.7'
        " retry_after=1.500000"
    )
    assert logging.Formatter("%(principal)s %(method)s %(code)s").format(record) == "None None None"


def test_nothing_is_written_unless_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """A program whose other logs are at INFO, or at DEBUG, has not asked for a record of each refusal."""
    caplog.set_level(logging.DEBUG)
    for level in (logging.NOTSET, logging.WARNING):
        with caplog.at_level(level, logger="trio_mcp.audit"):
            audit("http", "no room", status=429)
    assert not caplog.records


@pytest.mark.parametrize(
    "text",
    [
        "a\nevent=http outcome=allowed",
        "a outcome=allowed",
        'a" outcome="allowed',
        "a\x1b[2K\u202eb",
        "a\u2028b",
        "x" * 100_000,
        "\ud800",
    ],
)
def test_a_stranger_forges_nothing(caplog: pytest.LogCaptureFixture, text: str) -> None:
    """No record, no field, nothing that a terminal obeys; and none of them is large."""
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    audit("http", text, target=text, principal=text)
    (record,) = caplog.records
    line = record.getMessage()
    assert line.isprintable()
    assert len(line) < 10 * MAX_FIELD
    assert line.count(" reason=") == line.count(" target=") == 1
    rest = line
    while rest:  # each field is a name and a word, or a name and a JSON string
        name, _, rest = rest.partition("=")
        if rest.startswith('"'):
            _, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].removeprefix(" ")
        else:
            _, _, rest = rest.partition(" ")
        assert name in {"event", "outcome", "reason", "target", "principal"}
    assert "outcome=refused" in line.split(" reason=")[0]
    assert str(record.__dict__["reason"]).isprintable()


def test_records_are_what_python_makes(caplog: pytest.LogCaptureFixture) -> None:
    """The second record of a writer is made without Python's help, and has all that the first one has."""
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    records = Records(logging.getLogger("trio_mcp.audit"))
    records.write({"method": "a"})
    records.write({"method": "b"})
    first, second = (dict(record.__dict__) for record in caplog.records)
    assert (first.pop("method"), second.pop("method")) == ("a", "b")
    assert [first.pop("args")[0], second.pop("args")[0]] != [None, None]
    for name in ("created", "msecs", "relativeCreated"):
        assert 0 <= second.pop(name) - first.pop(name) + (1_000 if name == "msecs" else 0) < 60_000
    assert first.pop("message") == "method=a"
    assert second.pop("message") == "method=b"
    assert first == second


def test_the_records_of_a_program_are_used(caplog: pytest.LogCaptureFixture) -> None:
    """`logging.setLogRecordFactory`, also once records were written."""

    class Ours(logging.LogRecord):
        pass

    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    records = Records(logging.getLogger("trio_mcp.audit"))
    records.write({"method": "a"})
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(Ours)
    try:
        records.write({"method": "b"})
    finally:
        logging.setLogRecordFactory(before)
    assert [type(record) for record in caplog.records] == [logging.LogRecord, Ours]


class Full(logging.Handler):
    """A handler that cannot write, and says so in the way that it should not."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("no space left on the device")


@pytest.mark.parametrize("name", ["trio_mcp.access", "trio_mcp.audit", "trio_mcp.server"])
async def test_a_logging_handler_that_raises_costs_its_record_alone(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Strangers can cause records: the connection must not end by one."""
    server = Server("shelf")

    @server.tool
    async def put() -> str:
        raise KeyError("a failure that is logged")

    logger, full = logging.getLogger(name), Full()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(full)
    try:
        async with open_client(server, revision="2025-11-25") as client:
            for _ in range(2):
                assert (await client.call_tool("put")).is_error
                with pytest.raises(RequestError):
                    await client.request("no/such")
    finally:
        logger.removeHandler(full)
        logger.setLevel(before)
    assert "no space left on the device" in capsys.readouterr().err
