"""A server that forwards everything to another one. Knows client and server, which do not know each other."""
