"""A real nginx with a configuration from docs/deployment.md: on a free port, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trustme

__all__ = ["NAME", "Nginx", "blocks", "replaced", "running_nginx"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "deployment.md"
NAME: Final = "localhost"
PROGRAM: Final = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

_MAIN: Final = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log info;
events { worker_connections 1024; }
http {
    log_format tests '$server_protocol $status';
    access_log access.log tests;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include orders.conf;
}
"""


def blocks(language: str) -> list[str]:
    """Return what the page has in one language, in order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} shows no {language}"
    return list(found)


def replaced(text: str, replacements: Mapping[str, str]) -> str:
    """Replace what the page has where a test has something else. Each must be there once."""
    for old, new in replacements.items():
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times on the page"
        text = text.replace(old, new)
    return text


@attrs.frozen
class Nginx:
    """A running nginx.

    Attributes:
        port: Where it listens, on this machine.
        folder: Where it writes.
        authority: Who has signed its certificate.
    """

    port: int
    folder: Path
    authority: trustme.CA

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.port}/mcp"

    def context(self) -> ssl.SSLContext:
        """Return a context that trusts it."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]
        return context

    def log(self, name: str = "access.log") -> list[str]:
        """Return what it has logged."""
        return (self.folder / name).read_text(encoding="utf-8").splitlines()


@asynccontextmanager
async def running_nginx(folder: Path, configuration: str) -> AsyncGenerator[Nginx]:
    """Run nginx with a configuration of the page while the block runs."""
    if PROGRAM is None:
        pytest.skip("nginx is not installed; `make debian` does it for root")
    authority = trustme.CA()
    certificate = authority.issue_cert(NAME)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(folder / "chain.pem", append=True)
    # nginx takes over sockets that it is given by their numbers, as it does when it is upgraded while it runs.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        configuration = replaced(
            configuration,
            {
                "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
                "listen [::]:443 ssl http2;": "",
                "/etc/ssl/mcp.example.com/fullchain.pem": f"{folder}/chain.pem",
                "/etc/ssl/mcp.example.com/privkey.pem": f"{folder}/key.pem",
                "server_name mcp.example.com;": f"server_name {NAME};",
            },
        )
        # The workers of a root's nginx would be somebody else, who cannot look into the folders of tests.
        user = f"user {pwd.getpwuid(0).pw_name};\n" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(user + _MAIN, encoding="utf-8")
        (folder / "orders.conf").write_text(configuration, encoding="utf-8")
        command = [PROGRAM, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    command,
                    check=False,
                    pass_fds=[listening.fileno()],
                    env={**os.environ, "NGINX": f"{listening.fileno()};"},
                )
            )
            yield Nginx(port, folder, authority)
            assert process.poll() is None, "nginx has ended by itself"
            process.terminate()
