"""Patterns of messages, and what is different where a message does not match. No I/O.

A pattern is plain JSON in which three things stand for others: ``...`` as a value is any value, ``...: ...`` in
an object, or ``...`` at the end of a list, is whatever else is there, and `Same` is the same value in all its
places. Any other object is what is equal to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from types import EllipsisType
from typing import Any, Final, TypeAlias, TypeGuard, final

import attrs

from .._absent import ABSENT
from .._peer._frame_record import MASKED, masked_text, masked_url
from .._printable import printable

MAX_SHOWN: Final = 4_000
"""How much of a message is shown, in characters."""

MAX_DIFFERENCES: Final = 20
"""How many differences are listed."""

_Path: TypeAlias = tuple[str, ...]


@final
@attrs.frozen
class Same:
    """The same value wherever it stands: ids, progress tokens, cursors.

    Where it is met first in what is received, it takes the value that is there; from then on it is that value, in
    what is expected and in what is said.

    Args:
        name: Its name; two of one name are one.
    """

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


_OF_USERS: Final = re.compile(r"\.(arguments|structuredContent|input|\w+Schema|params\.data)\.|\.content\.\w+$")
"""The paths of members whose names are those of users; in `content`, of the answer to an elicitation."""

_BARE: Final = ("\ue000", "\ue001")
"""What stands around a text that is shown without quotation marks."""


class ScriptMismatch(AssertionError):
    """A peer has not done what a script, or a record, says it does.

    Attributes:
        differences: What is different, a line each, as ``$.params.name: expected "add", got "sub"``; empty if
            there was no message to compare.
    """

    def __init__(self, problem: str, differences: Sequence[str] = ()) -> None:
        super().__init__(problem)
        self.differences: tuple[str, ...] = tuple(differences)


@final
class Matcher:
    """Compares messages with patterns, and remembers what `Same` stands for.

    Args:
        ignoring: The members that may have any value, by name, or by the last names of their path
            (``serverInfo.version``; ``$`` is the message).
        volatile: Further ones, which differ from one run to the next, but not where their names are those of
            users: in arguments, structured content, schemas, answers to elicitations and what is logged. Patterns
            are recorded messages then, in which what is masked matches anything.
    """

    def __init__(self, ignoring: Collection[str] = (), volatile: Collection[str] = ()) -> None:
        self._is_record = bool(volatile)
        self._ignoring = frozenset(ignoring)
        self._endings = tuple(f"{mark}{path}" for path in ignoring for mark in "./")  # as in `_meta`
        self._volatile = tuple(f"{mark}{path}" for path in volatile for mark in "./")
        self._known: dict[str, Any] = {}
        self._found: list[str] = []  # what is different in the messages that are being compared

    def differences(self, expected: object, got: object) -> list[str]:
        """Return what is different, a line each. Values of `Same` are kept only if nothing is."""
        self._found, before = [], dict(self._known)
        self._compare(expected, got, ("$",))
        if self._found:
            self._known = before
        return self._found

    def filled(self, message: object) -> Any:
        """Return a message with the values of `Same` in it.

        Raises:
            LookupError: One has none yet, or ``...`` is in what is to be said.
        """
        if isinstance(message, Same):
            if message.name not in self._known:
                raise LookupError(f"{message!r} has no value yet: nothing that was received had it")
            return self._known[message.name]
        if isinstance(message, EllipsisType):
            raise LookupError("... stands for what is received, and cannot be said")
        if _is_object(message):
            return {name: self.filled(value) for name, value in message.items()}
        if _is_list(message):
            return [self.filled(value) for value in message]
        return message

    def _is_ignored(self, path: _Path) -> bool:
        written = ".".join(path)
        if written in self._ignoring or written.endswith(self._endings):
            return True
        return written.endswith(self._volatile) and _OF_USERS.search(written) is None

    def _compare(self, expected: Any, got: Any, path: _Path) -> None:
        if expected is ... or (self._is_record and _is_masked(expected, got)) or self._is_ignored(path):
            return
        if isinstance(expected, Same):
            if expected.name not in self._known:
                self._known[expected.name] = got
                return
            expected = self._known[expected.name]
        if _is_object(expected) and _is_object(got):
            self._compare_objects(expected, got, path)
        elif _is_list(expected) and _is_list(got):
            self._compare_lists(expected, got, path)
        elif expected != got or _is_one_true(expected, got):
            self._note(path, shown_json(expected), shown_json(got))

    def _note(self, path: _Path, expected: str, got: str) -> None:
        written = path[0] + "".join(f"[{name}]" if name.isdigit() else f".{name}" for name in path[1:])
        self._found.append(shown_difference(printable(written, 300), expected, got))

    def _compare_objects(self, expected: Mapping[Any, Any], got: Mapping[str, Any], path: _Path) -> None:
        if self._is_record:
            got = {masked_url(name): value for name, value in got.items()}
        for name, value in expected.items():
            if name is ...:
                continue
            inner = (*path, str(name))
            if name in got:
                self._compare(value, got[name], inner)
            elif not self._is_ignored(inner):
                self._note(inner, shown_json(value), "nothing")
        for name, value in got.items():
            inner = (*path, name)
            if name not in expected and ... not in expected and not self._is_ignored(inner):
                self._note(inner, "nothing", shown_json(value))

    def _compare_lists(self, expected: Sequence[Any], got: Sequence[Any], path: _Path) -> None:
        may_be_more = bool(expected) and expected[-1] is ...
        wanted = expected[:-1] if may_be_more else expected
        if len(got) < len(wanted) or (len(got) > len(wanted) and not may_be_more):
            self._note(path, f"{'at least ' if may_be_more else ''}{len(wanted)} items", str(len(got)))
        for index, (one, other) in enumerate(zip(wanted, got, strict=False)):
            self._compare(one, other, (*path, str(index)))


def _is_masked(recorded: object, got: object) -> bool:
    """Return whether a recorded text is masked, and what came is the same but for what is."""
    if not isinstance(recorded, str) or MASKED not in recorded:
        return False
    return recorded == MASKED or (isinstance(got, str) and masked_text(got) == recorded)


def _is_object(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def _is_one_true(expected: object, got: object) -> bool:
    """Return whether only one of two equal values is a truth value: to Python 1 is equal to true."""
    return isinstance(expected, (int, float)) and isinstance(expected, bool) is not isinstance(got, bool)


def shown_difference(path: str, expected: str, got: str) -> str:
    """Return a line of `ScriptMismatch.differences`."""
    return f"{path}: expected {expected}, got {got}"


def shown_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON, or a pattern, for people: printable, and cut if it is long."""
    try:
        spelled = _spelled(value)
        text = json.dumps(spelled, indent=indent, ensure_ascii=False, default=lambda other: _bare(repr(other)))
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    text = text.replace(f'"{_BARE[0]}', "").replace(f'{_BARE[1]}"', "")
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}…"
    return "\n".join(printable(line, MAX_SHOWN + 1) for line in text.split("\n"))


def _bare(text: str) -> str:
    return f"{_BARE[0]}{text}{_BARE[1]}"


def _spelled(value: Any) -> Any:
    if isinstance(value, EllipsisType):
        return _bare("...")
    if isinstance(value, Same):
        return _bare(repr(value))
    if _is_object(value):
        return {_bare("...") if name is ... else str(name): _spelled(inner) for name, inner in value.items()}
    if _is_list(value):
        return [_spelled(inner) for inner in value]
    return value


def mismatch(problem: str, expected: object, got: object, differences: Sequence[str]) -> ScriptMismatch:
    """Return the error for a message that is not the expected one, or `ABSENT`, with what is different."""
    listed = [f"  {line}" for line in differences[:MAX_DIFFERENCES]]
    if len(differences) > MAX_DIFFERENCES:
        listed.append(f"  … and {len(differences) - MAX_DIFFERENCES} more")
    parts = [problem, *listed, "expected:", _indented(shown_json(expected, indent=2))]
    if got is not ABSENT:
        parts += ["got:", _indented(shown_json(got, indent=2))]
    return ScriptMismatch("\n".join(parts), differences)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
