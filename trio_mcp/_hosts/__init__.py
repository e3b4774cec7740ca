"""What carries the HTTP endpoint: an ASGI application, and Hypercorn under it."""
