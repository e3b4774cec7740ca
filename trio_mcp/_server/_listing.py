"""Lists in pages, with what clients may do with them. Knows of what is listed only its name and its number.

What a server offers of one kind: in order of registration, removable, and switched on and off.

Reading the parameters of a request, and refusing it by name if they are not its. No method lives here.

What clients are told about keeping results. Spec: 2026-07-28, server/utilities/caching.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Generic, TypedDict, TypeVar, final, get_args

import attrs

from .._codec._convert import from_wire
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, InvalidData
from .._core._sealing import BadCursor, CursorSeal, Position
from .._errors import INVALID_PARAMS, RequestError
from .._limits import check_seconds, check_whole
from .._revisions import Revision
from ..types import CacheScope, Icon, PaginatedRequestParams

_T = TypeVar("_T")


class Description(TypedDict, total=False):
    """Options of all that is registered: how clients are shown it."""

    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, object] | None


class Described(TypedDict):
    """The members that classes of `trio_mcp.types` have for a `Description`."""

    name: str
    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, object] | None


def described(options: Description, name: str, description: str | None = None) -> Described:
    """Return the members for a description.

    Args:
        options: What was given.
        name: The default of the name.
        description: The default of the description.
    """
    given_name, given_description = options.get("name"), options.get("description")
    return Described(
        name=name if given_name is None else given_name,
        title=options.get("title"),
        description=description if given_description is None else given_description,
        icons=options.get("icons"),
        meta=options.get("meta"),
    )


def check_options(method: str, options: Mapping[str, object], known: type[Any]) -> None:
    """Refuse an option that does not exist, as Python does where options are parameters.

    Args:
        method: The method it was given to.
        options: What was given.
        known: The `TypedDict` of its options.

    Raises:
        TypeError: There is no such option.
    """
    names: frozenset[str] = known.__optional_keys__
    unknown = options.keys() - names
    if unknown:
        raise TypeError(f"{method}() has no option {min(unknown)!r}; its options are {', '.join(sorted(names))}")


def _nothing() -> None:
    pass


@final
@attrs.define(eq=False)
class Entry(Generic[_T]):
    """Something registered.

    Attributes:
        serial: A number greater than those of everything registered before it.
        name: What it is known by.
        item: What it is.
        enabled: Whether clients see it.
    """

    serial: int
    name: str
    item: _T
    enabled: bool = True


@final
class Registry(Generic[_T]):
    """Things of one kind by name.

    Args:
        noun: What one of them is called, for errors.
        named: What stands between that and a name, for errors.
        key: Maps the names that mean the same to one.

    Attributes:
        on_change: Called after what clients see has changed.
        changes: How often it has.
    """

    def __init__(self, noun: str, *, named: str = "called", key: Callable[[str], str] = str) -> None:
        self.on_change: Callable[[], None] = _nothing
        self.changes = 0
        self._what = f"{noun} {named}"
        self._key = key
        self._entries: dict[str, Entry[_T]] = {}
        self._last_serial = 0

    @property
    def was_used(self) -> bool:
        """Whether there is or was something, so that clients may be told that there can be."""
        return self._last_serial > 0

    @property
    def visible(self) -> list[Entry[_T]]:
        """What clients see, in the order of registration."""
        return [entry for entry in self if entry.enabled]

    def add(self, name: str, item: _T) -> None:
        """Register something, enabled.

        Raises:
            ValueError: The name is taken.
        """
        key = self._key(name)
        if key in self._entries:
            raise ValueError(f"there is a {self._what} {name!r} already")
        self._last_serial += 1
        self._entries[key] = Entry(self._last_serial, name, item)
        self._changed()

    def __iter__(self) -> Iterator[Entry[_T]]:
        """Iterate over everything, also what is hidden, in the order of registration."""
        return iter(self._entries.values())

    def find(self, name: str) -> Entry[_T] | None:
        """Return what is registered under a name, also if it is hidden."""
        return self._entries.get(self._key(name))

    def get(self, name: str) -> _T | None:
        """Return what clients see under a name."""
        entry = self._entries.get(self._key(name))
        return entry.item if entry is not None and entry.enabled else None

    def remove(self, name: str) -> None:
        """Remove something for good; its name is free again.

        Raises:
            LookupError: There is none of this name.
        """
        was_enabled = self._entry(name).enabled
        del self._entries[self._key(name)]
        if was_enabled:
            self._changed()

    def switch(self, name: str, *, enabled: bool) -> None:
        """Show something to clients, or hide it; it keeps its place.

        Raises:
            LookupError: There is none of this name.
        """
        entry = self._entry(name)
        if entry.enabled != enabled:
            entry.enabled = enabled
            self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self.on_change()

    def _entry(self, name: str) -> Entry[_T]:
        entry = self.find(name)
        if entry is None:
            raise LookupError(f"there is no {self._what} {name!r}")
        return entry


_NOTHING: Final[dict[str, Any]] = {}

MAX_MEMBERS: Final = 1_000
"""How many answers, or arguments that are filled in already, one request may bring: more than anybody has."""


def are_plain(params: Mapping[str, Any], names: AbstractSet[str]) -> bool:
    """Whether parameters have no other members than these and `_meta`, and `_meta` is what it must be.

    Who then looks at the others itself need not `read_params`.
    """
    return params.keys() <= names and params.get("_meta", _NOTHING).__class__ is dict


def refuse_many(params: Mapping[str, Any], *path: str) -> None:
    """Refuse an object in parameters that has more members than anybody needs, before any of them is read.

    Args:
        params: The parameters of the request.
        path: Where in them the object is, if it is there.

    Raises:
        RequestError: It has more than `MAX_MEMBERS`.
    """
    part: Any = params
    for name in path:
        part = part.get(name) if is_object(part) else None
    if is_object(part) and len(part) > MAX_MEMBERS:
        problem = f"invalid params: {'.'.join(path)} has {len(part)} members; {MAX_MEMBERS} are allowed"
        raise RequestError(INVALID_PARAMS, problem)


def read_params(params: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read the parameters of a request.

    Raises:
        RequestError: They are not what the specification says they must be.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error


def _check_ttl(_instance: object, _attribute: attrs.Attribute[Any], value: float) -> None:
    check_seconds("ttl", value, is_told=True)


def _check_scope(_instance: object, _attribute: attrs.Attribute[Any], value: str) -> None:
    if value not in get_args(CacheScope):
        raise ValueError(f"scope must be one of {', '.join(get_args(CacheScope))}, not {value!r}")


@final
@attrs.frozen
class CacheHint:
    """How long a client may keep a result, and for whom. Clients of 2026-07-28 and later are told.

    Attributes:
        ttl: For how many seconds it is fresh; 0 means that it should be asked for each time.
        scope: ``"private"``: for whoever asked only. ``"public"``: for everybody, and gateways may serve it to
            anybody, whatever their authorization; so there must be nothing in it that is not for all.
    """

    ttl: float = attrs.field(default=0.0, validator=_check_ttl)
    scope: CacheScope = attrs.field(default="private", validator=_check_scope)

    @property
    def ttl_ms(self) -> int:
        """How long it is fresh, in milliseconds, as the wire has it."""
        return round(self.ttl * 1000)


NOT_KEPT: Final = CacheHint()
"""What is said where nothing else is: always ask, and share with nobody."""

_LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_ALIKE: Final = frozenset({*_LISTS, "server/discover"})
_CACHEABLE: Final = frozenset({*_ALIKE, "resources/read"})


@final
class CacheHints:
    """The hints of a server, by method.

    Args:
        given: One hint for all lists and `server/discover`, or hints by method, or nothing. What a resource says
            is only covered by name, ``"resources/read"``: it is the likeliest to be private.

    Raises:
        ValueError: A method is none whose result may be kept.
    """

    def __init__(self, given: CacheHint | Mapping[str, CacheHint] | None) -> None:
        if given is None:
            given = {}
        elif isinstance(given, CacheHint):
            given = dict.fromkeys(_ALIKE, given)
        for method in given:
            if method not in _CACHEABLE:
                known = ", ".join(sorted(_CACHEABLE))
                raise ValueError(f"cache: the result of {method!r} cannot be kept, only those of {known}")
        self._by_method = dict(given)

    def of(self, method: str) -> CacheHint:
        """Return what is said about the results of a method."""
        return self._by_method.get(method, NOT_KEPT)


KEY_BYTES: Final = 32

_FIRST_PAGE: Final = frozenset({"_meta"})


class PageMembers(TypedDict):
    """What every page of every list says, besides its items: hand it to the result's class."""

    next_cursor: str | None
    ttl_ms: int
    cache_scope: CacheScope


@final
@attrs.define(eq=False)
class Kept:
    """A result that is the same for every client of a revision, so that it has to be written only once.

    Attributes:
        result: The result.
        changes: How often what it lists had changed.
        written: What is sent of it, once it is written.
    """

    result: object
    changes: int
    written: Encoded | None = None


@final
class Listing:
    """Cuts lists into pages, the same way for all of a server's lists.

    Args:
        page_size: How many items a page has; `None` for all of them.
        cursor_key: The secret by which cursors are made; by default one of this object's own, so that cursors do
            not outlive it.
        cache: What clients are told about keeping results; see `CacheHints`.

    Raises:
        ValueError: Something is out of bounds.
    """

    def __init__(
        self,
        *,
        page_size: int | None = None,
        cursor_key: bytes | None = None,
        cache: CacheHint | Mapping[str, CacheHint] | None = None,
    ) -> None:
        if page_size is not None:
            check_whole("page_size", page_size)
        self._page_size = page_size
        self._seal = CursorSeal(secrets.token_bytes(KEY_BYTES) if cursor_key is None else cursor_key)
        self._origin = secrets.token_hex(4)
        self._kept: dict[tuple[str, Revision], Kept] = {}
        self.hints: Final = CacheHints(cache)

    def page(
        self, method: str, params: Mapping[str, Any], entries: Sequence[Entry[_T]]
    ) -> tuple[Sequence[_T], PageMembers]:
        """Return the items of the page that is asked for, and what else the result says.

        Args:
            method: The list's method. A cursor is good for the list that it came with only.
            params: The parameters of the request.
            entries: All that is listed, in the order of registration.

        Raises:
            RequestError: The cursor is not one of ours for this list, or the parameters cannot be read.

        Spec: 2026-07-28, server/utilities/pagination; server/utilities/caching, "Interaction with Pagination".
        """
        cursor = read_params(params, PaginatedRequestParams).cursor
        start = 0 if cursor is None else self._start(method, cursor, entries)
        end = len(entries) if self._page_size is None else start + self._page_size
        page = entries[start:end]
        last = page[-1] if page and end < len(entries) else None
        hint = self.hints.of(method)
        next_cursor = None
        if last is not None:
            next_cursor = self._seal.seal(method, Position(self._origin, last.serial, last.name))
        return [entry.item for entry in page], PageMembers(
            next_cursor=next_cursor,
            ttl_ms=hint.ttl_ms,
            cache_scope=hint.scope,
        )

    def kept(
        self,
        method: str,
        params: Mapping[str, Any],
        revision: Revision,
        changes: int,
        list_page: Callable[[], object],
    ) -> object:
        """Return the page that is asked for: the first one as it was made before, if nothing has changed since.

        Args:
            method: The list's method.
            params: The parameters of the request.
            revision: What the client speaks.
            changes: How often what is listed has changed.
            list_page: Makes the page.

        Raises:
            RequestError: As `page`.
        """
        if not are_plain(params, _FIRST_PAGE):
            return list_page()
        kept = self._kept.get((method, revision))
        if kept is None or kept.changes != changes:
            kept = self._kept[method, revision] = Kept(list_page(), changes)
        return kept

    def _start(self, method: str, cursor: str, entries: Sequence[Entry[Any]]) -> int:
        try:
            position = self._seal.open(method, cursor)
        except BadCursor as error:
            raise RequestError(INVALID_PARAMS, f"cursor: {error}") from error
        if position.origin != self._origin:
            for index, entry in enumerate(entries):
                if entry.name == position.name:
                    return index + 1
        begin = bisect_left(entries, position.serial, key=_serial)
        end = bisect_right(entries, position.serial, key=_serial)
        if end - begin <= 1:
            return end
        # Files of one directory have the number of the directory; they are listed by name.
        for index in range(begin, end):
            if entries[index].name == position.name:
                return index + 1
        return next((index for index in range(begin, end) if entries[index].name > position.name), end)


def _serial(entry: Entry[Any]) -> int:
    return entry.serial
