"""Who may use a tool, a resource or a prompt: by scopes, or by what a function says of the principal; how often.

What somebody may not use is not listed for them, and refused when it is used. Over HTTP the endpoint refuses it
first, where more scopes can help (`_endpoint._authorization`). What is used too often is refused with the time
after which it may be used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from .._channel import Origin
from .._core._rates import read_rate, whole_seconds
from .._errors import INVALID_REQUEST, SERVER_BUSY, RequestError
from .._logs import Log
from .._oauth._principal import OFFLINE, Principal, as_principal
from .._peer._exchange import Exchange, audit_refusal

_log: Final = Log("trio_mcp.authorization")


@final
@attrs.frozen(kw_only=True)
class ScopeRule:
    """Who may use something, where a set of scopes does not say it all: ``@server.tool(scopes=ScopeRule(…))``.

    Attributes:
        scopes: The scopes that each request needs, all of them.
        of_request: Returns the scopes that one request needs besides: a plain function of its parameters as they
            came, which nothing has checked, such as ``name`` and ``arguments``, or the ``uri`` of a resource.
            If it fails, the request is refused.
        is_listed: Whether it is listed for everybody. Default: for those who have `scopes`.

    Raises:
        TypeError: `scopes` is a string, or `of_request` is async.
    """

    scopes: Collection[str] = attrs.field(default=(), kw_only=False)
    of_request: Callable[[Mapping[str, Any]], Collection[str]] | None = None
    is_listed: bool = False

    def __attrs_post_init__(self) -> None:
        _check_names(self.scopes)
        _check_plain(self.of_request)


Scopes: TypeAlias = Collection[str] | Callable[[Principal | None], bool] | ScopeRule
"""Who may use something: the scopes that a principal needs, all of them; or a function of the principal, which is
`None` for an anonymous client, and returns whether it may; or a `ScopeRule`. Over stdio and in memory, where a
client is whoever has started the server, nothing is asked."""


@final
@attrs.frozen
class Permit:
    """Who may use one thing.

    Attributes:
        scopes: The scopes that it needs.
        decide: Says whether a principal may use it; `None` if the scopes alone decide.
        rule: What else is needed, and when it is listed.
    """

    scopes: frozenset[str]
    decide: Callable[[Principal | None], bool] | None = None
    rule: ScopeRule | None = None

    def of(self, params: Mapping[str, Any] | None) -> Permit:
        """Return who may make a request with these parameters; `None` for any."""
        if self.rule is None or self.rule.of_request is None or params is None:
            return self
        try:
            more = self.rule.of_request(params)
            _check_names(more)
        except Exception:
            # The boundary of the user's code. Who may do it is not known, so nobody may.
            _log.exception("the function for scopes failed: %r", self.rule.of_request)
            return Permit(self.scopes, lambda _: False)
        return Permit(self.scopes | frozenset(more), rule=self.rule)

    def shows(self, origin: Origin | None) -> bool:
        """Whether it is listed for whoever has sent a message."""
        return (self.rule is not None and self.rule.is_listed) or self.allows(origin)

    def allows(self, origin: Origin | None) -> bool:
        """Whether it may be used by whoever has sent a message."""
        if origin is None:
            return True
        principal = as_principal(origin.principal)
        if self.decide is None:
            return self.lacking(principal) is None
        decision = cast("object", self.decide(principal))
        if isinstance(decision, Awaitable):  # which would be true, whatever it is about to say
            if isinstance(decision, Coroutine):
                decision.close()
            raise TypeError("the function for scopes must not be async: it has to return a bool at once")
        return bool(decision)

    def lacking(self, principal: Principal | None) -> frozenset[str] | None:
        """Return its scopes, if a principal lacks any of them; `None` if not, and if no scope would help."""
        has = frozenset[str]() if principal is None else principal.scopes
        return None if self.decide is not None or self.scopes <= has else self.scopes

    def refusal(self, unknown: RequestError, origin: Origin | None) -> RequestError:
        """Return the error for who may not use it.

        Args:
            unknown: The error for what does not exist. Where no scope would help, it shows no more than that.
            origin: Who has sent the request.
        """
        if self.decide is not None:
            return unknown
        needed = sorted(self.scopes)
        principal = None if origin is None else origin.principal
        if principal is None:
            why = "this server asks nobody for a token (it has no auth=), so nobody has scopes"
        elif not isinstance(principal, Principal):
            why = "authenticate= of this server says who its clients are by a str, which has none: by a Principal"
        else:
            # Over HTTP such a request was refused with 403 before, which tells the client to have another token.
            why = "a connection keeps those that it was begun with: connect again with them"
        reason = f"this needs the scopes {', '.join(needed)}, and {why}"
        return RequestError(INVALID_REQUEST, reason, {"scopes": needed})


def read_scopes(scopes: Scopes | None) -> Permit | None:
    """Return the permit that the option `scopes` stands for; `None` if everybody may use it.

    Raises:
        TypeError: It is a string, or neither a function nor a collection of strings, or an async function.
        ValueError: It names ``offline_access``.
    """
    if scopes is None:
        return None
    if isinstance(scopes, ScopeRule):
        return Permit(frozenset(scopes.scopes), rule=scopes)
    if callable(scopes):
        _check_plain(scopes)
        return Permit(frozenset(), scopes)
    _check_names(scopes)
    return Permit(frozenset(scopes)) if scopes else None


def _check_plain(function: Callable[..., object] | None) -> None:
    if iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        raise TypeError(f"the function for scopes must not be async: {function!r}")


def _check_names(given: object) -> None:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"scopes must be several strings or a function, not {given!r}")
    for name in cast("Collection[object]", given):
        if not isinstance(name, str) or not name or " " in name:
            raise TypeError(f"scopes must be strings without spaces, not {name!r}")
        if name == OFFLINE:
            raise ValueError(
                f"scopes: {OFFLINE} is between a client and its authorization server, and no server's"
            )


# How often.


@final
class Throttle:
    """How often each client may use one thing, or a whole server.

    Args:
        rate: The rate, as its author has written it.
        what: What it is, for people.

    Raises:
        TypeError, ValueError: The rate is none; see `read_rate`.
    """

    def __init__(self, rate: object, what: str) -> None:
        read = read_rate("rate", rate)
        self._rate = read.text
        self._table = read.table()
        self._what = what

    def pass_by(self, client: str, exchange: Exchange) -> None:
        """Count one use of a client, by a request.

        Raises:
            RequestError: It has used it too often. The data has the seconds after which it may be used again.
        """
        wait = whole_seconds(self._table.take(client, trio.current_time()))
        if wait:
            reason = f"{self._what} may be used {self._rate} by each client (rate): try again in {wait} s"
            refusal = RequestError(SERVER_BUSY, reason, {"retryAfter": wait})
            refusal.retry_after, refusal.is_own_share = wait, True
            audit_refusal(exchange.request, exchange.origin, refusal, exchange.sink.transport, "rate")
            raise refusal


def read_throttle(rate: object, what: str) -> Throttle | None:
    """Return what the option `rate` stands for; `None` if everybody may use it as often as they like.

    Raises:
        TypeError, ValueError: It is no rate; see `read_rate`.
    """
    return None if rate is None else Throttle(rate, what)
