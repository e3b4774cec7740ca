"""HTTP/1.1 as a client speaks it, on h11 and Trio. Knows nothing of MCP but its errors and its headers."""
