"""How a client is authorized, and whom a server lets in: OAuth with the rules of `_oauth`, over `_http`."""
