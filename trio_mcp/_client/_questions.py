"""What a server asks of a client, answered by the user's handlers: the same in both eras.

In the legacy era a question is a request of the server, in the modern era a part of an `InputRequiredResult`.
Which of the two, and what becomes of a refusal, is known elsewhere (`_dispatch`, `_rounds`); here it is a method
and parameters, in plain JSON, and so is the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias, TypeVar, final

import attrs
import trio

from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._codec._json import is_object
from .._core._conversations import check_tool_results
from .._core._uris import check_web_url
from .._errors import INVALID_PARAMS, METHOD_NOT_FOUND, RequestError
from .._limits import Limits
from .._revisions import Revision
from ..types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    RootsCapability,
    SamplingCapability,
    evolve,
)
from ._elicitation import DEFAULT_ELICIT_MODES, ElicitMode, KnownElicitations, OnElicit, elicit
from ._roots import RootList
from ._sampling import OnSample, sample

__all__ = ["Question", "QuestionHandlers", "Questions", "RequestHandler"]

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers a question of the server: parameters in, result out, both as plain JSON."""

Question: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
"""A question that may be asked: call it, and it is answered."""

MAX_FIELDS: Final = 1_000
"""Fields of a form that a user is asked to fill in."""

_T = TypeVar("_T")


@final
@attrs.frozen(kw_only=True)
class QuestionHandlers:
    """The user's handlers for what a server may ask.

    Attributes:
        on_sample: Asks the model.
        sampling_tools: Whether the model may be given tools.
        sampling_context: Whether `CreateMessageRequestParams.include_context` is heeded.
        on_elicit: Asks the user.
        elicit_modes: How the user can be asked.
        roots: The roots.
        others: Who answers which other question, by method; also one of those above, in plain JSON.
    """

    on_sample: OnSample | None = None
    sampling_tools: bool = False
    sampling_context: bool = False
    on_elicit: OnElicit | None = None
    elicit_modes: Collection[ElicitMode] = DEFAULT_ELICIT_MODES
    roots: RootList | None = None
    others: Mapping[str, RequestHandler] = attrs.field(factory=dict[str, RequestHandler])

    def __attrs_post_init__(self) -> None:
        modes: Collection[str] = self.elicit_modes
        if isinstance(modes, str) or not modes or set(modes) - {"form", "url"}:
            raise ValueError(f"elicit_modes are 'form', 'url' or both, not {modes!r}")

    def declared(self, base: ClientCapabilities) -> ClientCapabilities:
        """Return the capabilities that follow from the handlers, and those that were declared by hand."""
        changes: dict[str, object] = {}
        if self.on_sample is not None and base.sampling is None:
            changes["sampling"] = SamplingCapability(
                context={} if self.sampling_context else None, tools={} if self.sampling_tools else None
            )
        if self.on_elicit is not None and base.elicitation is None:
            changes["elicitation"] = ElicitationCapability(
                form={} if "form" in self.elicit_modes else None, url={} if "url" in self.elicit_modes else None
            )
        if self.roots is not None and base.roots is None:
            changes["roots"] = RootsCapability(list_changed=True)
        return evolve(base, **changes)


@final
class Questions:
    """Finds who answers a question, and asks them.

    Args:
        handlers: The user's.
        capabilities: What the client declares; what goes beyond is refused.
        limits: How many elicitations are remembered, and what they may take in memory.

    Attributes:
        elicitations: The elicitations by URL whose end has not been told.
    """

    def __init__(self, handlers: QuestionHandlers, capabilities: ClientCapabilities, limits: Limits) -> None:
        self._handlers = handlers
        self._capabilities = capabilities
        self.elicitations: Final = KnownElicitations(
            limits.max_open_elicitations, limits.max_remembered_bytes // 8
        )

    @property
    def roots(self) -> RootList | None:
        """The roots, if the client has any to tell of."""
        return self._handlers.roots

    @property
    def are_any(self) -> bool:
        """Whether a server can ask anything."""
        handlers = self._handlers
        asked = (handlers.on_sample, handlers.on_elicit, handlers.roots)
        return bool(handlers.others) or any(handler is not None for handler in asked)

    def knows(self, method: str) -> bool:
        """Whether there is a handler for a question."""
        handlers = self._handlers
        return (
            method in handlers.others
            or (method == "sampling/createMessage" and handlers.on_sample is not None)
            or (method == "elicitation/create" and handlers.on_elicit is not None)
            or (method == "roots/list" and handlers.roots is not None)
        )

    def prepare(self, method: str, params: Mapping[str, Any] | None, revision: Revision) -> Question:
        """Look whether a question may be asked. Nobody is asked yet.

        Args:
            method: What is asked.
            params: Its parameters.
            revision: In whose terms to answer.

        Raises:
            RequestError: There is no handler, what is asked goes beyond what the client has declared, or the
                parameters are none.
        """
        given = params or {}
        handlers = self._handlers
        handler = handlers.others.get(method)
        if handler is not None:
            return functools.partial(_ask_plainly, handler, given)
        if method == "sampling/createMessage" and handlers.on_sample is not None:
            sampling = _read(given, CreateMessageRequestParams)
            self._check_sampling(sampling)
            return functools.partial(_write, sample, handlers.on_sample, sampling, revision)
        if method == "elicitation/create" and handlers.on_elicit is not None:
            _check_fields(given)
            elicitation: ElicitRequestParams = _read(given, ElicitRequestParams)
            self._check_elicitation(elicitation)
            self.elicitations.add(elicitation)
            return functools.partial(_write, elicit, handlers.on_elicit, elicitation, revision)
        if method == "roots/list" and handlers.roots is not None:
            return functools.partial(_list_roots, handlers.roots, revision)
        raise RequestError(METHOD_NOT_FOUND, f"this client has no method {method}")

    def _check_sampling(self, params: CreateMessageRequestParams) -> None:
        declared = self._capabilities.sampling
        if (params.tools or params.tool_choice is not None) and (declared is None or declared.tools is None):
            # 2025-11-25, client/sampling, "Capabilities".
            raise RequestError(INVALID_PARAMS, "this client has not declared sampling.tools")
        try:
            check_tool_results(params.messages)
        except ValueError as error:
            # 2025-11-25, client/sampling, "Error Handling".
            raise RequestError(INVALID_PARAMS, str(error)) from error

    def _check_elicitation(self, params: ElicitRequestParams) -> None:
        """Refuse a mode that was not declared, and a URL that is not of the web: the user is not asked then.

        Spec: 2025-11-25, client/elicitation, "Error Handling" and "Safe URL Handling".
        """
        declared = self._capabilities.elicitation or ElicitationCapability()
        if isinstance(params, ElicitRequestFormParams):
            is_declared = declared.form is not None or declared.url is None
        else:
            is_declared = declared.url is not None
        if not is_declared:
            raise RequestError(INVALID_PARAMS, f"this client has not declared elicitation.{params.mode}")
        if isinstance(params, ElicitRequestURLParams):
            try:
                check_web_url(params.url)
            except ValueError as error:
                raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error


def _check_fields(params: Mapping[str, Any]) -> None:
    """Refuse a form that nobody would ever fill in, before it is read.

    Raises:
        RequestError: It has too many fields.
    """
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if is_object(schema) else None
    if is_object(fields) and len(fields) > MAX_FIELDS:
        problem = f"a form of {len(fields)} fields; clients are asked for {MAX_FIELDS} at most"
        raise RequestError(INVALID_PARAMS, f"invalid params: requestedSchema.properties: {problem}")


def _read(params: Mapping[str, Any], kind: Any) -> Any:
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error


async def _ask_plainly(handler: RequestHandler, params: Mapping[str, Any]) -> Mapping[str, Any]:
    answer = await handler(params)
    await trio.lowlevel.checkpoint()
    return answer


async def _write(
    ask: Callable[[Callable[..., Any], _T], Awaitable[object]],
    handler: Callable[..., Any],
    params: _T,
    revision: Revision,
) -> dict[str, Any]:
    answer = await ask(handler, params)
    await trio.lowlevel.checkpoint()
    return to_wire(answer, revision)


async def _list_roots(roots: RootList, revision: Revision) -> dict[str, Any]:
    return to_wire(await roots.list(), revision)
