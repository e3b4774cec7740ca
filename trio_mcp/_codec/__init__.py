"""From bytes to JSON-RPC messages to wire types, and back. No I/O, no Trio."""
