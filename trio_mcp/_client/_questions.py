"""What a server asks of a client, answered by the user's handlers: the same in both eras.

In the legacy era a question is a request of the server, in the modern era a part of an `InputRequiredResult`.
Which of the two, and what becomes of a refusal, is known elsewhere (`_dispatch`, `_rounds`); here it is a method
and parameters, in plain JSON, and so is the answer.

What is sent for what a user filled in. Plain functions over values; the rules themselves are `_core._forms`.

Spec: 2026-07-28, client/elicitation, "Requested Schema".

A server's questions to the client's user: the user's handler, what it may answer with, and what is made of it.

Nothing here opens a URL or looks at what is behind one.

A server's questions to the client's model: the user's handler, and what it may answer with.

The directories a client lets a server work in: what users give, and what servers are told.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, final, get_args
from urllib.parse import unquote, urlsplit

import attrs
import trio

from .._codec._convert import from_wire, to_wire
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import InvalidData
from .._core._forms import check_tool_results, form_problems
from .._core._uri_template import check_web_url
from .._errors import INVALID_PARAMS, METHOD_NOT_FOUND, LocalProtocolError, RequestError
from .._limits import Limits
from .._revisions import Revision
from ..types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitAction,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ElicitValue,
    ListRootsResult,
    NumberSchema,
    PrimitiveSchemaDefinition,
    RequestedSchema,
    Root,
    RootsCapability,
    SamplingCapability,
    SamplingMessageContentBlock,
    TextContent,
    TitledMultiSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
    URLElicitationRequiredData,
    evolve,
)


def fill_in(content: Mapping[str, object], schema: RequestedSchema) -> dict[str, ElicitValue]:
    """Return what is sent for what was filled in: checked, with the defaults of fields that were left empty.

    `None` is the same as left empty; several choices may be in a set.

    Raises:
        LocalProtocolError: It does not fit. The message names the field and the rule, never what was filled in,
            which is not for logs.
    """
    filled: dict[str, Any] = {}
    for name, field in schema.properties.items():
        value = content.get(name)
        if value is None:
            value = field.default
        if value is not None:
            filled[name] = _plain(value, field)
    problems = [(name, "the form has no such field") for name in content if name not in schema.properties]
    problems += form_problems(schema, filled, quotes=False)
    if problems:
        told = "; ".join(f"{name}: {problem}" for name, problem in problems)
        raise LocalProtocolError(f"the answer does not fit the form: {told}")
    return {name: tuple(value) if is_array(value) else value for name, value in filled.items()}


def _plain(value: object, field: PrimitiveSchemaDefinition) -> object:
    """Return a value as plain JSON has it, if it is of a kind that the field takes."""
    match field:
        case UntitledMultiSelectEnumSchema() | TitledMultiSelectEnumSchema():
            if isinstance(value, (list, tuple, set, frozenset)):
                return list(cast("Iterable[object]", value))
            return value
        case NumberSchema(type="integer") if isinstance(value, float) and value.is_integer():
            return int(value)
        case _:
            return value


ElicitMode: TypeAlias = Literal["form", "url"]
"""How a user can be asked: to fill in a form, or to go to a URL."""

DEFAULT_ELICIT_MODES: Final[tuple[ElicitMode, ...]] = ("form",)
"""A handler must know that it is asked for more than forms, or it might agree to a URL unseen."""

ElicitAnswer: TypeAlias = ElicitResult | Mapping[str, ElicitValue | None] | ElicitAction
"""What a handler of elicitation may return: the result, what was filled in, or only what the user did."""

OnElicit: TypeAlias = Callable[[ElicitRequestParams], ElicitAnswer | Awaitable[ElicitAnswer]]
"""Asks the user."""

OnElicitationComplete: TypeAlias = Callable[[str], object]
"""Called with the id of an elicitation whose user is done at its URL; a returned awaitable is awaited."""


async def elicit(on_elicit: OnElicit, params: ElicitRequestParams) -> ElicitResult:
    """Ask the user's handler, and check what it answers against what was asked.

    Raises:
        LocalProtocolError: The answer does not fit the form, or fills in one where there is none.
        TypeError: The handler returned something else than an answer.
        Others: Whatever the handler raises.
    """
    answer: Any = on_elicit(params)
    if inspect.isawaitable(answer):
        answer = await answer
    await trio.lowlevel.checkpoint()
    if isinstance(answer, ElicitResult):
        result = answer
    elif isinstance(answer, Mapping):
        result = ElicitResult(action="accept", content=answer)  # pyright: ignore[reportUnknownArgumentType] - checked
    elif answer in {"accept", "decline", "cancel"}:
        result = ElicitResult(action=answer)
    else:
        raise TypeError(f"on_elicit returns an ElicitResult, a mapping or an action, not {answer!r:.60}")
    return _fitting(result, params)


def _fitting(result: ElicitResult, params: ElicitRequestParams) -> ElicitResult:
    content: Mapping[str, ElicitValue] | None = None
    if result.action == "accept":
        if isinstance(params, ElicitRequestFormParams):
            content = fill_in(result.content or {}, params.requested_schema)
        elif result.content:
            raise LocalProtocolError("the answer fills in a form, and the user was asked to go to a URL")
    return ElicitResult(meta=result.meta, action=result.action, content=content)


@final
class KnownElicitations:
    """The elicitations by URL whose end a server may still tell of; what it tells of others is ignored.

    Spec: 2025-11-25, client/elicitation, "Completion Notifications for URL Mode Elicitation".

    Args:
        max_open: How many are remembered. Those asked first are forgotten first.
        max_bytes: What their ids may take in memory.
    """

    def __init__(self, max_open: int, max_bytes: int) -> None:
        self._max_open = max_open
        self._max_bytes = max_bytes
        self._bytes = 0
        self._open: OrderedDict[str, None] = OrderedDict()

    def add(self, params: ElicitRequestParams) -> None:
        """The server asks the user to go to a URL; it may tell of the end before the user has answered."""
        if isinstance(params, ElicitRequestURLParams) and params.elicitation_id is not None:
            self.finish(params.elicitation_id)
            self._open[params.elicitation_id] = None
            self._bytes += _weight(params.elicitation_id)
            while len(self._open) > self._max_open or self._bytes > self._max_bytes:
                self.finish(next(iter(self._open)))

    def add_required(self, data: object) -> None:
        """The server refuses a request until the user has been at some URLs: error -32042."""
        try:
            required = from_wire(data, URLElicitationRequiredData)
        except InvalidData:
            return  # the caller gets the error as it is
        for params in required.elicitations:
            self.add(params)

    def finish(self, elicitation_id: str) -> bool:
        """The user is done. Returns whether the elicitation was known and not done before."""
        if elicitation_id not in self._open:
            return False
        del self._open[elicitation_id]
        self._bytes -= _weight(elicitation_id)
        return True


def _weight(id: str) -> int:
    """Return what an id takes in memory at most."""
    return 256 + 4 * len(id)


SampleAnswer: TypeAlias = (
    CreateMessageResult | str | SamplingMessageContentBlock | Sequence[SamplingMessageContentBlock]
)
"""What a handler of sampling may return: the whole result, or only what the assistant says."""

OnSample: TypeAlias = Callable[[CreateMessageRequestParams], SampleAnswer | Awaitable[SampleAnswer]]
"""Asks the model. Raise ``RequestError(-1, ...)`` if the user says no (2025-11-25, client/sampling)."""

UNNAMED_MODEL: Final = "unspecified"
"""A result must name the model, and a handler that returns only what was said has not."""

_BLOCKS: Final[tuple[type, ...]] = get_args(SamplingMessageContentBlock)


async def sample(on_sample: OnSample, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Ask the user's handler.

    Raises:
        TypeError: The handler returned something else than an answer.
        Others: Whatever the handler raises.
    """
    answer: Any = on_sample(params)
    if inspect.isawaitable(answer):
        answer = await answer
    await trio.lowlevel.checkpoint()
    if isinstance(answer, CreateMessageResult):
        return answer
    content: Any = TextContent(text=answer) if isinstance(answer, str) else answer
    several = isinstance(content, (list, tuple))
    blocks = cast("Sequence[object]", content if several else (content,))
    if not all(isinstance(block, _BLOCKS) for block in blocks):
        raise TypeError(f"on_sample returns a CreateMessageResult, text or content, not {answer!r:.60}")
    return CreateMessageResult(role="assistant", content=content, model=UNNAMED_MODEL)


RootLike: TypeAlias = Root | str | os.PathLike[str]
"""A root, its ``file://`` URI, or the path of a directory or file, which is made absolute."""

Roots: TypeAlias = Iterable[RootLike] | Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
"""The roots, or what returns them whenever the server asks."""

FILE_SCHEME: Final = "file://"


def _as_root(given: object) -> Root:
    """Make a root of what a user gave.

    Raises:
        TypeError: It is nothing a root can be made of.
        ValueError: It is no ``file://`` URI, or one that climbs.

    Spec: 2025-11-25, client/roots, "Data Types" and "Security Considerations".
    """
    if isinstance(given, Root):
        root = given
    elif isinstance(given, str) and given.lower().startswith(FILE_SCHEME):
        root = Root(uri=given)
    elif isinstance(given, (str, os.PathLike)) and "://" not in os.fspath(given):
        path = Path(os.path.abspath(cast("str | os.PathLike[str]", given)))  # noqa: PTH100 - resolve() follows links
        root = Root(uri=path.as_uri(), name=path.name or None)
    elif isinstance(given, str):
        raise ValueError(f"a root must be a file:// URI, not {given!r}")
    else:
        raise TypeError(f"a root is a Root, a file:// URI or a path, not {given!r:.60}")
    _check(root.uri)
    return root


def _check(uri: str) -> None:
    if not uri.lower().startswith(FILE_SCHEME):
        raise ValueError(f"a root must be a file:// URI, not {uri!r}")
    path = unquote(urlsplit(uri).path)
    if "\0" in path or ".." in path.replace("\\", "/").split("/"):
        raise ValueError(f"a root must not climb out of itself: {uri!r}")


@final
class RootList:
    """The roots of a client, which can change.

    Args:
        roots: What the user gave.

    Raises:
        TypeError: One of them is no root.
        ValueError: One of them is no ``file://`` URI, or one that climbs.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots: tuple[Root, ...] | Callable[[], object] = ()
        self.replace(roots)

    def replace(self, roots: Roots) -> None:
        """Put other roots in the place of these, or none of them if one is bad; the errors are as on creation."""
        self._roots = roots if callable(roots) else _as_roots(roots)

    async def list(self) -> ListRootsResult:
        """Return the roots as they are now."""
        roots: object = self._roots
        if callable(roots):
            roots = roots()
            if inspect.isawaitable(roots):
                roots = await roots
        await trio.lowlevel.checkpoint()
        return ListRootsResult(roots=_as_roots(roots))


def _as_roots(given: object) -> tuple[Root, ...]:
    if isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable):
        raise TypeError(f"roots are several, in an iterable, not {given!r:.60}")
    return tuple(_as_root(one) for one in cast("Iterable[object]", given))


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
