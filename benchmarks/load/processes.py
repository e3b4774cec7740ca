"""What takes a process of its own: a start to the first answer, idle memory, an import, a codec alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trio_mcp._bench._links import LoadError, now
from trio_mcp._bench._loops import Sample
from trio_mcp._bench._opening import Opened, ask_once, open_server
from trio_mcp._bench._processes import pinned, quiet_environment

__all__ = ["count_tools", "measure_codec", "measure_import", "measure_start"]

LOOK: Final = """
import json, sys, time
began = time.perf_counter()
{statement}
took = time.perf_counter() - began
print(json.dumps({{"seconds": took, "modules": len(sys.modules)}}))
"""


def count_tools(opened: Opened) -> int:
    """Return how many tools a server has on the first page of its list; 0 where it has none."""
    try:
        return len(ask_once(opened.link, "tools/list")["tools"])
    except LoadError:
        return 0


def measure_start(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Start a server over stdio and wait for its first answer to a call; see how much memory it has then.

    Raises:
        LoadError: There was none.
    """
    began = now()
    opened = open_server(job)
    try:
        result = ask_once(opened.link, "tools/call", {"name": "echo", "arguments": {"text": "hello"}})
        took = (now() - began) / 1e9
        if result["content"][0]["text"] != "hello":
            raise LoadError(f"wrong answer: {result}")
        memory = opened.memory_bytes()
        tools = count_tools(opened)
    finally:
        opened.close()
    value = memory / 2**20 if options["wanted"] == "memory" else took * 1e3
    return Sample(
        value=value,
        operations=1,
        seconds=took,
        facts={"memory_mib": memory / 2**20, "start_ms": took * 1e3, "tools": tools},
    )


def measure_import(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Import what users import first, in a new interpreter.

    Raises:
        LoadError: It cannot be imported.
    """
    seen = run((job["python"], "-c", LOOK.format(statement=job["imports"])), job)
    value = seen["modules"] if options["wanted"] == "modules" else seen["seconds"] * 1e3
    return Sample(value=value, operations=1, seconds=seen["seconds"], facts={"modules": seen["modules"]})


def measure_codec(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Do one thing with a codec, again and again.

    Raises:
        LoadError: It cannot be done.
    """
    seen = run((*job["command"], str(job["seconds"])), job)
    took = seen["seconds"]
    done = seen["operations"]
    return Sample(value=done / took, operations=done, seconds=took, facts={"cpu_us": took / done * 1e6})


def run(command: Sequence[str], job: Mapping[str, Any]) -> Any:
    """Run a program on the server's cores, and return what it says as JSON.

    Raises:
        LoadError: It fails.
    """
    before = pinned(job.get("server_cores"))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=job.get("variables") or quiet_environment()
        )
    finally:
        pinned(before)
    if done.returncode:
        raise LoadError(done.stderr[-2_000:])
    return json.loads(done.stdout)
