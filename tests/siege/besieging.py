"""An attack on a server, an honest client beside it, and what came of both.

Each is a process of its own: the server (`fortress`), the honest client (`neighbour`), who attacks (`attacker`). What
the honest client notes is told apart by time: quiet before, under attack, and afterwards.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Self, final

from judging import KINDS, Call, Calls, Http, Plan, Row, Standing, flat
from unmeasured import unmeasured

HERE: Final = Path(__file__).parent

HANGS: Final = 2.0
"""Seconds without a note of a kind of calls, after which one of these hangs."""

PREPARED: Final = 30.0
"""Seconds in which an attacker has what it sends ready."""

PATIENCE: Final = 20.0
"""Seconds in which a server answers how things stand, starts and ends."""


@final
class Fortress:
    """A server in a process of its own.

    Args:
        setup: What it is told; see `fortress`.
        log: What it says goes there.
    """

    def __init__(self, setup: Mapping[str, Any], log: Path) -> None:
        self.log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "fortress.py"), json.dumps(setup)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=unmeasured(),
            )
        self.pid = self._process.pid
        self.port = int(self._line())

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], PATIENCE)
        line: bytes = stdout.readline() if ready else b""
        if not line:
            raise TimeoutError(f"the server does not say how things stand{self._last_words()}")
        return line

    def _last_words(self) -> str:
        words = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
        return "".join(f"; last logged: {line:.200}" for line in words)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, which it should not by itself."""
        return self._process.poll() is not None

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
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(b"\n")
        stdin.flush()
        said: dict[str, Any] = json.loads(self._line())
        names = [(name, count) for name, count in said["names"]]
        return Standing(said["memory"], said["fds"], said["tasks"], flat(said["statistics"]), names)

    def lines(self) -> int:
        """Return how many lines it has logged."""
        with self.log.open("rb") as log:
            return sum(1 for _ in log)

    def end(self) -> int | None:
        """Ask it to end, as an operator does, and return its status; `None` if it had to be killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@final
class Neighbour:
    """The honest client, in a process of its own."""

    def __init__(self, port: int, notes: Path, authorization: str) -> None:
        notes.touch()
        self._notes: IO[str] = notes.open(encoding="utf-8")
        arguments = [sys.executable, str(HERE / "neighbour.py"), str(port), str(notes), authorization]
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
        quiet: How many seconds the honest client is watched before the first attack.
    """

    def __init__(self, setup: Mapping[str, Any], folder: Path, quiet: float) -> None:
        self._folder = folder
        self._setup = dict(setup)
        self.http: Http = setup["http"]
        stem = f"{time.time_ns()}"
        self.fortress = Fortress(setup, folder / f"{stem}.log")
        authorization = "Bearer friend" if setup.get("authenticates") else ""
        self.neighbour = Neighbour(self.fortress.port, folder / f"{stem}.calls", authorization)
        begun = time.monotonic()
        while not self._is_warm(begun):
            time.sleep(0.1)
        since = time.monotonic()
        time.sleep(quiet)
        self.quiet = self.neighbour.calls(since, time.monotonic())

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
            arguments = [sys.executable, str(HERE / "attacker.py"), plan.attack, str(fortress.port), str(seconds)]
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
            http=self.http,
            quiet=self.quiet,
            during=self.neighbour.calls(begun, ended),
            after=self.neighbour.calls(recovered, now),
            peak=peak,
            back=back,
            left=left,
            lines=fortress.lines() - lines,
            done=told["done"],
            died=died,
        )
