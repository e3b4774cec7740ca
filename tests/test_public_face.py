"""What `import trio_mcp` gives, and what it leaves alone."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import trio_mcp
from trio_mcp import types


def run_python(script: str) -> Any:
    """Run a script in a fresh interpreter, and return the JSON it prints last."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# The names.


def bound_names() -> list[str]:
    """Return the names that the package's file hands on: ``from ._x import Y as Y``."""
    tree = ast.parse(Path(trio_mcp.__file__).read_text(encoding="utf-8"))
    return [
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if alias.asname is not None
    ]


def in_order(names: list[str]) -> list[str]:
    """Sort as the linter does: constants, classes, all else."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


PUBLIC: list[str] = list(getattr(trio_mcp, "__all__", in_order(bound_names())))


def test_what_is_listed_is_what_can_be_imported() -> None:
    """Adding a name is a decision about the API, and forgetting to list one is a mistake."""
    assert in_order(bound_names()) == PUBLIC
    visible = {
        name
        for name, value in vars(trio_mcp).items()
        if not name.startswith("_") and (value is types or not isinstance(value, ModuleType))
    }
    assert visible - {"annotations"} == set(PUBLIC) - {"__version__"}


def test_the_wire_types_are_listed_in_order() -> None:
    """`from trio_mcp.types import *` gives what is listed, and every class that is there is."""
    names = list(types.__all__)
    assert names == in_order(names)
    assert len(set(names)) == len(names)
    classes = {name for name, value in vars(types).items() if inspect.isclass(value) and not name.startswith("_")}
    assert classes <= set(names) <= set(vars(types))


def is_ours(value: object) -> bool:
    return (getattr(value, "__module__", None) or "").split(".")[0] == "trio_mcp"


def public_objects() -> Iterator[tuple[str, object]]:
    """Yield the classes and functions of the API, and their public methods and properties."""
    for module, names in ((trio_mcp, PUBLIC), (types, list(types.__all__))):
        for name in names:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)) or not is_ours(value):
                continue
            yield f"{module.__name__}.{name}", value
            for member_name, member in vars(value).items() if inspect.isclass(value) else ():
                if member_name.startswith("_"):
                    continue
                if isinstance(member, (classmethod, staticmethod, property)) or inspect.isroutine(member):
                    yield f"{module.__name__}.{name}.{member_name}", member


DOCUMENTED = dict(public_objects())


@pytest.mark.parametrize("name", DOCUMENTED)
def test_everything_public_is_described(name: str) -> None:
    """Of its own, in a sentence at least."""
    text = (DOCUMENTED[name].__doc__ or "").strip()
    assert text, f"{name} has no docstring"
    assert text.split("\n\n")[0].rstrip()[-1] in ".:", f"{name}: {text.splitlines()[0]!r}"


# What an import leaves alone.


def test_importing_loads_no_other_event_loop_and_nothing_that_is_optional() -> None:
    """A stdio server starts in the time it takes to import this; extras are loaded when they are used."""
    loaded = run_python("""
        import json, sys
        import trio_mcp, trio_mcp.types
        print(json.dumps(sorted(sys.modules)))
    """)
    packages = {name.split(".")[0] for name in loaded}
    assert "trio" in packages
    assert not packages & {
        "asyncio", "anyio", "hypercorn", "h11", "h2", "wsproto", "trio_websocket",
        "jsonschema", "jsonschema_rs", "referencing", "pydantic", "httpx", "httpx2", "opentelemetry", "rich", "pytest",
    }  # fmt: skip


ROUND_TRIP = """
    import json, sys
    import trio, trio.testing, trio_mcp

    server = trio_mcp.Server("shelf", version="1")

    @server.tool
    async def reserve(title: str, copies: int = 1) -> str:
        return f"{copies} of {title}"

    frames = []

    async def main():
        async with trio_mcp.open_client(server, on_frame=lambda direction, data: frames.append(data)) as client:
            result = await client.call_tool("reserve", {"title": "Dune \\ud800", "copies": 2})
        return result.content[0].text
"""


def test_without_the_compiled_json_library_everything_works() -> None:
    """It is a dependency only where it has a wheel; what goes over the wire is the same."""
    script = (
        ROUND_TRIP
        + """
    text = trio.run(main, clock=trio.testing.MockClock())
    print(json.dumps({
        "text": text, "frames": [frame.decode() for frame in frames], "msgspec": "msgspec" in sys.modules
    }))
    """
    )
    blocker = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "msgspec":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
    """
    with_it = run_python(script)
    without_it = run_python(blocker + script)
    assert (with_it.pop("msgspec"), without_it.pop("msgspec")) == (True, False)
    assert with_it["text"] == "2 of Dune \N{REPLACEMENT CHARACTER}"
    assert without_it == with_it


def test_the_logging_configuration_is_the_programs_own() -> None:
    """No handler, no level and no filter is set, neither by importing nor by serving."""
    watch = """
    import logging

    def configuration():
        loggers = [logging.root, *(logging.getLogger(name) for name in sorted(logging.root.manager.loggerDict))]
        return {
            logger.name: [
                logger.level, logger.propagate, logger.disabled, len(logger.filters),
                [type(handler).__name__ for handler in logger.handlers],
            ]
            for logger in loggers
            if logger is logging.root or logger.name.split(".")[0] == "trio_mcp"
        } | {"raise": logging.raiseExceptions, "disable": logging.root.manager.disable,
             "class": logging.getLoggerClass().__name__, "factory": logging.getLogRecordFactory().__name__}

    before = configuration()
    """
    states = run_python(
        watch
        + ROUND_TRIP
        + """
    imported = configuration()
    trio.run(main, clock=trio.testing.MockClock())
    print(json.dumps([before, imported, configuration()]))
    """
    )
    before, imported, served = states
    assert before["root"] == imported["root"] == served["root"] == [30, True, False, 0, []]
    for state in (imported, served):
        assert {name: state[name] for name in before} == before
        for name in set(state) - set(before):
            assert state[name] == [0, True, False, 0, []], name
