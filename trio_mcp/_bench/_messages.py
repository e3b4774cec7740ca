"""Requests as bytes in which only the id changes; what messages look like in each era. No I/O.

Everything is written by hand: what measures a server must not share its library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, final

import attrs

from .._codec._json import encode

Message: TypeAlias = dict[str, Any]

CLIENT: Final = {"name": "trio-mcp-bench", "version": "1"}
CAPABILITIES: Final[Mapping[str, Any]] = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
"""Of a client that answers what servers ask. One that does not declares nothing."""

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
LEGACY_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY)
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of the parameters that modern HTTP repeats in a header field."""

FIRST_ID: Final = 100_000_000
LAST_ID: Final = 999_999_999
"""All ids have nine digits, so that the length of a request, which HTTP announces, does not change with them."""

MARK: Final = 907_050_301
"""Stands for the id while a template is made; no text that is sent has these digits."""


@final
class Template:
    """A request whose id is filled in, which costs next to nothing.

    Attributes:
        parts: What stands around the id, which may come several times: as a progress token as well.
    """

    def __init__(self, sample: bytes) -> None:
        self.parts = tuple(sample.split(str(MARK).encode()))

    def fill(self, id: int) -> bytes:
        """Return the request with this id."""
        return str(id).encode().join(self.parts)

    def __len__(self) -> int:
        return len(self.fill(FIRST_ID))


@final
@attrs.frozen(kw_only=True)
class Dialect:
    """The messages of one era.

    Attributes:
        revision: The revision of the protocol.
        is_modern: Whether it is without a handshake.
        capabilities: What is declared.
    """

    revision: str
    is_modern: bool
    capabilities: Mapping[str, Any] = attrs.field(factory=lambda: CAPABILITIES)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return a request whose id is `MARK`, and its progress token too if it asks for progress."""
        given = dict(meta or {})
        if progress:
            given["progressToken"] = MARK
        if self.is_modern:
            given |= {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientInfo": CLIENT,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
        body = dict(params or {})
        if given:
            body["_meta"] = given
        return encode({"jsonrpc": "2.0", "id": MARK, "method": method, "params": body})

    def line(self, method: str, params: Mapping[str, Any] | None = None, **how: Any) -> Template:
        """Return a request as a line."""
        return Template(self.request(method, params, **how) + b"\n")

    def post(
        self,
        path: str,
        host: str,
        session: str | None,
        method: str,
        params: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> Template:
        """Return a request as a POST."""
        body = self.request(method, params, **how)
        named = (params or {}).get(NAMED_BY.get(method, ""))
        return Template(self.head(path, host, session, len(body), method, named) + body)

    def head(
        self, path: str, host: str, session: str | None, length: int, method: str | None, name: str | None = None
    ) -> bytes:
        """Return the head of a POST.

        Args:
            path: Where to.
            host: The value of ``Host``; further header fields may follow it, each after a line break.
            session: The session, if there is one.
            length: The length of the message.
            method: The message's method; `None` for an answer.
            name: What modern HTTP repeats of the parameters.
        """
        fields = {
            "Host": host,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(length),
        }
        if method != "initialize":
            fields["MCP-Protocol-Version"] = self.revision
        if session is not None:
            fields["Mcp-Session-Id"] = session
        if self.is_modern and method is not None:
            fields["Mcp-Method"] = method
            if name is not None:
                fields["Mcp-Name"] = name
        lines = [f"POST {path} HTTP/1.1", *(f"{field}: {value}" for field, value in fields.items()), "", ""]
        return "\r\n".join(lines).encode()

    @property
    def handshake(self) -> Mapping[str, Any]:
        """The parameters of `initialize`."""
        return {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": CLIENT}


DIALECTS: Final[Mapping[str, Dialect]] = {
    "legacy": Dialect(revision=LEGACY, is_modern=False),
    "modern": Dialect(revision=MODERN, is_modern=True),
}
