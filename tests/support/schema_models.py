"""Classes of every kind that tools use, for the tests of this directory."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
from typing_extensions import ReadOnly, TypeAliasType

from trio_mcp import Field

T = TypeVar("T")
N = TypeVar("N", bound=int)
IntOrText = TypeVar("IntOrText", int, str)

UserId = NewType("UserId", int)


class Colour(enum.Enum):
    """What colours there are."""

    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Shapeless(enum.Enum):
    POINT = (0, 0)


@attrs.frozen
class Line:
    """One line of an order.

    More about lines.

    Attributes:
        sku: The article's number.
        copies: How many.
    """

    sku: str
    copies: Annotated[int, Field(ge=1)] = 1


@attrs.frozen
class Order:
    lines: list[Line]
    note: str | None = None
    tags: list[str] = attrs.field(factory=list[str])
    made: dt.datetime = attrs.field(factory=lambda: dt.datetime(2026, 7, 28, tzinfo=dt.UTC))


@attrs.define
class Named:
    _secret: int
    name: str = attrs.field(alias="label")
    length: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.length = len(self.name)


@attrs.frozen
class Positive:
    number: int

    def __attrs_post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("must be above zero")


@attrs.frozen
class OnlyText:
    text: Any = attrs.field(validator=attrs.validators.instance_of(str))


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list["Node"])


@dataclasses.dataclass(frozen=True)
class Base(Generic[T]):
    """A base.

    Args:
        first: The first.
        second: The second.
    """

    first: T
    second: int = 0


@dataclasses.dataclass(frozen=True)
class Derived(Base[list[T]], Generic[T]):
    """Derived.

    Args:
        second: Another second.
    """

    third: T | None = None
    computed: int = dataclasses.field(default=7, init=False)


@dataclasses.dataclass
class WithInitVar:
    seed: dataclasses.InitVar[int]
    value: int = 0


@attrs.frozen
class Page(Generic[T]):
    items: list[T]
    following: Page[T] | None = None


class Options(TypedDict, total=False):
    depth: Required[int]
    width: int
    source: Annotated[str, Field("Where from.", name="from")]


class MoreOptions(Options):
    extra: NotRequired[ReadOnly[str]]
    must: str


class Pair(TypedDict, Generic[T]):
    left: T
    right: T


class IntPair(Pair[int]):
    label: str


class Point(NamedTuple):
    x: float
    y: float = 0.0


Untyped: Any = vars(collections)["namedtuple"]("Untyped", ["a", "b"])


@attrs.frozen
class Cat:
    name: str
    kind: Literal["cat"] = "cat"


@attrs.frozen
class Dog:
    name: str
    barks: bool = True
    kind: Literal["dog"] = "dog"


@attrs.frozen
class Kitten(Cat):
    weeks: int = 4


@attrs.frozen
class Circle:
    radius: float


@attrs.frozen
class Square:
    side: float


@attrs.frozen
class Leaf:
    op: Literal["leaf"]
    value: int


@attrs.frozen
class Plus:
    op: Literal["plus"]
    left: Leaf | Plus
    right: Leaf | Plus


@attrs.frozen
class AlikeA:
    inner: AlikeA | AlikeB | None


@attrs.frozen
class AlikeB:
    inner: AlikeA | AlikeB | None


@attrs.frozen
class ByHandA:
    inside: ByHandA | ByHandB | None
    a: int


@attrs.frozen
class ByHandB:
    inside: ByHandA | ByHandB | None
    b: int


class TaggedLeft(TypedDict):
    side: Literal["left"]
    value: int


class TaggedRight(TypedDict):
    side: Literal["right"]
    value: int


class HasA(TypedDict):
    a: int


class HasB(TypedDict):
    b: int


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
Short = TypeAliasType("Short", Annotated[str, Field(max_length=3)])
Listed = TypeAliasType("Listed", list[T], type_params=(T,))
Tree = TypeAliasType("Tree", "dict[str, Tree[T]] | T", type_params=(T,))
# What no type checker accepts:
Endless: Any = vars()["TypeAliasType"]("Endless", "Endless | None")
Unknown: Any = vars()["TypeAliasType"]("Unknown", "list[Nowhere]")
