"""What a fuzzer is here: a target, how one input is tried, how inputs are changed, and where they are kept.

A target takes bytes and returns nothing. An assertion that fails in it, or an error that is not among those which
the reader documents, is a finding. `make fuzz` runs them guided by coverage; the tests replay what was kept.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from copy import deepcopy
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs

CORPUS: Final = Path(__file__).parent / "corpus"
PACKAGE: Final = str(Path(__file__).parents[2] / "trio_mcp")

MAX_INPUT: Final = 4096
"""Bytes of an input that is made here. What is longer is a matter of time against size, which has its own test."""

MOST_TEXT: Final = 24_000
"""Characters that the text of an error may have, whatever the input: that of ten problems, each cut."""

Shape: TypeAlias = Literal["bytes", "text", "json"]
Run: TypeAlias = Callable[[bytes], None]


@final
@attrs.frozen(kw_only=True)
class Target:
    """One reader, and what must hold of it.

    Attributes:
        name: Its name, as `make fuzz` has it.
        run: Reads one input.
        refusals: The errors that it documents.
        tokens: Pieces of which inputs are made.
        shape: How inputs are changed: as bytes, as text, or as JSON.
        hard: What is hard for readers of its kind, when it is long: a beginning, what is repeated, and an end.
        seeds: Makes its first inputs.
    """

    name: str
    run: Run
    refusals: tuple[type[BaseException], ...]
    tokens: tuple[bytes, ...]
    shape: Shape
    hard: tuple[tuple[bytes, bytes, bytes], ...]
    seeds: Callable[[], Iterable[bytes]]

    @property
    def folder(self) -> Path:
        """Where its inputs are kept."""
        return CORPUS / self.name

    def corpus(self) -> list[bytes]:
        """Return what was kept, the smallest first."""
        return sorted((path.read_bytes() for path in self.folder.glob("*")), key=lambda data: (len(data), data))

    def keep(self, data: bytes, *, prefix: str = "") -> Path:
        """Keep an input."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{prefix}{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        return path

    def attempt(self, data: bytes) -> None:
        """Try one input. What comes out is a finding."""
        try:
            self.run(data)
        except self.refusals as error:
            size = len(str(error))
            assert size <= MOST_TEXT + 4 * len(data), f"an error of {size} characters for {len(data)} bytes"


TARGETS: Final[dict[str, Target]] = {}


def target(
    name: str,
    *refusals: type[BaseException],
    shape: Shape = "bytes",
    tokens: Iterable[bytes | str] = (),
    hard: Iterable[bytes | str | tuple[bytes | str, bytes | str, bytes | str]] = (),
    seeds: Callable[[], Iterable[bytes | str]] = tuple[bytes],
) -> Callable[[Run], Run]:
    """Make a function a target.

    Args:
        name: Its name.
        *refusals: The errors that the reader documents.
        shape: How inputs are changed.
        tokens: Pieces of which inputs are made.
        hard: What is hard if it is repeated; perhaps with what is before and behind it.
        seeds: Returns first inputs.
    """

    def add(run: Run) -> Run:
        name_ = name.replace(" ", "-")  # for a command line
        repeated = [("", each, "") if isinstance(each, (bytes, str)) else each for each in hard]
        TARGETS[name_] = Target(
            name=name_,
            run=run,
            refusals=refusals,
            tokens=tuple(map(_bytes, tokens)),
            shape=shape,
            hard=tuple((_bytes(before), _bytes(unit), _bytes(behind)) for before, unit, behind in repeated),
            seeds=lambda: [_bytes(each) for each in seeds()],
        )
        return run

    return add


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


# What targets have in common.


def chance_of(data: bytes) -> Random:
    """Return a source of chance that an input alone decides."""
    return Random(hashlib.sha256(data).digest())


LARGEST_PIECE: Final[ContextVar[int | None]] = ContextVar("largest piece", default=None)
"""How large the pieces of an input are at most; `None` to let the input decide."""


MOST_PIECES: Final = 256
"""About how many pieces of an input there are: a fuzzer is to try many inputs."""


def cut(data: bytes) -> list[bytes]:
    """Return an input in pieces; where it is cut, it decides itself."""
    chance = chance_of(data)
    largest = LARGEST_PIECE.get() or chance.choice((1, 2, 7, 64)) + len(data) // MOST_PIECES
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = chance.randint(1, largest)
        pieces.append(data[at : at + size])
        at += size
    return pieces


def text_of(data: bytes) -> str:
    """Return an input as text, of which half a surrogate pair may be a part."""
    return data.decode("utf-8", "surrogatepass") if _is_text(data) else data.decode("latin-1")


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def ending(work: Callable[[], object], *refusals: type[BaseException]) -> Any:
    """Return what comes of something, to be compared: its result, or which of the errors."""
    try:
        return work()
    except refusals as error:
        return next(kind for kind in refusals if isinstance(error, kind))


# Changing inputs, where nothing guides that: a step of `make fuzz` without atheris, and the fresh inputs of the tests.

_EXTREMES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 1e308, 5e-324, -0.0, 2**31, 2**53, 2**63, 2**64, 10**40, "", "a", "\x00", "\u202e",
    "\ud800", "é", "😀", "a" * 300, [], {}, [[]], [{}], {"": ""}, {"a": None},
)  # fmt: skip
_NUMBERS: Final = (
    b"0",
    b"-1",
    b"1",
    b"127",
    b"65535",
    b"4294967296",
    b"18446744073709551616",
    b"1e999",
    b"9" * 40,
)


def changed(data: bytes, chance: Random, of: Target, others: Sequence[bytes]) -> bytes:
    """Return an input that is a few steps away from another one."""
    if of.shape == "json" and chance.random() < 0.7:
        made = _changed_json(data, chance, of.tokens)
        if made is not None:
            return made[:MAX_INPUT]
    piece = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        _change(piece, chance, of.tokens, others)
    return bytes(piece[:MAX_INPUT])


def _change(data: bytearray, chance: Random, tokens: Sequence[bytes], others: Sequence[bytes]) -> None:
    at = chance.randint(0, len(data))
    end = min(len(data), at + chance.choice((1, 1, 2, 4, 16, 64)))
    match chance.randrange(9):
        case 0 if data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        case 1:
            data[at:at] = bytes([chance.randrange(256)])
        case 2 | 3 if tokens:
            data[at:at] = chance.choice(tokens)
        case 4:
            del data[at:end]
        case 5:
            data[at:at] = data[at:end] * chance.choice((1, 2, 20))
        case 6 if others:
            other = chance.choice(others)
            begin = chance.randint(0, len(other))
            data[at:end] = other[begin : begin + chance.choice((4, 16, 64, 1024))]
        case 7:
            data[at:end] = chance.choice(_NUMBERS)
        case _:
            data[at:end] = chance.choice(tokens or _NUMBERS)


def _changed_json(data: bytes, chance: Random, tokens: Sequence[bytes]) -> bytes | None:
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    for _ in range(chance.choice((1, 1, 2, 4))):
        value = _change_value(value, chance, tokens)
    return json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


def _change_value(value: Any, chance: Random, tokens: Sequence[bytes]) -> Any:
    places = list(_places(value))
    holder, key = chance.choice(places) if places else (None, None)
    made = _made(chance, tokens, [holder_[key_] for holder_, key_ in places])
    if holder is None:
        return made
    is_object = isinstance(cast("object", holder), dict)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if is_object:
            holder[str(_text_made(chance, tokens))] = holder.pop(key)
        case 2 if is_object:
            holder[str(_text_made(chance, tokens))] = made
        case 2:
            holder.insert(key, made)
        case 3:
            inner = holder[key]
            holder[key] = chance.choice(([inner], {"a": inner}, [inner, deepcopy(inner)]))
        case _:
            holder[key] = made
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    ahead = [value]
    while ahead:
        whole = ahead.pop()
        if isinstance(whole, dict):
            keys: list[Any] = list(cast("dict[str, Any]", whole))
        else:
            keys = list(range(len(cast("Sequence[Any]", whole)))) if isinstance(whole, list) else []
        for key in keys:
            yield whole, key
            ahead.append(cast("Any", whole)[key])


def _text_made(chance: Random, tokens: Sequence[bytes]) -> str:
    return chance.choice(tokens).decode("utf-8", "surrogatepass") if tokens else "a"


def _made(chance: Random, tokens: Sequence[bytes], there: Sequence[Any]) -> Any:
    kind = chance.randrange(4)
    if kind == 0 and there:
        return deepcopy(chance.choice(there))
    return deepcopy(chance.choice(_EXTREMES)) if kind == 1 or not tokens else _text_made(chance, tokens)


# Coverage, for choosing which inputs are kept.

Covered: TypeAlias = frozenset[tuple[CodeType, int]]


def covered(of: Target, data: bytes) -> Covered:
    """Return which lines of the package an input runs, and each that follows another in one function."""
    found: set[tuple[CodeType, int]] = set()
    before: dict[FrameType, int] = {}

    def look(frame: FrameType, event: str, _argument: object) -> Any:
        code = frame.f_code
        if event == "call":
            return look if code.co_filename.startswith(PACKAGE) else None
        if event == "line":
            found.add((code, before.get(frame, 0) << 16 | frame.f_lineno))
            before[frame] = frame.f_lineno
        elif event == "return":
            before.pop(frame, None)
        return look

    sys.settrace(look)
    try:
        of.attempt(data)
    finally:
        sys.settrace(None)
    return frozenset(found)


def smallest(of: Target, inputs: Iterable[bytes], most: int) -> list[bytes]:
    """Return the few inputs that run all that many of them run, small ones first."""
    known: set[tuple[CodeType, int]] = set()
    kept: list[tuple[int, bytes]] = []
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        new = covered(of, data) - known
        if new:
            known |= new
            kept.append((len(new), data))
    return [data for _, data in sorted(kept, reverse=True)[:most]]


def shorter(of: Target, data: bytes, is_wrong: Callable[[bytes], bool], *, tries: int = 2_000) -> bytes:
    """Return the shortest part of an input that is found to be wrong in the same way."""
    size = max(1, len(data) // 2)
    while size and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            tries -= 1
            candidate = data[:at] + data[at + size :]
            if is_wrong(candidate):
                data = candidate
            else:
                at += size
        size //= 2
    return data


def shown(data: bytes) -> str:
    """Return an input for a message."""
    return repr(data if len(data) <= 400 else data[:400] + b"...")
