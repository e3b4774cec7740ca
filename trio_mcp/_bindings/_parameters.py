"""What to start as a server: its command, and the environment, directory and standard error it gets.

A description that checks itself. Starting, watching and ending the process is done elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, final

import attrs

from .._core._restart import RestartPolicy
from ._stderr import StderrSink, check_sink

__all__ = ["StdioServerParameters"]

if sys.platform == "win32":
    _INHERITED: Final = frozenset(
        {
            "APPDATA",
            "COMSPEC",
            "HOMEDRIVE",
            "HOMEPATH",
            "LOCALAPPDATA",
            "NUMBER_OF_PROCESSORS",
            "OS",
            "PATH",
            "PATHEXT",
            "PROCESSOR_ARCHITECTURE",
            "PROGRAMDATA",
            "PROGRAMFILES",
            "PROGRAMFILES(X86)",
            "SYSTEMDRIVE",
            "SYSTEMROOT",
            "TEMP",
            "TMP",
            "USERNAME",
            "USERPROFILE",
            "WINDIR",
        }
    )
else:
    _INHERITED: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})


def _is_inherited(name: str, value: str) -> bool:
    # A value that starts with "()" is a function some shell exported: code, not a setting.
    return (name in _INHERITED or name.startswith("LC_")) and not value.startswith("()")


def _variables(env: Mapping[str, str] | None) -> Mapping[str, str]:
    return MappingProxyType(dict(env or {}))


def _names_only(env: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: ...' for name in env)}}}"


def _arguments(args: Sequence[str]) -> tuple[str, ...]:
    if isinstance(args, (str, bytes)):
        raise TypeError("args must be a sequence of strings, not one string")
    return tuple(args)


def _policy(restart: RestartPolicy | bool | None) -> RestartPolicy | None:  # noqa: FBT001 - a converter
    return RestartPolicy() if restart is True else restart or None


def _check_restart(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (RestartPolicy, type(None))):
        raise TypeError(f"restart must be a RestartPolicy, True or None, not {value!r}")


def _check_text(name: str, value: object) -> None:
    # The value is not repeated: in arguments and in the environment there are passwords, keys and tokens.
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} must not contain a NUL character")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{name} has characters that no process can be given") from None


def _check_command(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    _check_text("command", value)
    if not value:
        raise ValueError("command must not be empty")


def _check_args(_instance: object, _attribute: attrs.Attribute[Any], value: Sequence[object]) -> None:
    for index, argument in enumerate(value):
        _check_text(f"args[{index}]", argument)


def _check_env(_instance: object, _attribute: attrs.Attribute[Any], value: Mapping[object, object]) -> None:
    for name, text in value.items():
        _check_text("a name in env", name)
        if not name or "=" in str(name):
            raise ValueError(f"a name in env must not be empty or contain '=', as {name!r} does")
        _check_text(f"env[{name!r}]", text)


def _check_cwd(_instance: object, _attribute: attrs.Attribute[Any], value: str | os.PathLike[str] | None) -> None:
    if value is not None:
        _check_text("cwd", os.fspath(value) if isinstance(value, os.PathLike) else value)


def _check_stderr(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    check_sink(value)


@final
@attrs.frozen
class StdioServerParameters:
    """A server that is started as a child process and spoken to over its standard streams.

    The process is started directly, without a shell. It does not see the whole environment of this program,
    where secrets for others may be, but only `env` and a few settings programs need to work at all: on POSIX
    ``HOME``, ``LANG``, ``LC_*``, ``LOGNAME``, ``PATH``, ``SHELL``, ``TERM``, ``TMPDIR``, ``TZ`` and ``USER``; on
    Windows those that say where the system, its programs and the user's files are.

    Args:
        command: The program, looked up in the ``PATH`` the process will have. On Windows also ``.cmd`` and
            ``.bat`` files such as ``npx``.
        args: Its arguments.
        env: Variables set in its environment, over those that are inherited. Their values are not shown by
            ``repr``.
        inherit_env: Whether the process inherits this program's whole environment.
        cwd: The directory it starts in; this program's if `None`.
        stderr: Where its standard error goes: a file, a path that is appended to, a callable that gets each
            line, a `logging.Logger` that gets each line at level INFO, made printable, or `None` for our own
            standard error, where its escape sequences work as if it had been started in a shell.
        restart: When a server that died is started again: never, or by a policy, or ``True`` for the policy with
            its defaults. What the server had not answered is lost; what is asked while it is gone waits for it.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: The command is empty, or a value has characters no process can be given.

    Spec: 2026-07-28, basic/transports/stdio.
    """

    command: str = attrs.field(validator=_check_command)
    args: tuple[str, ...] = attrs.field(default=(), converter=_arguments, validator=_check_args)
    env: Mapping[str, str] = attrs.field(
        default=None,
        kw_only=True,
        converter=_variables,
        validator=_check_env,
        repr=_names_only,
        hash=False,  # a mapping has none
    )
    inherit_env: bool = attrs.field(default=False, kw_only=True)
    cwd: str | os.PathLike[str] | None = attrs.field(default=None, kw_only=True, validator=_check_cwd)
    stderr: StderrSink = attrs.field(default=None, kw_only=True, validator=_check_stderr)
    restart: RestartPolicy | None = attrs.field(
        default=None, kw_only=True, converter=_policy, validator=_check_restart
    )

    def environment(self) -> dict[str, str]:
        """Return the environment the process gets, as this program's is now."""
        environment = {
            name: value for name, value in os.environ.items() if self.inherit_env or _is_inherited(name, value)
        }
        for name, value in self.env.items():
            # Windows does not tell `Path` from `PATH`, and os.environ has capitals only.
            environment[name.upper() if sys.platform == "win32" else name] = value
        return environment
