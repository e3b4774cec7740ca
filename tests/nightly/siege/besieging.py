"""An attack on a server, an honest client beside it, and what came of both.

Each is a process of its own: the server (`fortress`), the honest client (`neighbour`), who attacks (`attacker`). What
the honest client notes is told apart by time: quiet before, under attack, and afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self, final

import trustme
from asked_process import AskedProcess
from judging import KINDS, Call, Calls, Row, Standing, flat
from plans import Host, Plan
from unmeasured import unmeasured

HERE: Final = Path(__file__).parent

HANGS: Final = 2.0
"""Seconds without a note of a kind of calls, after which one of these hangs."""

PREPARED: Final = 30.0
"""Seconds in which an attacker has what it sends ready."""

PATIENCE: Final = 20.0
"""Seconds in which a server answers how things stand, starts and ends."""


@final
class Fortress(AskedProcess):
    """A server in a process of its own.

    Args:
        setup: What it is told; see `fortress`.
        log: What it says goes there.
    """

    def __init__(self, setup: Mapping[str, Any], log: Path) -> None:
        super().__init__(HERE / "fortress.py", setup, log, PATIENCE)
        self.at = self.hear().decode().strip()

    def peak(self) -> int:
        """Return the most memory that it has taken, in bytes."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return 0

    def forget_peak(self) -> None:
        """Let the most that it has taken be what it takes."""
        with suppress(OSError):
            Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def standing(self) -> Standing:
        """Ask how things stand.

        Raises:
            OSError: It has ended, or does not answer.
        """
        said = self.ask()
        names = [(name, count) for name, count in said["names"]]
        return Standing(said["memory"], said["fds"], said["tasks"], flat(said["statistics"]), names)

    def lines(self) -> int:
        """Return how many lines it has logged."""
        with self.log.open("rb") as log:
            return sum(1 for _ in log)


@final
class Neighbour:
    """The honest client, in a process of its own.

    Args:
        options: What it is told; see `neighbour`.
        notes: What has become of its calls goes there.
    """

    def __init__(self, options: Mapping[str, Any], notes: Path) -> None:
        notes.touch()
        self._notes: IO[str] = notes.open(encoding="utf-8")
        arguments = [sys.executable, str(HERE / "neighbour.py"), json.dumps(options), str(notes)]
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=unmeasured()
        )
        self._calls: list[Call] = []
        self._rest = ""

    def calls(self, since: float, until: float) -> Calls:
        """Return the calls that were begun in a time, and have ended until now."""
        self._rest += self._notes.read()
        *lines, self._rest = self._rest.split("\n")
        self._calls += [Call(*json.loads(line)) for line in lines]
        calls = [*self._calls, *self._hanging(time.monotonic())]
        return Calls([call for call in calls if since <= call.since < until])

    def _hanging(self, now: float) -> list[Call]:
        """Return the calls that have not ended yet although they were begun long ago."""
        last: dict[str, float] = {}
        for call in self._calls:
            last[call.kind] = max(last.get(call.kind, 0.0), call.since + call.seconds)
        return [
            Call(kind, ended, now - ended, "no answer yet") for kind, ended in last.items() if now - ended > HANGS
        ]

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._notes.close()


@final
class Siege:
    """A server and an honest client. A context that ends both.

    Args:
        setup: What the server is told.
        folder: Where notes and logs go.
    """

    def __init__(self, setup: Mapping[str, Any], folder: Path) -> None:
        self.host: Host = setup["host"]
        stem = f"{time.time_ns()}"
        self._sockets = tempfile.TemporaryDirectory(prefix="siege-", ignore_cleanup_errors=True)
        own = Path(self._sockets.name)
        own.chmod(0o711)  # an attacker is another user
        certificates = {name: str(own / f"{name}.pem") for name in ("authority", "server")}
        if self.host == "tls":
            authority = trustme.CA()
            authority.cert_pem.write_to_path(certificates["authority"])
            authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificates["server"])
        path = str(own / "socket")
        self.fortress = Fortress(
            {**setup, "path": path, "certificate": certificates["server"]}, folder / f"{stem}.log"
        )
        needs_token = setup.get("authenticates") or setup.get("protected")
        options = {
            "host": self.host,
            "at": self.fortress.at,
            "authorization": "Bearer friend" if needs_token else "",
            "authority": certificates["authority"],
        }
        self.neighbour = Neighbour(options, folder / f"{stem}.calls")
        begun = time.monotonic()
        while not self._is_warm(begun):
            time.sleep(0.1)

    def _is_warm(self, begun: float) -> bool:
        """Return whether everything is imported, and every kind of call was made a few times."""
        if time.monotonic() > begun + PATIENCE:
            raise TimeoutError("the honest client does not get on")
        kinds = Counter(call.kind for call in self.neighbour.calls(begun, time.monotonic()).calls)
        return len(kinds) == len(KINDS) and min(kinds.values()) >= 3

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.neighbour.kill()
        self.fortress.end()
        self._sockets.cleanup()

    def storm(self, plan: Plan, seconds: float, after: float) -> Row:
        """Attack, and wait until everything is as before.

        Args:
            plan: The attack.
            seconds: How long it lasts.
            after: How many seconds everything may take to be as before.
        """
        fortress = self.fortress
        before = fortress.standing()
        lines = fortress.lines()
        fortress.forget_peak()
        begun = time.monotonic()
        with tempfile.TemporaryFile() as said:
            options = {
                "attack": plan.attack,
                "host": self.host,
                "at": fortress.at,
                "seconds": seconds,
                "addresses": list(plan.sources),
                "authorization": "Bearer enemy" if plan.is_principal else "",
            }
            arguments = [sys.executable, str(HERE / "attacker.py"), json.dumps(options)]
            attacker = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=said, env=unmeasured())
            try:
                attacker.wait(seconds + PREPARED + PATIENCE)
            except subprocess.TimeoutExpired:
                pass  # it has said nothing of what it did, and the row says so
            finally:
                attacker.kill()
                attacker.wait()
            said.seek(0)
            told: dict[str, Any] = json.loads(said.read() or b'{"done": {}}')
        begun, ended = told.get("begun", begun), told.get("ended", time.monotonic())
        died, back, left = "", None, ["?"]
        while back is None and time.monotonic() < ended + after:
            time.sleep(min(0.3, after / 4))
            try:
                left = fortress.standing().more_than(before, leaves_sessions=plan.leaves_sessions)
            except OSError as error:
                died = f"the server has ended: {fortress.end()}" if fortress.has_ended else str(error)
                break
            back = None if left else time.monotonic() - ended
        peak = fortress.peak()
        recovered = time.monotonic()
        time.sleep(min(2.0, after / 4))
        now = time.monotonic()
        # Who has asked during the attack may be answered a little later.
        return Row(
            plan=plan,
            host=self.host,
            during=self.neighbour.calls(begun, ended),
            after=self.neighbour.calls(recovered, now),
            peak=peak,
            back=back,
            left=left,
            lines=fortress.lines() - lines,
            done=told["done"],
            died=died,
        )
