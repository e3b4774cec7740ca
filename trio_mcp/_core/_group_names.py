"""What the tools and prompts of several servers are called together, so that each name leads to one of them.

A name is made of the server's prefix and the server's own name, and of nothing else: not of what other servers
have, or of which of them are ready. So it stays the same as long as the configuration does.

Spec: none; a host chooses these names. APIs of models take letters, digits, ``_`` and ``-``, and 64 of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, final

MAX_NAME: Final = 64
"""Characters of a name."""

DIGITS: Final = 10
"""Hexadecimal digits that tell apart what would be called the same."""

_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MARKED: Final = re.compile(rf"_[0-9a-f]{{{DIGITS}}}\Z")


@final
class GroupNames:
    """Translates names: ``name`` of ``server`` to a name in the group, and back.

    The name in the group is the server's prefix and its own name. It is marked, by ``_`` and ten digits of a hash
    of server and name at its end, if that alone would not do: if the server's own name has other characters than
    letters, digits, ``_`` and ``-`` (``_`` takes their place); if it is longer than 64 characters (then it is
    cut); if it begins with the longer prefix of another server, or a server before it has the same prefix; or if
    it looks marked.

    Args:
        prefixes: The prefix of each server, in the order of the servers. In a prefix, too, ``_`` takes the place
            of what is not allowed.
    """

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._prefixes = {server: _NOT_ALLOWED.sub("_", prefix) for server, prefix in prefixes.items()}
        self._first: dict[str, str] = {}
        for server, prefix in self._prefixes.items():
            self._first.setdefault(prefix, server)

    def name(self, server: str, name: str) -> str:
        """Return what the group calls the tool or prompt that its server calls `name`."""
        prefix = self._prefixes[server]
        whole = prefix + _NOT_ALLOWED.sub("_", name)
        is_exact = whole == prefix + name and len(whole) <= MAX_NAME
        if is_exact and not self.is_marked(whole) and self._owner(whole) == server:
            return whole
        mark = sha256(f"{server}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
        return f"{whole[: MAX_NAME - 1 - DIGITS]}_{mark}"

    def unmarked(self, name: str) -> tuple[str, str] | None:
        """Return the server and its own name for a name in the group; `None` if it is marked, or no server's."""
        server = self._owner(name)
        if server is None:
            return None
        own = name[len(self._prefixes[server]) :]
        return (server, own) if own and self.name(server, own) == name else None

    @staticmethod
    def is_marked(name: str) -> bool:
        """Whether a name in the group ends with a mark, so that only a list can tell what it stands for."""
        return _MARKED.search(name) is not None

    def _owner(self, name: str) -> str | None:
        """Return the server with the longest prefix that a name begins with; the first, if several have it."""
        prefix = max((each for each in self._first if name.startswith(each)), key=len, default=None)
        return None if prefix is None else self._first[prefix]
