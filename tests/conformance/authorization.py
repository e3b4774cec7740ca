"""Play the official suite for authorization servers against ours: ``python tests/conformance/authorization.py``.

It opens a page and waits for a person to agree. Ours asks nobody: whoever opens the page is sent back at once.
"""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from contextlib import closing
from functools import partial
from pathlib import Path
from socket import create_server
from typing import Final

import trio
from suite import SUITE_SECONDS, ServerProblemError, suite_command

from trio_mcp import Revision
from trio_mcp.testing import AuthorizationServer

SCENARIOS: Final = 2
PAGE: Final = re.compile(r"^(http://\S+/authorize\?\S+)$", re.MULTILINE)
PASSED: Final = re.compile(r"^✓ \S+: [1-9]\d* passed, 0 failed$", re.MULTILINE)


def play(issuer: str, revision: str) -> tuple[int, str]:
    """Play all scenarios of a revision; return how many have passed, and what the suite has said."""
    with closing(create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    client = ("--client-id", "suite", "-p", str(port), "--spec-version", revision)
    command = suite_command("authorization", "--url", issuer, *client)
    said = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suite:
        assert suite.stdout is not None
        for line in suite.stdout:
            said += line
            page = PAGE.search(said)
            if page is not None and line.startswith("Callback server started"):
                with urllib.request.urlopen(page[1], timeout=SUITE_SECONDS) as answer:
                    answer.read()
    return len(PASSED.findall(said)), said


async def main() -> int:
    """Play each revision that has authorization; return the exit status of the program."""
    status = 0
    authorization = AuthorizationServer()
    authorization.add_client("suite", redirect_uris=["http://127.0.0.1/callback"])
    async with authorization.serving() as issuer:
        for revision in sorted(Revision)[1:]:
            try:
                with trio.fail_after(SUITE_SECONDS):
                    # The thread ends with the suite, which has a bound of its own.
                    passed, said = await trio.to_thread.run_sync(
                        partial(play, issuer, str(revision)), abandon_on_cancel=True
                    )
            except trio.TooSlowError:
                raise ServerProblemError(f"the suite did not end within {SUITE_SECONDS} s") from None
            print(f"authorization/{revision}: {passed}/{SCENARIOS}")
            if passed != SCENARIOS:
                print(said)
                status = 1
    return status


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(trio.run(main))
