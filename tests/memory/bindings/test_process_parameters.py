"""`StdioServerParameters`: what it accepts, what it refuses, and what it does not show."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import attrs
import pytest

from trio_mcp import StdioServerParameters


def test_sequences_and_mappings_are_copied() -> None:
    """Frozen means that nobody can change it, the caller's own list included."""
    args = ["-m", "weather"]
    env = {"KEY": "value"}
    params = StdioServerParameters("python", args, env=env)
    args.append("--debug")
    env["KEY"] = "other"
    assert params.args == ("-m", "weather")
    assert params.env == {"KEY": "value"}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(params, "command", "other")  # noqa: B010  # type checkers know it already


def test_equal_parameters_start_equal_servers() -> None:
    """So that a restart can be told from a change."""
    params = StdioServerParameters("cat", ["-n"])
    assert params == StdioServerParameters("cat", ("-n",), env={})
    assert hash(params) == hash(StdioServerParameters("cat", ("-n",), env={}))
    assert params != StdioServerParameters("cat", ["-n"], env={"KEY": "value"})
    assert StdioServerParameters("cat") != StdioServerParameters("cat", inherit_env=True)


def test_values_of_variables_are_not_shown() -> None:
    """Logs and tracebacks show parameters, and variables carry tokens."""
    shown = repr(StdioServerParameters("python", env={"API_TOKEN": "hunter2"}))
    assert "API_TOKEN" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    "given",
    [
        {"env": {"TOKEN": b"hunter2"}},
        {"env": {"TOKEN": "hunter2\ud800"}},
        {"args": "hunter2"},
        {"args": [b"hunter2"]},
    ],
)
def test_what_a_process_cannot_be_given_is_not_repeated(given: Any) -> None:
    """The error is about a variable or an argument that may be a password, and goes to a log."""
    with pytest.raises((TypeError, ValueError)) as refused:
        StdioServerParameters("python", **given)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_what_no_process_can_be_given_is_refused(subtests: pytest.Subtests) -> None:
    """The message names the field, long before anything is started."""
    rows: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"command": ""}, ValueError, "command must not be empty"),
        ({"command": b"cat"}, TypeError, "command must be a string"),
        ({"command": "a\0b"}, ValueError, "command must not contain a NUL"),
        ({"args": "-n"}, TypeError, "args must be a sequence of strings"),
        ({"args": ["-n", 3]}, TypeError, r"args\[1\] must be a string"),
        ({"args": ["\0"]}, ValueError, r"args\[0\] must not contain a NUL"),
        ({"args": ["\ud800"]}, ValueError, r"args\[0\] has characters"),
        ({"env": {3: "x"}}, TypeError, "a name in env must be a string"),
        ({"env": {"": "x"}}, ValueError, "a name in env must not be empty"),
        ({"env": {"A=B": "x"}}, ValueError, "'A…'"),
        ({"env": {"A": 1}}, TypeError, r"env\['A'\] must be a string"),
        ({"cwd": 3}, TypeError, "cwd must be a string"),
        ({"cwd": "a\0"}, ValueError, "cwd must not contain a NUL"),
        ({"stderr": 3}, TypeError, "stderr must be"),
    ]
    for given, error, words in rows:
        with subtests.test(given=given, error=error, words=words):
            parameters: dict[str, Any] = {"command": "cat"} | given
            with pytest.raises(error, match=words):
                StdioServerParameters(**parameters)


def test_own_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over those that are inherited, all or few."""
    monkeypatch.setenv("LANG", "C")
    params = StdioServerParameters("cat", env={"LANG": "de_DE.UTF-8"})
    assert params.environment()["LANG"] == "de_DE.UTF-8"
    assert attrs.evolve(params, inherit_env=True).environment()["LANG"] == "de_DE.UTF-8"


@pytest.mark.parametrize("cwd", [None, "somewhere", Path("somewhere")])
def test_directory_may_be_any_path(cwd: str | os.PathLike[str] | None) -> None:
    """`None` is this program's directory."""
    assert StdioServerParameters("cat", cwd=cwd).cwd == cwd
