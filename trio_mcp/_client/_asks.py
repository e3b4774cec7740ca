"""What a host owes its user: which server may ask for what, how often and how much, and a person's decisions.

`AskPolicy` is the host's choice, and `Asks` what one server has asked under it. Between a question that was read
(`_questions`) and the handler that answers it, `Asks.answer` counts, asks the person before and after, and
writes the audit record. It knows neither JSON nor eras.

Spec: 2026-07-28, client/sampling, client/elicitation and client/roots, "Security Considerations".
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, final, get_args

import attrs
import trio

from .. import types
from .._audit import audit
from .._core._rates import RateTable, read_rate, whole_seconds
from .._errors import USER_REJECTED, AskRefused, RequestError
from .._limits import check_seconds, check_whole

_T = TypeVar("_T")


async def called(handler: Callable[..., Any], *arguments: object) -> Any:
    """Call a handler, and wait for what it returns if that can be waited for."""
    answer = handler(*arguments)
    if inspect.isawaitable(answer):
        answer = await answer
    await trio.lowlevel.checkpoint()
    return answer


AskKind: TypeAlias = Literal["sampling", "form", "url", "roots"]
"""What a server asks for: an answer of the model, a form filled in, a visit to a URL, the roots."""

ASK_KINDS: Final[tuple[AskKind, ...]] = get_args(AskKind)

METHODS_OF: Final[dict[AskKind, str]] = {
    "sampling": "sampling/createMessage",
    "form": "elicitation/create",
    "url": "elicitation/create",
    "roots": "roots/list",
}

AskParams: TypeAlias = types.CreateMessageRequestParams | types.ElicitRequestParams | None
"""The parameters of an ask; `None` for roots."""

AskAnswer: TypeAlias = types.CreateMessageResult | types.ElicitResult | types.ListRootsResult
"""The answer to one."""


@final
@attrs.frozen(kw_only=True)
class Ask:
    """A question of a server, as a person is to decide about it.

    Attributes:
        server: The server: its name in the group; of a single client, its URL without secrets, the program that
            was started, or the name of a server in this process. Not what the server calls itself.
        kind: What it asks for.
        params: What it asks. `max_tokens` is already what the policy leaves of it.
        number: How many asks of this server there were, with this one.
        tokens: How many tokens it was granted in all, with those of this ask.
    """

    server: str
    kind: AskKind
    params: AskParams
    number: int
    tokens: int


ReviewAsk: TypeAlias = Callable[
    [Ask], Awaitable[bool | types.CreateMessageRequestParams | types.ElicitRequestParams | None]
]
"""A person's decision about an ask before it is answered: ``True`` lets it pass, ``False`` and ``None`` refuse
it, and parameters of the same class take the place of those that were asked."""

ReviewAnswer: TypeAlias = Callable[[Ask, AskAnswer], Awaitable[bool | AskAnswer | None]]
"""A person's decision about an answer before the server gets it, likewise."""


def _check_allow(given: object) -> frozenset[AskKind]:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"allow must be several of {', '.join(ASK_KINDS)}, in a collection, not {given!r:.60}")
    for kind in cast("Collection[object]", given):
        if kind not in ASK_KINDS:
            raise ValueError(f"allow: {kind!r:.60} is none of {', '.join(ASK_KINDS)}")
    return frozenset(cast("Collection[AskKind]", given))


def _whole(default: int, at_least: int) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check_whole(attribute.name, value, at_least=at_least)

    return attrs.field(default=default, validator=check)


@final
@attrs.frozen(kw_only=True, eq=False)
class AskPolicy:
    """What a server may ask of this client, for `open_client` and `open_clients`.

    It is about ``sampling/createMessage``, ``elicitation/create`` and ``roots/list``, in every revision, and
    whichever handler answers them. Each server is counted by itself, as long as the client or the group is open.
    What is refused is answered at once: an elicitation with ``decline``, everything else with the error -1, which
    in 2026-07-28 the request raises that the server had asked about (`AskRefused`). Each ask and its outcome is a
    record of the logger ``trio_mcp.audit``.

    Attributes:
        allow: The kinds that it may ask for at all; others are not declared. Default: all that have a handler.
        rate: How often it may ask, such as ``"10/minute"``; as many at once as in one period. `None` for as often
            as it likes. Default: ``"60/minute"``.
        max_asks: How often it may ask in all. Default: 1,000.
        max_pending: Asks that wait for a decision or an answer at the same time; further ones are refused.
            Default: 10. An ask that a handler's own work leads to counts beside the one that it answers.
        max_tokens_per_ask: To how many tokens ``maxTokens`` of one sampling is lowered. A sampling with less than
            one is refused, as some models take that for no limit. Default: 16,384.
        max_tokens: How many tokens all samplings together may be granted; a last one gets what is left, and
            further ones are refused. What was granted counts, used or not; a sampling that was refused costs
            nothing. Default: 1,000,000.
        ask_timeout: Seconds after which an ask is given up, decisions and the handler's work together: an
            elicitation is then answered with ``cancel``, everything else with the error -1. Default: 600.
        review_ask: Decides about each ask before a handler sees it: see `ReviewAsk`. Cancelled when its ask is
            cancelled or given up. Several may run at once; a person at one terminal wants a `trio.Lock`. Default:
            every ask passes.
        review_answer: Decides about each answer before the server gets it: see `ReviewAnswer`. It is not called
            for an elicitation that the user has declined or cancelled. Default: every answer passes.

    Raises:
        TypeError: A value is of the wrong type.
        ValueError: A value is out of bounds, or no kind or rate.

    Spec: 2026-07-28, client/sampling, client/elicitation, client/roots, "Security Considerations".
    """

    allow: Collection[AskKind] = attrs.field(default=ASK_KINDS, converter=_check_allow)
    rate: str | None = "60/minute"
    max_asks: int = _whole(1_000, 0)
    max_pending: int = _whole(10, 1)
    max_tokens_per_ask: int = _whole(16_384, 1)
    max_tokens: int = _whole(1_000_000, 0)
    ask_timeout: float = 600.0
    review_ask: ReviewAsk | None = None
    review_answer: ReviewAnswer | None = None

    def __attrs_post_init__(self) -> None:
        check_seconds("ask_timeout", self.ask_timeout, may_be_zero=False)
        if self.rate is not None:
            read_rate("rate", self.rate)
        for name, review in (("review_ask", self.review_ask), ("review_answer", self.review_answer)):
            if review is not None and not callable(review):
                raise TypeError(f"{name} must be an async function, not {review!r:.60}")


@final
class Asks:
    """What one server has asked under a policy.

    Args:
        policy: The policy.
        server: The server's name for people.

    Attributes:
        kinds: The kinds that the server may ever ask for.
    """

    def __init__(self, policy: AskPolicy, server: str) -> None:
        self._policy = policy
        self._server = server
        kinds: set[AskKind] = set(policy.allow) if policy.max_asks else set()
        if not policy.max_tokens:
            kinds.discard("sampling")
        self.kinds: Final = frozenset(kinds)
        self._rates = RateTable(math.inf, 1) if policy.rate is None else read_rate("rate", policy.rate).table()
        self._asked = 0
        self._pending = 0
        self._tokens = 0

    def restricted(self, given: types.ClientCapabilities) -> types.ClientCapabilities:
        """Return capabilities without what the server may never ask for."""
        changes: dict[str, object] = {}
        if "sampling" not in self.kinds:
            changes["sampling"] = None
        if "roots" not in self.kinds:
            changes["roots"] = None
        modes = given.elicitation
        if modes is not None:
            has_form = "form" in self.kinds and (modes.form is not None or modes.url is None)
            has_url = "url" in self.kinds and modes.url is not None
            changes["elicitation"] = (
                types.evolve(
                    modes, form=(modes.form or {}) if has_form else None, url=modes.url if has_url else None
                )
                if has_form or has_url
                else None
            )
        return types.evolve(given, **changes)

    def refused(self, method: str, error: RequestError) -> RequestError:
        """Record a question that was refused before it became an ask, and return its error."""
        audit("ask", error.message, code=error.code, method=method, server=self._server)
        return error

    async def answer(
        self, kind: AskKind, params: Any, *, handle: Callable[[Any], Awaitable[_T]], fit: Callable[[Any, Any], _T]
    ) -> _T:
        """Let a handler answer a question, if the policy and the person let it.

        Args:
            kind: What is asked for.
            params: The question.
            handle: Answers it.
            fit: Checks an answer that a person has changed, given that and the question.

        Raises:
            AskRefused: It was refused, and is no elicitation.
            Others: What the handler and the person's callables raise.
        """
        one = _OneAsk(self._policy, self._server, kind, params)
        self._asked += 1
        one.number = self._asked
        self._pending += 1
        try:
            self._admit(one)
            with trio.move_on_after(self._policy.ask_timeout):
                return await self._reviewed(one, handle, fit)
            one.action = "cancel"
            raise one.refusal("ask_timeout", f"nobody decided within {self._policy.ask_timeout:g} s")
        except AskRefused as error:
            one.record("refused", error.message, code=error.code)
            if kind not in {"form", "url"}:
                raise
            refused: Any = types.ElicitResult(action=one.action)
            await trio.lowlevel.checkpoint()
            return cast("_T", refused)  # which `fit` returns, too
        except BaseException as error:
            code = error.code if isinstance(error, RequestError) else None
            if _is_cancelled(error):
                one.record("cancelled")
            else:  # its text may quote what the user or the model has said
                one.record("refused" if code == USER_REJECTED else "failed", type(error).__name__, code=code)
            raise
        finally:
            self._pending -= 1

    def _admit(self, one: _OneAsk) -> None:
        """Check the limits of the policy, and grant the tokens.

        Raises:
            AskRefused: One of them is met.
        """
        policy = self._policy
        if one.kind not in self.kinds:
            raise one.refusal("allow", "it is not allowed")
        if self._asked > policy.max_asks:
            raise one.refusal("max_asks", f"there were {policy.max_asks} asks")
        if self._pending > policy.max_pending:
            raise one.refusal("max_pending", f"{policy.max_pending} asks are open")
        if one.kind == "sampling" and self._tokens >= policy.max_tokens:
            raise one.refusal("max_tokens", f"all {policy.max_tokens} tokens were granted")
        wait = self._rates.take("", trio.current_time())
        if wait:
            raise one.refusal("rate", f"there may be {policy.rate}; try again in {whole_seconds(wait)} s")
        self._grant(one)

    def _grant(self, one: _OneAsk) -> None:
        """Lower the tokens of a sampling to what is left. Those that it was granted before are given back.

        Raises:
            AskRefused: It is to have no tokens: to some models zero, or less, means as many as they like.
        """
        if one.kind != "sampling":
            return
        if one.params.max_tokens < 1:
            raise one.refusal("max_tokens_per_ask", "maxTokens must be at least 1")
        self._tokens -= one.tokens
        left = min(self._policy.max_tokens_per_ask, self._policy.max_tokens - self._tokens)
        one.params = types.evolve(one.params, max_tokens=min(one.params.max_tokens, left))
        one.tokens = one.params.max_tokens
        self._tokens += one.tokens

    async def _reviewed(
        self, one: _OneAsk, handle: Callable[[Any], Awaitable[_T]], fit: Callable[[Any, Any], _T]
    ) -> _T:
        policy = self._policy
        is_passed = False
        try:
            if policy.review_ask is not None:
                changed = one.decided("review_ask", await called(policy.review_ask, self._shown(one)), one.params)
                if changed is not one.params:
                    one.params = changed
                    self._grant(one)
            is_passed = True
        finally:
            if not is_passed:
                self._tokens -= one.tokens
                one.tokens = 0
        one.record("allowed")
        answer = await handle(one.params)
        if policy.review_answer is None or (isinstance(answer, types.ElicitResult) and answer.action != "accept"):
            return self._answered(one, answer)
        decision = await called(policy.review_answer, self._shown(one), answer)
        reviewed = one.decided("review_answer", decision, answer)
        return self._answered(one, answer if reviewed is answer else fit(reviewed, one.params))

    def _shown(self, one: _OneAsk) -> Ask:
        return Ask(server=self._server, kind=one.kind, params=one.params, number=one.number, tokens=self._tokens)

    @staticmethod
    def _answered(one: _OneAsk, answer: _T) -> _T:
        one.record("answered", action=answer.action if isinstance(answer, types.ElicitResult) else None)
        return answer


def _is_cancelled(error: BaseException) -> bool:
    """Tell whether an exception is a cancellation, or a group of nothing else: a nursery raises these."""
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def asks_under(policy: object, server: str) -> Asks | None:
    """Return what a server has asked under a policy: nothing yet. `None` without a policy.

    Raises:
        TypeError: It is no policy.
    """
    if policy is None:
        return None
    if not isinstance(policy, AskPolicy):
        raise TypeError(f"policy must be an AskPolicy, not {policy!r:.60}")
    return Asks(policy, server)


@final
@attrs.define(eq=False)
class _OneAsk:
    """One ask, while it is being answered.

    Attributes:
        params: The question, as it is now.
        number: How many there were.
        tokens: How many it was granted.
        changed: What a person has changed: the ask, the answer, or both.
        action: What an elicitation is answered with if it is refused.
    """

    policy: AskPolicy
    server: str
    kind: AskKind
    params: Any
    number: int = attrs.field(default=0, init=False)
    tokens: int = attrs.field(default=0, init=False)
    changed: str | None = attrs.field(default=None, init=False)
    action: types.ElicitAction = attrs.field(default="decline", init=False)
    _limit: str | None = attrs.field(default=None, init=False)

    def refusal(self, limit: str, why: str) -> AskRefused:
        """Return the error for a refusal, and remember what has decided."""
        self._limit = limit
        return AskRefused(USER_REJECTED, f"{METHODS_OF[self.kind]} was refused: {why} ({limit})")

    def decided(self, name: str, decision: object, subject: Any) -> Any:
        """Return what a person has let pass: the subject, or what it was changed to.

        Raises:
            AskRefused: It was refused.
            TypeError: The decision is none.
        """
        if decision is True:
            return subject
        if decision is False or decision is None:
            self._limit = name
            raise AskRefused(USER_REJECTED, f"the user rejected {METHODS_OF[self.kind]}")
        if subject is None or not isinstance(decision, type(subject)):
            what = "" if subject is None else f", or a {type(subject).__name__}"
            raise TypeError(f"{name} must return True, False or None{what}, not {decision!r:.60}")
        if decision is not subject:
            part = name.removeprefix("review_")
            self.changed = part if self.changed is None else f"{self.changed}, {part}"
        return decision

    def record(
        self, outcome: str, reason: str | None = None, *, code: int | None = None, action: str | None = None
    ) -> None:
        """Write the audit record."""
        audit(
            "ask",
            reason,
            outcome=outcome,
            code=code,
            limit=self._limit,
            method=METHODS_OF[self.kind],
            server=self.server,
            kind=self.kind,
            ask=self.number,
            tokens=self.tokens if self.kind == "sampling" else None,
            changed=self.changed,
            action=action,
        )
