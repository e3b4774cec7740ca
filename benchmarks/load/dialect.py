"""What messages look like in each era: the envelope, `_meta`, the header fields of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import attrs
import msgspec

from .template import MARK, Template

__all__ = ["DIALECTS", "Dialect"]

CLIENT: Final = {"name": "benchmark", "version": "1"}
CAPABILITIES: Final[dict[str, Any]] = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of the parameters that modern HTTP repeats in a header field."""


@final
@attrs.frozen(kw_only=True)
class Dialect:
    """The messages of one era.

    Attributes:
        revision: The revision of the protocol.
        is_modern: Whether it is without a handshake.
    """

    revision: str
    is_modern: bool

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return a request whose id is `MARK`, and its progress token too if it wants to know of progress."""
        said = dict(meta or {})
        if progress:
            said["progressToken"] = MARK
        if self.is_modern:
            said |= {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientInfo": CLIENT,
                "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
            }
        body = dict(params or {})
        if said:
            body["_meta"] = said
        return msgspec.json.encode({"jsonrpc": "2.0", "id": MARK, "method": method, "params": body})

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
        """Return the head of a POST with a message of this length; without a method, of an answer."""
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
        return {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "clientInfo": CLIENT}


DIALECTS: Final = {
    "legacy": Dialect(revision=LEGACY, is_modern=False),
    "modern": Dialect(revision=MODERN, is_modern=True),
}
