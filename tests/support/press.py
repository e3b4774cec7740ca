"""A browser for `BROWSER`: Chromium without a window, in which somebody presses the button that allows it.

    python press.py FOLDER URL

The page is the one that a person sees, with its form and cookie; the button is pressed over DevTools' own pipe.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any, Final

FLAGS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
)
PRESS: Final = "document.querySelector('button[value=allow]')?.click()"
SHOWN: Final = "document.title"


def main(folder: str, url: str) -> None:
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []

    def take_pipes() -> None:
        # DevTools reads commands from 3 and writes answers to 4.
        ours, theirs = os.dup(to_browser), os.dup(to_us)
        os.dup2(ours, 3)
        os.dup2(theirs, 4)

    program = shutil.which("chromium")
    assert program is not None
    command = [program, *FLAGS, *sandbox, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
    environment = {"PATH": os.environ["PATH"], "HOME": folder}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=take_pipes,
        env=environment,
    ) as browser:
        os.close(to_browser)
        os.close(to_us)
        commands, answers = os.fdopen(from_us, "wb", buffering=0), os.fdopen(from_browser, "rb")
        number = 0
        pending = b""

        def messages() -> Any:
            nonlocal pending
            while True:
                while b"\0" not in pending:
                    got = os.read(answers.fileno(), 65_536)
                    if not got:
                        raise EOFError
                    pending += got
                message, _, pending = pending.partition(b"\0")
                yield json.loads(message)

        received = messages()

        def send(method: str, session: str | None = None, **params: object) -> int:
            nonlocal number
            number += 1
            said: dict[str, object] = {"id": number, "method": method, "params": params}
            if session is not None:
                said["sessionId"] = session
            commands.write(json.dumps(said).encode() + b"\0")
            return number

        def ask(method: str, session: str | None = None, **params: object) -> Any:
            id = send(method, session, **params)
            return next(each for each in received if each.get("id") == id).get("result", {})

        def wait_loaded() -> None:
            next(each for each in received if each.get("method") == "Page.loadEventFired")

        try:
            target = ask("Target.createTarget", url="about:blank")["targetId"]
            session = ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            ask("Page.enable", session)
            send("Page.navigate", session, url=url)
            wait_loaded()
            send("Runtime.evaluate", session, expression=PRESS)
            wait_loaded()
            send("Browser.close")
            browser.wait(10)
        finally:
            browser.kill()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
