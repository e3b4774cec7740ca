"""ASGI applications on uvicorn, and on the hosts that run Trio: Hypercorn's Trio worker, and anycorn."""

# It runs in other environments, on packages that are not installed in this one.
# ruff: noqa: ANN001, ANN201
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false

import socket


def serve(app, host, path):
    """Serve an application on a free port of this machine, and say where."""
    # asyncio turns off Nagle's algorithm only where the socket names its protocol; else each answer waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    print("http://{}:{}{}".format(*listener.getsockname(), path), flush=True)
    if host == "uvicorn":
        import uvicorn

        # Both are taken where they are installed; here they must be, for ours has its fast parser too.
        config = uvicorn.Config(
            app, log_level="error", access_log=False, timeout_keep_alive=75, http="httptools", loop="uvloop"
        )
        uvicorn.Server(config).run([listener])
        return
    import trio

    if host == "anycorn":
        from anycorn import Config
        from anycorn import serve as serve_trio
    else:
        from hypercorn.config import Config
        from hypercorn.trio import serve as serve_trio

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = 1_000_000_000
    config.accesslog = None
    config.errorlog = None
    trio.run(serve_trio, app, config)
