"""`WWW-Authenticate`: what a server wants to see before it answers, read and written.

Reading takes what can be read and drops the rest: a challenge is a hint, and a client without one has other ways
to find out. It takes linear time, whatever comes.

Spec: RFC 9110, section 11; RFC 6750, section 3; RFC 9728, section 5.1; RFC 9449, section 7.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, final

import attrs

BEARER: Final = "bearer"
DPOP: Final = "dpop"

MAX_CHALLENGES: Final = 32
"""How many challenges of one response are looked at."""

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_END: Final = r"(?=[ \t]*+(?:,|$))"
_ITEM: Final = re.compile(
    # A parameter. A value without quotes may hold what would need them: servers send bare URLs.
    rf'(?P<name>{_TOKEN})[ \t]*+=[ \t]*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<bare>[^\s,"=][^\s,"]*+)){_END}'
    # A scheme, perhaps with credentials instead of parameters.
    rf"|(?P<scheme>{_TOKEN})(?:[ ]++(?P<token68>[A-Za-z0-9\-._~+/]++=*+){_END})?(?=[ \t,]|$)",
    re.DOTALL,
)
_BETWEEN: Final = re.compile(r"[ \t,]*+")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_UNSENDABLE: Final = re.compile(r"[^\x20-\x7e]")


@final
@attrs.frozen
class Challenge:
    """One challenge of a server.

    Attributes:
        scheme: The scheme, in lower case, such as ``bearer``.
        parameters: Its parameters; their names are in lower case, and the first of equal names counts.
        token: What comes instead of parameters in some schemes.
    """

    scheme: str
    parameters: Mapping[str, str] = attrs.field(factory=lambda: MappingProxyType({}))
    token: str | None = None

    def get(self, name: str) -> str | None:
        """Return a parameter, if the challenge has it."""
        return self.parameters.get(name)

    @property
    def scopes(self) -> frozenset[str] | None:
        """The scopes that it asks for; `None` if it names none."""
        scope = self.get("scope")
        return None if scope is None else frozenset(scope.split())


def parse_challenges(fields: Iterable[str]) -> tuple[Challenge, ...]:
    """Read the challenges of a response, in their order.

    Args:
        fields: The values of all `WWW-Authenticate` fields.
    """
    found: list[Challenge] = []
    for field in fields:
        found += _parse(field)
        if len(found) >= MAX_CHALLENGES:
            break
    return tuple(found[:MAX_CHALLENGES])


def _parse(field: str) -> list[Challenge]:
    found: list[Challenge] = []
    parameters: dict[str, str] = {}
    position = 0
    while len(found) <= MAX_CHALLENGES:
        between = _BETWEEN.match(field, position)
        assert between is not None
        item = _ITEM.match(field, between.end())
        if item is None:
            break  # the rest cannot be read
        position = item.end()
        if item["scheme"] is not None:
            parameters = {}
            found.append(Challenge(item["scheme"].lower(), MappingProxyType(parameters), item["token68"]))
        elif found:
            quoted = item["quoted"]
            parameters.setdefault(
                item["name"].lower(), item["bare"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
            )
    return found


def our_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return what the challenges for access tokens say, as one; `None` if there is none.

    Servers that take tokens of two kinds send a challenge for each. The first one with an error or a parameter
    counts, and what it lacks is taken from the others.
    """
    ours = [challenge for challenge in challenges if challenge.scheme in (BEARER, DPOP)]
    if not ours:
        return None
    first = next((challenge for challenge in ours if challenge.get("error")), ours[0])
    merged = dict(first.parameters)
    for challenge in ours:
        for name in ("resource_metadata", "scope"):
            value = challenge.get(name)
            if value is not None:
                merged.setdefault(name, value)
    return Challenge(first.scheme, MappingProxyType(merged))


def format_challenge(scheme: str, parameters: Mapping[str, str | None]) -> str:
    """Write a challenge, its values as quoted strings. Characters that no field may have become ``?``.

    Args:
        scheme: The scheme, as it is sent: ``Bearer`` or ``DPoP``.
        parameters: The parameters, in their order; those that are `None` are left out.
    """
    written = ", ".join(
        '{}="{}"'.format(name, _UNSENDABLE.sub("?", value).replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in parameters.items()
        if value is not None
    )
    return f"{scheme} {written}" if written else scheme
