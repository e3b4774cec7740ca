"""What a server asks of a client, answered by the user's handlers: forms, sampling, roots, and others.

A question is a method and parameters in plain JSON, and so is its answer: a request of the server in the legacy
era (`_dispatch`), a part of an `InputRequiredResult` in the modern era (`_low_level`). The rules of forms
and tool results are in `_core/_forms`. Nothing here opens a URL.

Spec: 2026-07-28, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, final, get_args
from urllib.parse import unquote, urlsplit

import attrs
import trio

from .. import types
from .._codec._json import InvalidData, is_array, is_object
from .._codec._jsonrpc import from_wire, to_wire
from .._core._forms import check_tool_results, form_problems
from .._core._uri_template import check_web_url
from .._errors import INVALID_PARAMS, METHOD_NOT_FOUND, LocalProtocolError, RequestError
from .._limits import MIB
from .._revisions import METHODS, QUESTIONS, Revision
from ._asks import METHODS_OF, AskKind, Asks, called

# Elicitation.


def fill_in(content: Mapping[str, object], schema: types.RequestedSchema) -> dict[str, types.ElicitValue]:
    """Return the content to send for a filled-in form: checked, with defaults for fields that were left empty.

    `None` is the same as left empty; several choices may be in a set.

    Raises:
        LocalProtocolError: It does not fit. The message names the field and the rule, never the value: that is
            the user's and not for logs.

    Spec: 2026-07-28, client/elicitation, "Requested Schema".
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
        what = "; ".join(f"{name}: {problem}" for name, problem in problems)
        raise LocalProtocolError(f"the answer does not fit the form: {what}")
    return {name: tuple(value) if is_array(value) else value for name, value in filled.items()}


def _plain(value: object, field: types.PrimitiveSchemaDefinition) -> object:
    """Return a value as plain JSON, if it is of a type that the field takes."""
    match field:
        case types.UntitledMultiSelectEnumSchema() | types.TitledMultiSelectEnumSchema():
            if isinstance(value, (list, tuple, set, frozenset)):
                return list(cast("Iterable[object]", value))
            return value
        case types.NumberSchema(type="integer") if isinstance(value, float) and value.is_integer():
            return int(value)
        case _:
            return value


ElicitMode: TypeAlias = Literal["form", "url"]
"""How a user can be asked: to fill in a form, or to visit a URL."""

DEFAULT_ELICIT_MODES: Final[tuple[ElicitMode, ...]] = ("form",)
"""Forms alone: a handler that does not expect URLs might accept one without showing it."""

ElicitAnswer: TypeAlias = types.ElicitResult | Mapping[str, types.ElicitValue | None] | types.ElicitAction
"""What a handler of elicitation may return: the result, the filled-in fields, or only the user's action."""

OnElicit: TypeAlias = Callable[[types.ElicitRequestParams], ElicitAnswer | Awaitable[ElicitAnswer]]
"""Asks the user."""

OnElicitationComplete: TypeAlias = Callable[[str], object]
"""Called with the id of an elicitation whose user is done at its URL; a returned awaitable is awaited."""


async def elicit(on_elicit: OnElicit, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Call the user's handler, and check its answer against the request.

    Raises:
        LocalProtocolError: The answer does not fit the form, or has content where a URL was requested.
        TypeError: The handler returned something else than an answer.
        Others: Whatever the handler raises.
    """
    answer = await called(on_elicit, params)
    if isinstance(answer, types.ElicitResult):
        result = answer
    elif isinstance(answer, Mapping):
        result = types.ElicitResult(action="accept", content=answer)  # pyright: ignore[reportUnknownArgumentType] - checked
    elif answer in {"accept", "decline", "cancel"}:
        result = types.ElicitResult(action=answer)
    else:
        raise TypeError(f"on_elicit must return an ElicitResult, a mapping or an action, not {answer!r:.60}")
    fitting: types.ElicitResult = _fitting(result, params)
    return fitting


def _fitting(result: Any, params: Any) -> Any:
    """Return an answer to a question, checked against it."""
    if isinstance(result, types.ListRootsResult):
        return types.ListRootsResult(roots=_as_roots(result.roots))
    if not isinstance(result, types.ElicitResult):
        return result
    content: Mapping[str, types.ElicitValue] | None = None
    if result.action == "accept":
        if isinstance(params, types.ElicitRequestFormParams):
            content = fill_in(result.content or {}, params.requested_schema)
        elif result.content:
            raise LocalProtocolError("the request was for a URL, and the answer has content; return 'accept'")
    return types.ElicitResult(meta=result.meta, action=result.action, content=content)


MAX_OPEN_ELICITATIONS: Final = 1_000
"""Elicitations by URL that are remembered: far more than one person has been asked and has not answered."""

MAX_ELICITATION_BYTES: Final = 8 * MIB
"""What their ids may take in memory: a server writes them, and each may be as long as a message."""


@final
@attrs.define(eq=False)
class KnownElicitations:
    """The elicitations by URL whose end a server may still notify; notifications for other ids are ignored.

    Spec: 2025-11-25, client/elicitation, "Completion Notifications for URL Mode Elicitation".

    Args:
        max_open: How many are remembered. Those asked first are forgotten first.
        max_bytes: What their ids may take in memory.
    """

    _max_open: int = MAX_OPEN_ELICITATIONS
    _max_bytes: int = MAX_ELICITATION_BYTES
    _bytes: int = attrs.field(default=0, init=False)
    _open: OrderedDict[str, None] = attrs.field(factory=OrderedDict[str, None], init=False)

    def add(self, params: types.ElicitRequestParams) -> None:
        """Remember an elicitation by URL, before the user is asked: the server may notify its end at any time."""
        if isinstance(params, types.ElicitRequestURLParams) and params.elicitation_id is not None:
            self.finish(params.elicitation_id)
            self._open[params.elicitation_id] = None
            self._bytes += _weight(params.elicitation_id)
            while len(self._open) > self._max_open or self._bytes > self._max_bytes:
                self.finish(next(iter(self._open)))

    def add_required(self, data: object) -> None:
        """Remember the elicitations of an error -32042, which refuses a request until URLs were visited."""
        try:
            required = from_wire(data, types.URLElicitationRequiredData)
        except InvalidData:
            return  # the caller gets the error as it is
        for params in required.elicitations:
            self.add(params)

    def finish(self, elicitation_id: str) -> bool:
        """Forget an elicitation that has ended. Returns whether it was known."""
        if elicitation_id not in self._open:
            return False
        del self._open[elicitation_id]
        self._bytes -= _weight(elicitation_id)
        return True


def _weight(id: str) -> int:
    """Return what an id takes in memory at most."""
    return 256 + 4 * len(id)


# Sampling.

SampleAnswer: TypeAlias = (
    types.CreateMessageResult
    | str
    | types.SamplingMessageContentBlock
    | Sequence[types.SamplingMessageContentBlock]
)
"""What a handler of sampling may return: the whole result, or only the content of the message."""

OnSample: TypeAlias = Callable[[types.CreateMessageRequestParams], SampleAnswer | Awaitable[SampleAnswer]]
"""Samples from a model. Raise ``RequestError(-1, ...)`` if the user refuses (2025-11-25, client/sampling)."""

UNNAMED_MODEL: Final = "unspecified"
"""The model in the result if the handler returned only content: a result must name one."""

_BLOCKS: Final[tuple[type, ...]] = get_args(types.SamplingMessageContentBlock)


async def sample(on_sample: OnSample, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """Call the user's handler.

    Raises:
        TypeError: The handler returned something else than an answer.
        Others: Whatever the handler raises.
    """
    answer = await called(on_sample, params)
    if isinstance(answer, types.CreateMessageResult):
        return answer
    content: Any = types.TextContent(text=answer) if isinstance(answer, str) else answer
    several = isinstance(content, (list, tuple))
    blocks = cast("Sequence[object]", content if several else (content,))
    if not all(isinstance(block, _BLOCKS) for block in blocks):
        raise TypeError(f"on_sample must return a CreateMessageResult, text or content, not {answer!r:.60}")
    return types.CreateMessageResult(role="assistant", content=content, model=UNNAMED_MODEL)


# Roots.

RootLike: TypeAlias = types.Root | str | os.PathLike[str]
"""A root, its ``file://`` URI, or the path of a directory or file, which is made absolute."""

Roots: TypeAlias = Iterable[RootLike] | Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]
"""The roots, or what returns them whenever the server asks."""

FILE_SCHEME: Final = "file://"


def _as_root(given: object) -> types.Root:
    """Return the root for a root, a URI or a path.

    Raises:
        TypeError: It is something else.
        ValueError: Its URI is not a ``file://`` URI, or has ``..`` in its path.

    Spec: 2025-11-25, client/roots, "Data Types" and "Security Considerations".
    """
    if isinstance(given, types.Root):
        root = given
    elif isinstance(given, str) and given.lower().startswith(FILE_SCHEME):
        root = types.Root(uri=given)
    elif isinstance(given, (str, os.PathLike)) and "://" not in os.fspath(given):
        path = Path(os.path.abspath(cast("str | os.PathLike[str]", given)))  # noqa: PTH100 - resolve() follows links
        name = os.fsencode(path.name).decode("utf-8", "replace")  # it is shown; the URI has the bytes
        root = types.Root(uri=path.as_uri(), name=name or None)
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
        raise ValueError(f"a root must not have '..' or NUL in its path: {uri!r}")


@final
class RootList:
    """The roots of a client, which can change.

    Args:
        roots: The roots, or what returns them.

    Raises:
        TypeError: One of them is not a root, a URI or a path.
        ValueError: One of them is not a ``file://`` URI, or has ``..`` in its path.
    """

    def __init__(self, roots: Roots) -> None:
        self.replace(roots)

    def replace(self, roots: Roots) -> None:
        """Replace the roots; none of them if one is bad. The errors are as on creation."""
        self._roots: object = roots if callable(roots) else _as_roots(roots)

    async def list(self) -> types.ListRootsResult:
        """Return the roots as they are now."""
        roots = await called(self._roots) if callable(self._roots) else self._roots
        await trio.lowlevel.checkpoint()
        return types.ListRootsResult(roots=_as_roots(roots))


def _as_roots(given: object) -> tuple[types.Root, ...]:
    if isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable):
        raise TypeError(f"roots must be an iterable of roots, not {given!r:.60}")
    return tuple(_as_root(one) for one in cast("Iterable[object]", given))


# All questions.

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers a question of a server: parameters in, result out, both as plain JSON."""

Question: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
"""A question that has been checked; calling it lets its handler answer."""

MAX_FIELDS: Final = 1_000
"""How many fields a form may have."""


@final
@attrs.frozen(kw_only=True)
class QuestionHandlers:
    """The user's handlers for questions of a server.

    Attributes:
        on_sample: Samples from a model.
        sampling_tools: Whether the model may be given tools.
        sampling_context: Whether `CreateMessageRequestParams.include_context` is heeded.
        on_elicit: Asks the user.
        elicit_modes: How the user can be asked.
        roots: The roots.
        others: Handlers by method, in plain JSON. They take precedence over those above.
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
            raise ValueError(f"elicit_modes must be 'form', 'url' or both, in a collection, not {modes!r}")

    def restricted(self, asks: Asks) -> QuestionHandlers:
        """Return the handlers of what a server may ever ask for."""
        modes = [mode for mode in self.elicit_modes if mode in asks.kinds]
        methods = {METHODS_OF[kind] for kind in asks.kinds}
        return attrs.evolve(
            self,
            on_sample=self.on_sample if "sampling" in asks.kinds else None,
            on_elicit=self.on_elicit if modes else None,
            elicit_modes=modes or DEFAULT_ELICIT_MODES,
            roots=self.roots if "roots" in asks.kinds else None,
            others={name: h for name, h in self.others.items() if name not in QUESTIONS or name in methods},
        )

    def declared(self, base: types.ClientCapabilities) -> types.ClientCapabilities:
        """Return the given capabilities with those that follow from the handlers."""
        changes: dict[str, object] = {}
        if self.on_sample is not None and base.sampling is None:
            changes["sampling"] = types.SamplingCapability(
                context={} if self.sampling_context else None, tools={} if self.sampling_tools else None
            )
        if self.on_elicit is not None and base.elicitation is None:
            changes["elicitation"] = types.ElicitationCapability(
                form={} if "form" in self.elicit_modes else None, url={} if "url" in self.elicit_modes else None
            )
        if self.roots is not None and base.roots is None:
            changes["roots"] = types.RootsCapability(list_changed=True)
        return types.evolve(base, **changes)


@final
class Questions:
    """Finds the handler of a question, and checks that the question is allowed.

    Args:
        handlers: The user's handlers.
        capabilities: The declared capabilities; questions beyond them are refused.
        asks: What the server has asked under a policy; `None` if there is none.

    Attributes:
        capabilities: The declared capabilities.
        roots: The roots, if the client declares any.
        elicitations: The elicitations by URL whose end has not been notified.
    """

    def __init__(
        self,
        handlers: QuestionHandlers,
        capabilities: types.ClientCapabilities,
        asks: Asks | None = None,
    ) -> None:
        self._handlers = handlers
        self._asks = asks
        self.capabilities: Final = capabilities
        self.roots: Final = handlers.roots
        self.elicitations: Final = KnownElicitations()

    @property
    def are_any(self) -> bool:
        """Whether there is any handler."""
        handlers = self._handlers
        asked = (handlers.on_sample, handlers.on_elicit, handlers.roots)
        return bool(handlers.others) or any(handler is not None for handler in asked)

    def knows(self, method: str, revision: Revision) -> bool:
        """Whether there is a handler for a question of a revision."""
        handlers = self._handlers
        may_elicit = method == "elicitation/create" and METHODS[method].is_in(revision)
        return (
            method in handlers.others
            or (method == "sampling/createMessage" and handlers.on_sample is not None)
            or (may_elicit and handlers.on_elicit is not None)
            or (method == "roots/list" and handlers.roots is not None)
        )

    def prepare(self, method: str, params: Mapping[str, Any] | None, revision: Revision) -> Question:
        """Check a question. No handler is called yet.

        Args:
            method: Its method.
            params: Its parameters.
            revision: The revision of the answer.

        Raises:
            RequestError: There is no handler, the question goes beyond the declared capabilities, or its
                parameters cannot be read.
        """
        asks = self._asks
        if asks is None:
            return self._prepare(method, params or {}, revision)
        try:
            return self._prepare(method, params or {}, revision)
        except RequestError as error:
            raise asks.refused(method, error) from error.__cause__

    def unknown(self, method: str) -> RequestError:
        """Return the error for a question that has no handler."""
        error = RequestError(METHOD_NOT_FOUND, f"this client has no method {method}")
        return error if self._asks is None else self._asks.refused(method, error)

    def _prepare(self, method: str, given: Mapping[str, Any], revision: Revision) -> Question:
        handlers, asks = self._handlers, self._asks
        plain = handlers.others.get(method)
        if plain is not None and (asks is None or method not in QUESTIONS):
            return partial(called, plain, given)
        kind: AskKind
        params: Any = None
        answer: Callable[[Any], Awaitable[Any]]
        if plain is not None:
            answer = partial(_plainly, plain, method, revision)
        elif method == "sampling/createMessage" and handlers.on_sample is not None:
            answer = partial(sample, handlers.on_sample)
        elif method == "elicitation/create" and handlers.on_elicit is not None:
            answer = partial(elicit, handlers.on_elicit)
        elif method == "roots/list" and handlers.roots is not None:
            answer = partial(_list, handlers.roots)
        else:
            raise RequestError(METHOD_NOT_FOUND, f"this client has no method {method}")
        if method == "sampling/createMessage":
            kind, params = "sampling", _read(given, types.CreateMessageRequestParams)
            self._check_sampling(params)
        elif method == "elicitation/create":
            _check_fields(given)
            params = _read(given, types.ElicitRequestParams)
            self._check_elicitation(params)
            self.elicitations.add(params)
            kind = params.mode
        else:
            kind = "roots"
        if asks is not None:
            answer = partial(asks.answer, kind, handle=answer, fit=_fitting)
        return partial(_write, partial(answer, params), revision)

    def _check_sampling(self, params: types.CreateMessageRequestParams) -> None:
        declared = self.capabilities.sampling
        if (params.tools or params.tool_choice is not None) and (declared is None or declared.tools is None):
            # 2025-11-25, client/sampling, "Capabilities".
            raise RequestError(INVALID_PARAMS, "this client has not declared sampling.tools")
        try:
            check_tool_results(params.messages)
        except ValueError as error:
            # 2025-11-25, client/sampling, "Error Handling".
            raise RequestError(INVALID_PARAMS, str(error)) from error

    def _check_elicitation(self, params: types.ElicitRequestParams) -> None:
        """Refuse a mode that was not declared, and a URL that is not of the web, without asking the user.

        Spec: 2025-11-25, client/elicitation, "Error Handling" and "Safe URL Handling".
        """
        declared = self.capabilities.elicitation or types.ElicitationCapability()
        if isinstance(params, types.ElicitRequestFormParams):
            is_declared = declared.form is not None or declared.url is None
        else:
            is_declared = declared.url is not None
        if not is_declared:
            raise RequestError(INVALID_PARAMS, f"this client has not declared elicitation.{params.mode}")
        if isinstance(params, types.ElicitRequestURLParams):
            try:
                check_web_url(params.url)
            except ValueError as error:
                raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error


def _check_fields(params: Mapping[str, Any]) -> None:
    """Refuse a form that is too long for a user, before it is read.

    Raises:
        RequestError: It has too many fields.
    """
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if is_object(schema) else None
    if is_object(fields) and len(fields) > MAX_FIELDS:
        problem = f"a form of {len(fields)} fields; clients take {MAX_FIELDS} at most"
        raise RequestError(INVALID_PARAMS, f"invalid params: requestedSchema.properties: {problem}")


def _read(params: Mapping[str, Any], kind: Any) -> Any:
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error


async def _list(roots: RootList, _: None) -> types.ListRootsResult:
    return await roots.list()


_RESULTS: Final[Mapping[str, type]] = {
    "sampling/createMessage": types.CreateMessageResult,
    "elicitation/create": types.ElicitResult,
    "roots/list": types.ListRootsResult,
}


async def _plainly(handler: RequestHandler, method: str, revision: Revision, params: object) -> Any:
    """Let a handler answer that takes and returns plain JSON."""
    return from_wire(await called(handler, {} if params is None else to_wire(params, revision)), _RESULTS[method])


async def _write(ask: Callable[[], Awaitable[object]], revision: Revision) -> dict[str, Any]:
    return to_wire(await ask(), revision)
