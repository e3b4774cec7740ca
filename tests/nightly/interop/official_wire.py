"""Checks what one side of a conversation wrote against the official schemas, each message by its own revision."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import jsonschema_rs

from trio_mcp import Revision

DATA: Final = Path(__file__).parents[2] / "data" / "mcp-schema"
REVISION_KEY: Final = "io.modelcontextprotocol/protocolVersion"

FOREIGN_METHOD: Final = "nonsense/nobody_has"
"""The one method that is allowed although no revision has it."""

MAY_ASK_BACK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The methods whose answer may be a question (2026-07-28, basic/patterns/mrtr)."""

Side: TypeAlias = Literal["client", "server"]


def _refuse(uri: str) -> dict[str, Any]:
    raise AssertionError(f"a schema refers to {uri}")


def _mend(definitions: Mapping[str, Any]) -> None:
    """Let numbers of forms have fractions, as schema.ts has it; the generator knew integers only.

    See modelcontextprotocol#2698, which mended the bounds and the defaults of such numbers, but not the answers.
    """
    if "ElicitResult" in definitions:
        content = definitions["ElicitResult"]["properties"]["content"]
        for values in (content["additionalProperties"], *content["additionalProperties"].get("anyOf", ())):
            if values.get("type") == ["string", "integer", "boolean"]:
                values["type"] = ["string", "number", "boolean"]


@final
class OfficialSchema:
    """The definitions of one revision."""

    def __init__(self, revision: Revision) -> None:
        self._document: dict[str, Any] = json.loads((DATA / revision / "schema.json").read_text("utf-8"))
        self._place = "$defs" if "$defs" in self._document else "definitions"
        self._definitions: Mapping[str, Any] = self._document[self._place]
        _mend(self._definitions)
        self._by_method = {
            method: name
            for name, definition in self._definitions.items()
            if (method := definition.get("properties", {}).get("method", {}).get("const"))
        }
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def check_question(self, message: Mapping[str, Any]) -> None:
        """Check a request or a notification by its method, which must be the protocol's."""
        if message["method"] == FOREIGN_METHOD:
            self._check("JSONRPCMessage", message)
        else:
            assert message["method"] in self._by_method, f"the revision has no method {message['method']}"
            self._check(self._by_method[message["method"]], message)

    def check_answer(self, message: Mapping[str, Any], method: str) -> None:
        """Check an answer to a request of this method."""
        self._check("JSONRPCMessage", message)
        if "result" in message:
            if message["result"].get("resultType") == "input_required" and method in MAY_ASK_BACK:
                self._check("InputRequiredResult", message["result"])
                return
            result = self._by_method.get(method, "").removesuffix("Request") + "Result"
            self._check(result if result in self._definitions else "EmptyResult", message["result"])

    def _check(self, name: str, value: object) -> None:
        if name not in self._validators:
            root = {**self._document, "$ref": f"#/{self._place}/{name}"}
            self._validators[name] = jsonschema_rs.validator_for(root, validate_formats=True, retriever=_refuse)
        problems = [
            f"{error.instance_path}: {error.message}" for error in self._validators[name].iter_errors(value)
        ]
        assert not problems, f"{json.dumps(value)[:500]} is no {name}: {'; '.join(problems)}"


@functools.cache
def official_schema(revision: Revision) -> OfficialSchema:
    """Return the definitions of a revision, reading them once."""
    return OfficialSchema(revision)


@final
class OfficialWire:
    """Follows one conversation, and checks each message of one of its sides.

    Each line must be one JSON object, and an instance of what the schema of its revision defines for its method.

    Args:
        checked: The side whose messages are checked; of the other's only what is needed to follow is read.

    Attributes:
        revision: What is spoken, as far as the messages have told.
        checked_messages: How many were checked.
    """

    def __init__(self, checked: Side) -> None:
        self.revision: Revision | None = None
        self.checked_messages = 0
        self._checked = checked
        self._questions: dict[tuple[Side, Any], tuple[str, Revision]] = {}

    def take(self, writer: Side, line: bytes) -> None:
        """Take the next line that one side wrote."""
        assert line.startswith(b"{"), f"a line is no object: {line[:200]!r}"
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            revision = self._revision_of(message)
            if "id" in message:
                self._questions[writer, message["id"]] = message["method"], revision
            if writer == self._checked:
                official_schema(revision).check_question(message)
                self.checked_messages += 1
        else:
            self._take_answer(writer, message)

    def _take_answer(self, writer: Side, message: dict[str, Any]) -> None:
        asker: Side = "server" if writer == "client" else "client"
        if "error" in message and (asker, message.get("id")) not in self._questions:
            # Over HTTP, what was not let in is refused without its id, and by some with an id of their own.
            assert writer != self._checked or message.get("id") is None
            return
        method, revision = self._questions[asker, message.get("id")]
        if method == "initialize" and "result" in message:
            revision = self.revision = Revision(message["result"]["protocolVersion"])
        if method == "server/discover" and "result" in message:
            self.revision = revision
        if writer == self._checked:
            official_schema(revision).check_answer(message, method)
            self.checked_messages += 1

    def _revision_of(self, message: Mapping[str, Any]) -> Revision:
        """Tell by which revision a question is to be read: what it says itself, else what was agreed on."""
        params = message.get("params", {})
        if message["method"] == "initialize":
            return Revision(params["protocolVersion"])
        said = params.get("_meta", {}).get(REVISION_KEY)
        if said is None:
            return self.revision or Revision.V2025_11_25
        if message["method"] != "server/discover":
            self.revision = Revision(said)
        return Revision(said)
