"""What a server offers of one kind: in order of registration, removable, and switched on and off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

import attrs

__all__ = ["Entry", "Registry"]

_T = TypeVar("_T")


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
