"""What tools, prompts and resources have in common: registries, parameters of requests, caching, pages of lists.

Knows of what is listed only its name and its number. The methods themselves are in `_application` and
`_resources`. Spec: 2026-07-28, server/utilities/caching and pagination.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Generic, TypedDict, TypeVar, final, get_args

import attrs

from .._channel import Origin
from .._codec._json import InvalidData, encode, is_object
from .._codec._jsonrpc import Encoded, from_wire
from .._core._sealing import BadCursor, CursorSeal, Position
from .._core._uri_template import check_uri
from .._errors import INVALID_PARAMS, RequestError
from .._limits import check_seconds, check_whole
from .._revisions import Revision
from ..types import CacheScope, Icon, PaginatedRequestParams
from ._permits import Permit, Scopes, Throttle, read_scopes, read_throttle

_T = TypeVar("_T")


class Description(TypedDict, total=False):
    """Options of all that is registered: how clients are shown it."""

    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, object] | None
    scopes: Scopes | None
    rate: str | None


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

    Raises:
        TypeError: `meta` has what is not plain JSON.
        ValueError: There is no name, or a number in `meta` is not finite.
    """
    given_name, given_description = options.get("name"), options.get("description")
    if given_name is None and name == "<lambda>":
        raise ValueError("a lambda has no name: give it one, as in server.tool(name=...)(lambda: ...)")
    encode({"meta": dict(options.get("meta") or {})})  # otherwise no list with it could be sent
    return Described(
        name=name if given_name is None else given_name,
        title=options.get("title"),
        description=description if given_description is None else given_description,
        icons=options.get("icons"),
        meta=options.get("meta"),
    )


def _nothing() -> None:
    pass


@final
@attrs.define(eq=False)
class Entry(Generic[_T]):
    """A registered item.

    Attributes:
        serial: A number greater than those of everything registered before it.
        name: Its name, or its URI.
        item: The item.
        enabled: Whether clients see it.
        permit: Who may use it; `None` for everybody.
        throttle: How often each client may use it; `None` for as often as it likes.
    """

    serial: int
    name: str
    item: _T
    enabled: bool = True
    permit: Permit | None = None
    throttle: Throttle | None = None


@final
class Registry(Generic[_T]):
    """What a server offers of one kind, by name, in the order of registration.

    Args:
        noun: The kind, for errors.
        named: The word between the kind and a name, for errors.
        key: Maps names that mean the same to one key.

    Attributes:
        on_change: Called after each change of what clients see.
        changes: How many such changes there were.
        is_guarded: Whether there is, or was, anything that not everybody may use.
        is_checked: Whether there is, or was, anything that not everybody may use, or not as often as they like.
        was_used: Whether an item was ever registered: then the capability is declared.
        shown: The items that clients see, by key. Do not change it.
    """

    def __init__(self, noun: str, *, named: str = "called", key: Callable[[str], str] = str) -> None:
        self.on_change: Callable[[], None] = _nothing
        self.changes = 0
        self.is_guarded = False
        self.is_checked = False
        self._what = f"{noun} {named}"
        self._key = key
        self._entries: dict[str, Entry[_T]] = {}
        self._last_serial = 0
        self.was_used = False
        self.shown: dict[str, _T] = {}

    @property
    def visible(self) -> list[Entry[_T]]:
        """What clients see, in the order of registration."""
        return [entry for entry in self if entry.enabled]

    def visible_to(self, origin: Origin | None) -> list[Entry[_T]]:
        """What whoever has sent a message may use, in the order of registration."""
        return [entry for entry in self.visible if entry.permit is None or entry.permit.shows(origin)]

    def permit(self, name: object, params: Mapping[str, Any] | None = None) -> Permit | None:
        """Return who may use what clients see under a name, by a request with these parameters, or by any.

        `None` is for everybody, and for nothing.
        """
        entry = self.find(name) if isinstance(name, str) else None
        return None if entry is None or not entry.enabled or entry.permit is None else entry.permit.of(params)

    def throttle(self, name: object) -> Throttle | None:
        """Return how often each client may use what clients see under a name; `None` for any number."""
        entry = self.find(name) if isinstance(name, str) else None
        return None if entry is None or not entry.enabled else entry.throttle

    def add(self, name: str, item: _T, permit: Permit | None = None, throttle: Throttle | None = None) -> None:
        """Register an item, enabled.

        Args:
            name: Its name.
            item: The item.
            permit: Who may use it; `None` for everybody.
            throttle: How often each client may use it; `None` for as often as it likes.

        Raises:
            ValueError: The name is taken.
        """
        key = self._key(name)
        if key in self._entries:
            problem = f"there is a {self._what} {name!r} already: each is registered once, by a name of its own"
            raise ValueError(f"{problem}; remove_{self._what.partition(' ')[0]} takes it away")
        self._last_serial += 1
        self.was_used = True
        self.shown[key] = item
        self._entries[key] = Entry(self._last_serial, name, item, permit=permit, throttle=throttle)
        self.is_guarded = self.is_guarded or permit is not None
        self.is_checked = self.is_checked or permit is not None or throttle is not None
        self._changed()

    def __iter__(self) -> Iterator[Entry[_T]]:
        """Iterate over all items, also hidden ones, in the order of registration."""
        return iter(self._entries.values())

    def find(self, name: str) -> Entry[_T] | None:
        """Return the entry of a name, also if it is hidden."""
        return self._entries.get(self._key(name))

    def remove(self, name: str) -> None:
        """Remove an item; its name is free again.

        Raises:
            LookupError: No item has this name.
        """
        was_enabled = self._entry(name).enabled
        key = self._key(name)
        del self._entries[key]
        self.shown.pop(key, None)
        if was_enabled:
            self._changed()

    def switch(self, name: str, *, enabled: bool) -> None:
        """Show an item to clients, or hide it; it keeps its place.

        Raises:
            LookupError: No item has this name.
        """
        entry = self._entry(name)
        if entry.enabled != enabled:
            entry.enabled = enabled
            if enabled:
                self.shown[self._key(name)] = entry.item
            else:
                del self.shown[self._key(name)]
            self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self.on_change()

    def _entry(self, name: str) -> Entry[_T]:
        given: Any = name
        entry = self.find(name) if isinstance(given, str) else None
        if entry is None:
            raise LookupError(f"there is no {self._what} {name!r}")
        return entry


MAX_SHOWN_NAME: Final = 128
"""Characters of an unknown name that an error repeats."""

MAX_COMPARED: Final = 100
"""How many names an unknown one is compared with."""


class NamedRegistry(Generic[_T]):
    """What a server offers of one kind that clients ask for by its name.

    Args:
        noun: The kind, for errors.

    Attributes:
        entries: What was registered, in that order.
    """

    def __init__(self, noun: str) -> None:
        self.entries: Final = Registry[_T](noun)
        self._noun = noun

    def register(self, name: str, item: _T, options: Description) -> None:
        """Register an item under a name, for those who may use it, and as often as they may.

        Raises:
            ValueError: The name is taken.
            TypeError, ValueError: It is not said so; see `read_scopes`, `read_throttle`.
        """
        throttle = read_throttle(options.get("rate"), f"the {self._noun} {name}")
        self.entries.add(name, item, read_scopes(options.get("scopes")), throttle)

    def get(self, name: str) -> _T:
        """Return what clients see under a name.

        Raises:
            RequestError: Nothing has this name.
        """
        registered = self.entries.shown.get(name)
        if registered is None:
            raise self._unknown(name)
        return registered

    def check_permit(self, name: object, origin: Origin | None, params: Mapping[str, Any] | None = None) -> None:
        """Check that whoever has sent a request may use what has a name, if there is something.

        Raises:
            RequestError: Not so.
        """
        permit = self.entries.permit(name, params)
        if permit is not None and not permit.allows(origin):
            raise permit.refusal(self._unknown(str(name)), origin)

    def _unknown(self, name: str) -> RequestError:
        name = name[:MAX_SHOWN_NAME]
        # Of names that everybody may use, and of few, because comparing takes time.
        known = [each for each in islice(self.entries.shown, MAX_COMPARED) if self.entries.permit(each) is None]
        meant = "".join(f"; did you mean {each!r}?" for each in get_close_matches(name, known, 1, 0.65))
        return RequestError(INVALID_PARAMS, f"Unknown {self._noun}: {name}{meant}")


_NOTHING: Final[dict[str, Any]] = {}

MAX_MEMBERS: Final = 1_000
"""How many answers, or arguments filled in already, one request may bring: far more than are needed."""


def are_plain(params: Mapping[str, Any], names: AbstractSet[str]) -> bool:
    """Whether parameters have no other members than these, and `_meta` is an object.

    A caller that then checks the members itself need not use `read_params`.
    """
    return params.keys() <= names and params.get("_meta", _NOTHING).__class__ is dict


def refuse_many(params: Mapping[str, Any], *path: str) -> None:
    """Refuse an object in parameters that has too many members, before any of them is read.

    Args:
        params: The parameters of the request.
        path: The path to the object in them, if they have it.

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
        RequestError: They break the specification.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error


def check_asked_uri(uri: str) -> None:
    """Check that the resource that a client asks for is named by a URI.

    Raises:
        RequestError: It is not.
    """
    try:
        check_uri(uri)
    except ValueError as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: uri: {error}", {"uri": uri[:256]}) from error


def check_ttl(_instance: object, _attribute: attrs.Attribute[Any], value: float) -> None:
    """Validate a time to live, in seconds."""
    check_seconds("ttl", value, is_told=True)


def check_scope(_instance: object, _attribute: attrs.Attribute[Any], value: str) -> None:
    """Validate a `CacheScope`."""
    if value not in get_args(CacheScope):
        raise ValueError(f"scope must be one of {', '.join(get_args(CacheScope))}, not {value!r}")


@final
@attrs.frozen
class CacheHint:
    """How long a client may keep a result, and for whom. Sent to clients of 2026-07-28 and later.

    Attributes:
        ttl: For how many seconds it is fresh; 0, the default, means that the client should ask each time.
        scope: ``"private"``, the default: only for the client that asked. ``"public"``: for all clients, and
            gateways may serve it to any, whatever their authorization; so it must hold nothing confidential.
    """

    ttl: float = attrs.field(default=0.0, validator=check_ttl)
    scope: CacheScope = attrs.field(default="private", validator=check_scope)

    @property
    def ttl_ms(self) -> int:
        """How long it is fresh, in milliseconds, as it is sent."""
        return round(self.ttl * 1000)


NOT_KEPT: Final = CacheHint()
"""The default: always ask, and do not share."""

_LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_ALIKE: Final = frozenset({*_LISTS, "server/discover"})
_CACHEABLE: Final = frozenset({*_ALIKE, "resources/read"})


def _hints_by_method(given: CacheHint | Mapping[str, CacheHint] | None) -> Mapping[str, CacheHint]:
    """Return the hints of a server, by method.

    Args:
        given: One hint for all lists and `server/discover`, or hints by method, or `None`. One hint for all does
            not cover ``"resources/read"``, whose results are the likeliest to be private.

    Raises:
        ValueError: The results of a method cannot be kept.
    """
    hints = dict.fromkeys(_ALIKE, given) if isinstance(given, CacheHint) else dict(given or {})
    for method in hints:
        if method not in _CACHEABLE:
            known = ", ".join(sorted(_CACHEABLE))
            raise ValueError(f"cache: the result of {method!r} cannot be kept, only those of {known}")
    return hints


KEY_BYTES: Final = 32

FIRST_PAGE: Final = frozenset({"_meta"})
"""The parameters that a request for the first page of a list may have."""


class PageMembers(TypedDict):
    """The members that every page of every list has, besides its items."""

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
        written: Its JSON, once it is written.
    """

    result: object
    changes: int
    written: Encoded | None = None


@final
class Listing:
    """Cuts lists into pages, the same way for all of a server's lists.

    Args:
        page_size: How many items a page has; `None` for all of them.
        cursor_key: The secret that seals cursors; by default a new one, so that cursors do not outlive this
            object.
        cache: How long clients may keep results; see `_hints_by_method`.

    Raises:
        ValueError: An argument is out of bounds.
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
        self._has_own_key = cursor_key is None
        self._seal = CursorSeal(secrets.token_bytes(KEY_BYTES) if cursor_key is None else cursor_key)
        self._origin = secrets.token_hex(4)
        self._kept: dict[tuple[str, Revision], Kept] = {}
        self._hints = _hints_by_method(cache)

    def join(self, key: bytes) -> None:
        """Be one of several processes that understand each other's cursors.

        Args:
            key: Seals them, unless the server's author has given a key.
        """
        if self._has_own_key:
            self._seal = CursorSeal(key)

    def hint_for(self, method: str) -> CacheHint:
        """Return how long clients may keep the results of a method, and for whom."""
        return self._hints.get(method, NOT_KEPT)

    def page(
        self,
        method: str,
        params: Mapping[str, Any],
        entries: Sequence[Entry[_T]],
        *,
        is_own: bool = False,
        at_most: int | None = None,
    ) -> tuple[Sequence[_T], PageMembers]:
        """Return the items of the page that is asked for, and the other members of the result.

        Args:
            method: The list's method. A cursor is good for the list that it came with only.
            params: The parameters of the request.
            entries: All that is listed, in the order of registration.
            is_own: Whether others may see other entries: then nobody may share the result.
            at_most: How many items a page has if the server's author has not said.

        Raises:
            RequestError: The cursor is not one of ours for this list, or the parameters cannot be read.

        Spec: 2026-07-28, server/utilities/pagination; server/utilities/caching, "Interaction with Pagination".
        """
        cursor = read_params(params, PaginatedRequestParams).cursor
        start = 0 if cursor is None else self._start(method, cursor, entries)
        size = at_most if self._page_size is None else self._page_size
        end = len(entries) if size is None else start + size
        page = entries[start:end]
        last = page[-1] if page and end < len(entries) else None
        hint = self.hint_for(method)
        next_cursor = None
        if last is not None:
            next_cursor = self._seal.seal(method, Position(self._origin, last.serial, last.name))
        return [entry.item for entry in page], PageMembers(
            next_cursor=next_cursor, ttl_ms=hint.ttl_ms, cache_scope="private" if is_own else hint.scope
        )

    def kept(
        self,
        method: str,
        params: Mapping[str, Any],
        revision: Revision,
        changes: int,
        list_page: Callable[[], object],
    ) -> object:
        """Return the page that is asked for. The first page is kept until what it lists changes.

        Args:
            method: The list's method.
            params: The parameters of the request.
            revision: What the client speaks.
            changes: How often what is listed has changed.
            list_page: Makes the page.

        Raises:
            RequestError: As `page`.
        """
        if not are_plain(params, FIRST_PAGE):
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
        begin = bisect_left(entries, position.serial, key=attrgetter("serial"))
        end = bisect_right(entries, position.serial, key=attrgetter("serial"))
        if end - begin <= 1:
            return end
        # Files of one directory have the number of the directory; they are listed by name.
        for index in range(begin, end):
            if entries[index].name == position.name:
                return index + 1
        return next((index for index in range(begin, end) if entries[index].name > position.name), end)
