"""How a client is authorized: OAuth with the rules of `_oauth`, over `_http`. Knows nothing of MCP's messages."""
