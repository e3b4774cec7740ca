"""The HTTP endpoint of a server: requests in, answers and streams out. Knows no ASGI and no HTTP library."""
