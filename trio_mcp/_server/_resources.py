"""Resources: what is registered, which resource a URI means, and the methods that list and read.

Functions and constants are resources here; files and directories in `_files`. What a function returns becomes
contents in `_media`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final

import attrs
import trio

from .. import types
from .._channel import Origin
from .._core._uri_matching import Found, UriMatcher
from .._core._uri_template import MAX_URI_LENGTH, UriTemplate, VariableRule, check_uri, normalised, pct_encoded
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RequestError, ResourceNotFound
from .._limits import Limits, check_seconds
from .._logs import Log
from .._revisions import Revision
from .._schema import CallSpec, InvalidValue
from .._trio import propagating
from ..types._fields import evolve
from ._asking import failed_by_client
from ._context import Context, origin_of
from ._functions import HandlerFunction, MethodHandler, RunOptions, log_failure, pass_throttle
from ._input_required import Asking, NonFinalResult
from ._listing import Description, Entry, Listing, Registry, check_asked_uri, check_scope, check_ttl, read_params
from ._permits import Permit
from ._reading import Reading, ResourceSource
from ._threads import Threads

_log: Final = Log("trio_mcp.server")


def _check_timeout(_instance: object, _attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None:
        check_seconds("timeout", value, may_be_zero=False)


class ResourceOptions(Description, total=False):
    """Options of every resource; `Server.resource` describes them."""

    mime_type: str | None
    annotations: types.Annotations | None
    ttl: float
    scope: types.CacheScope


class FunctionOptions(ResourceOptions, RunOptions, total=False):
    """The options of `Server.resource`, which describes them."""

    size: int | None


@final
@attrs.frozen(eq=False, kw_only=True)
class RegisteredResource:
    """A resource, a template or a directory that is registered.

    Attributes:
        source: Where the contents come from.
        ttl: For how many seconds clients may keep what they have read.
        scope: Whether they may share it.
        timeout: After how many seconds reading is cancelled.
    """

    source: ResourceSource
    ttl: float = attrs.field(default=0, validator=check_ttl)
    scope: types.CacheScope = attrs.field(default="private", validator=check_scope)
    timeout: float | None = attrs.field(default=None, validator=_check_timeout)


@final
class ResourceRegistry:
    """The resources of a server, in the order in which they were registered.

    A URI means the resource that is registered under it; else it means one of the first template or directory
    that it fits.

    Args:
        limits: What reading may cost.
        threads: How many threads there may be.
        listing: How lists are cut into pages.

    Attributes:
        entries: What is registered, by URI.
    """

    def __init__(self, limits: Limits, threads: Threads, listing: Listing) -> None:
        self.entries: Final = Registry[RegisteredResource]("resource", named="at", key=normalised)
        self._limits = limits
        self._threads = threads
        self._listing = listing
        self._listed: tuple[int, Sequence[Entry[types.Resource]]] | None = None  # and after how many changes
        self._handlers: Final[Mapping[str, MethodHandler]] = {
            "resources/list": self._list,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
        }

    @property
    def has_choices(self) -> bool:
        """Whether a variable of a template can be completed without a function; see `CompletionSource`."""
        return any(any(entry.item.source.choices.values()) for entry in self.entries.visible)

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        """Return what a variable can be, if its type allows only a few values; see `CompletionSource`.

        Raises:
            RequestError: There is no such template, or it has no such variable.
        """
        if not isinstance(reference, types.ResourceTemplateReference):
            return None
        entry = self.entries.find(reference.uri)
        if entry is None or not entry.enabled or entry.item.source.template is None:
            return None
        choices = entry.item.source.choices
        if argument not in choices:
            known = ", ".join(choices) or "none"
            raise RequestError(
                INVALID_PARAMS, f"template {entry.name} has no variable {argument[:128]!r}; it has {known}"
            )
        return choices[argument]

    def templates(self) -> frozenset[str]:
        """Return the templates, also hidden ones, and those of directories."""
        found = (entry.item.source.template for entry in self.entries)
        return frozenset(template.uri_template for template in found if template is not None)

    def check_typed(self, uri: str, values: Mapping[str, str]) -> None:
        """Check what a client has typed for variables of a template, before a function completes it.

        Raises:
            RequestError: A resource could not be read with a value.
        """
        # A directory is registered by what its URIs begin with.
        for entry in self.entries:
            template = entry.item.source.template
            if template is None or template.uri_template != uri:
                continue
            try:
                entry.item.source.check(values)
            except ValueError as error:
                raise RequestError(INVALID_PARAMS, f"invalid params: argument: {error}") from error

    def asking(self, uri: object) -> Asking:
        """Return whether reading a resource may ask the client, and what happens to the handler meanwhile."""
        found = self._find_short(uri)
        return Asking.NEVER if found is None else found[0].item.source.asking

    def permit(self, uri: object) -> Permit | None:
        """Return who may use a resource; `None` for everybody, and if there is none."""
        found = self._find_short(uri) if self.entries.is_guarded else None
        return None if found is None or found[0].permit is None else found[0].permit.of({"uri": uri})

    def check_permit(self, uri: object, origin: Origin | None, revision: Revision) -> None:
        """Check that whoever has sent a message may use a resource, if there is one.

        Raises:
            RequestError: Not so.
        """
        permit = self.permit(uri)
        if permit is not None and not permit.allows(origin):
            raise permit.refusal(_not_found(ResourceNotFound(), str(uri), revision), origin)

    def permit_of_template(self, template: object) -> Permit | None:
        """Return who may use a template; `None` for everybody, and if there is none."""
        for entry in self.entries if self.entries.is_guarded else ():
            own = entry.item.source.template
            if own is not None and own.uri_template == template:
                return entry.permit
        return None

    def check_permit_of_template(self, template: str, origin: Origin | None, revision: Revision) -> None:
        """Check that whoever has sent a message may use a template, if there is one.

        Raises:
            RequestError: Not so.
        """
        permit = self.permit_of_template(template)
        if permit is not None and not permit.allows(origin):
            raise permit.refusal(_not_found(ResourceNotFound(), template, revision), origin)

    def _find_short(self, uri: object) -> tuple[Entry[RegisteredResource], Found] | None:
        return self._find(uri) if isinstance(uri, str) and len(uri) <= MAX_URI_LENGTH else None

    def check_changed(self, uri: str) -> None:
        """Check that the resource that has changed is named by a URI, as clients name it.

        Raises:
            ValueError: It is not. If it would fit a template when it is encoded, the message says how.
        """
        try:
            check_uri(uri)
        except ValueError as error:
            found = self._find_short(pct_encoded(uri, keep_reserved=True))
            template = None if found is None else found[0].item.source.template
            problem = f"{uri!r:.200} is no URI of a resource: {error}"
            if found and template:
                problem += f"; UriTemplate({template.uri_template!r}).expand({found[1]}) is one"
            raise ValueError(problem) from error

    def knows(self, uri: str) -> bool:
        """Whether a URI means a resource that may be read. Only reading it shows whether it exists."""
        return len(uri) <= MAX_URI_LENGTH and self._find(uri) is not None

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return the handler of a method; `None` if no resource was ever registered."""
        if not self.entries.was_used:
            return None
        return (
            self._read_checked
            if method == "resources/read" and self.entries.is_checked
            else self._handlers.get(method)
        )

    def _find(self, asked: str) -> tuple[Entry[RegisteredResource], Found] | None:
        single = self.entries.find(asked)
        if single is not None and single.item.source.template is None:
            # Hidden, it is not found either by a template that it also fits.
            candidates = [single]
        else:
            candidates = [entry for entry in self.entries if entry.item.source.template is not None]
        uri = normalised(asked)
        for entry in candidates:
            found = entry.item.source.match(uri) if entry.enabled else None
            if found is not None:
                return entry, found
        return None

    # The methods.

    async def _list(self, params: Mapping[str, Any], context: Context[Any]) -> types.ListResourcesResult:
        found = await self._all()
        is_own = self.entries.is_guarded
        if is_own:
            origin = origin_of(context)
            found = [
                entry for entry in found if (permit := self.permit(entry.name)) is None or permit.shows(origin)
            ]
        page, members = self._listing.page("resources/list", params, found, is_own=is_own)
        return types.ListResourcesResult(resources=page, **members)

    async def _all(self) -> Sequence[Entry[types.Resource]]:
        """Return what is listed, on all pages together; made once for them, unless files are looked for."""
        changes = self.entries.changes
        if self._listed is not None and self._listed[0] == changes:
            await trio.lowlevel.checkpoint()
            return self._listed[1]
        entries = self.entries.visible
        taken = {normalised(entry.name) for entry in self.entries if entry.item.source.template is None}
        if any(entry.item.source.blocks for entry in entries):
            # A thread that is left behind does no harm: it only reads directories.
            return await self._threads.run(_listed, entries, taken)
        found = _listed(entries, taken)
        self._listed = changes, found
        await trio.lowlevel.checkpoint()
        return found

    async def _list_templates(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> types.ListResourceTemplatesResult:
        await trio.lowlevel.checkpoint()
        is_own = self.entries.is_guarded
        found = [
            Entry(entry.serial, entry.name, template)
            for entry in (self.entries.visible_to(origin_of(context)) if is_own else self.entries.visible)
            if (template := entry.item.source.template) is not None
        ]
        page, members = self._listing.page("resources/templates/list", params, found, is_own=is_own)
        return types.ListResourceTemplatesResult(resource_templates=page, **members)

    async def _read_checked(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> types.ReadResourceResult | NonFinalResult:
        self.check_permit(params.get("uri"), origin_of(context), context.revision)
        found = self._find_short(params.get("uri"))
        if found is not None:
            pass_throttle(found[0].throttle, context)
        return await self._read(params, context)

    async def _read(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> types.ReadResourceResult | NonFinalResult:
        uri = read_params(params, types.ReadResourceRequestParams).uri
        check_asked_uri(uri)
        found = self._find(uri)
        if found is None:
            raise _not_found(ResourceNotFound(), uri, context.revision)
        entry, variables = found
        offer = entry.item
        reading = Reading(uri, context, self._threads, self._limits)
        try:
            with trio.move_on_after(math.inf if offer.timeout is None else offer.timeout):
                result = await offer.source.read(reading, variables)
                return result if isinstance(result, NonFinalResult) else _with_freshness(result, offer)
        except ResourceNotFound as error:
            raise _not_found(error, uri, context.revision) from error
        except RequestError:
            raise
        except BaseException as error:
            if propagating(error) is not None or failed_by_client(error):
                raise
            # The boundary of one read. The exception may hold what clients must not see.
            log_failure(f"reading the resource {uri}", error, context)
            problem = "Reading the resource failed. The server's log says why."
            raise RequestError(INTERNAL_ERROR, problem, {"uri": uri}) from error  # noqa: ASYNC104
        # Only the deadline ends here.
        _log.warning("reading the resource %s took longer than %g s and was cancelled", uri, offer.timeout)
        problem = f"Reading the resource took longer than {offer.timeout:g} s and was cancelled."
        raise RequestError(INTERNAL_ERROR, problem, {"uri": uri})


def _listed(entries: Iterable[Entry[RegisteredResource]], taken: set[str]) -> list[Entry[types.Resource]]:
    """Return what is listed. A file of a directory that is also registered by itself is listed once."""
    return [
        Entry(entry.serial, resource.uri, resource)
        for entry in entries
        for resource in entry.item.source.resources()
        if entry.item.source.template is None or normalised(resource.uri) not in taken
    ]


def _with_freshness(result: types.ReadResourceResult, offer: RegisteredResource) -> types.ReadResourceResult:
    """Add the registration's freshness, unless the function has set its own."""
    if result.ttl_ms or result.cache_scope != "private" or (not offer.ttl and offer.scope == "private"):
        return result
    return evolve(result, ttl_ms=int(offer.ttl * 1000), cache_scope=offer.scope)


def _not_found(error: ResourceNotFound, asked: str, revision: Revision) -> RequestError:
    """Return a revision's error for a resource that does not exist (server/resources, "Error Handling")."""
    code = INVALID_PARAMS if revision.is_modern else RESOURCE_NOT_FOUND
    return RequestError(code, error.message, {"uri": asked if error.uri is None else error.uri})


@final
@attrs.frozen(eq=False, kw_only=True)
class ConstantSource(ResourceSource):
    """Text or bytes that do not change."""

    resource: types.Resource
    result: types.ReadResourceResult

    def resources(self) -> Iterator[types.Resource]:
        """Yield the resource."""
        yield self.resource

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult:
        """Return the contents."""
        del reading, found
        await trio.lowlevel.checkpoint()
        return self.result


@final
@attrs.frozen(eq=False, kw_only=True)
class FunctionSource(ResourceSource):
    """A function that gives the contents of one resource, or of all that fit a template.

    Attributes:
        handler: The function.
        resource: What clients see, if it is one resource.
        template: What clients see, if it is a template.
        matcher: Finds the variables of the template.
        rule: Refuses unsafe values of them.
    """

    handler: HandlerFunction
    resource: types.Resource | None = None
    template: types.ResourceTemplate | None = None
    matcher: UriMatcher | None = None
    rule: VariableRule | None = None

    @property
    def asking(self) -> Asking:
        """Whether the function may ask the client."""
        return self.handler.asking

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """What the variables can be, if the types of the parameters allow only a few values."""
        if self.matcher is None:
            return {}
        known = {argument.name: argument.choices for argument in self.handler.spec.arguments_as_strings()}
        return {name: known.get(name, ()) for name in self.matcher.names}

    def match(self, uri: str) -> Found | None:
        """Return the variables of a URI, or `None` if it does not fit the template."""
        return {} if self.matcher is None else self.matcher.match(uri)

    def check(self, values: Mapping[str, str | list[str]]) -> None:
        """Check variables before the function, or one that completes them, is called with them."""
        if self.rule is not None:
            self.rule.check(values)

    def resources(self) -> Iterator[types.Resource]:
        """Yield the resource, if it is one."""
        if self.resource is not None:
            yield self.resource

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult | NonFinalResult:
        """Call the function, and turn what it returns into a result.

        Raises:
            RequestError: A variable could lead out of a path it is put into; see `VariableRule`.
            ResourceNotFound: A variable is not what the function takes.
            Exception: Whatever the function raises.
        """
        from ._media import contents_of

        try:
            self.check(found)
        except ValueError as error:
            raise RequestError(INVALID_PARAMS, f"invalid params: uri: {error}", {"uri": reading.uri}) from error
        try:
            values = self.handler.spec.decode_variables(found)
        except InvalidValue as error:
            raise ResourceNotFound(f"Resource not found: {error}") from error
        described = self.resource or self.template
        kind = None if described is None else described.mime_type

        async def finish(returned: Any) -> types.ReadResourceResult | NonFinalResult:
            if isinstance(returned, types.ReadResourceResult | NonFinalResult):
                return returned
            self.handler.spec.check_returned(returned)
            return await contents_of(returned, kind, reading)

        return await self.handler.call(values, reading.context, reading.threads, finish)


def matcher_for(template: UriTemplate, spec: CallSpec) -> UriMatcher:
    """Return the matcher that finds the variables of a template for a function's parameters.

    Raises:
        ValueError: The template can be read in several ways, or its variables and the parameters do not agree.
    """
    matcher = UriMatcher(template)
    known = {argument.name: argument for argument in spec.arguments_as_strings()}
    takes_any = spec.input_schema.get("additionalProperties", False) is not False
    where = f"{spec.name}() and {template}"
    for name in template.variables:
        if name not in known:
            if not takes_any:
                raise ValueError(f"{where}: there is no parameter for the variable {name!r}")
            continue
        kinds = set(known[name].kinds) - {"null"}
        if kinds and (kinds == {"array"}) is not (name in matcher.lists) and not kinds > {"array"}:
            problem = f"is a list; write {{{name}*}}" if kinds == {"array"} else "is no list, but the variable is"
            raise ValueError(f"{where}: the parameter {name!r} {problem}")
        if kinds == {"object"}:
            raise ValueError(f"{where}: the parameter {name!r} is an object, which has no form in a URI")
        if name in matcher.optional and known[name].required:
            raise ValueError(f"{where}: a URI may lack {name!r}, so that parameter needs a default")
    refuse_missing(spec, where, template.variables)
    return matcher


def rule_for(matcher: UriMatcher, unsafe: Collection[str]) -> VariableRule:
    """Return the rule for the variables of a template.

    Raises:
        ValueError: The template has no variable of a name.
    """
    unknown = frozenset(unsafe).difference(matcher.names)
    if unknown:
        raise ValueError(f"unsafe_variables: the template has no variable {min(unknown)!r}")
    return VariableRule(with_slashes=matcher.with_slashes, unsafe=frozenset(unsafe))


def refuse_missing(spec: CallSpec, where: str, given: Collection[str] = ()) -> None:
    """Check that a function can be called with no more than the given arguments.

    Raises:
        ValueError: It has another parameter without a default.
    """
    missing = set(spec.input_schema.get("required", ())).difference(given)
    if missing:
        raise ValueError(f"{where}: no variable gives the parameter {min(missing)!r}, and it has no default")


def returned_hint(function: Callable[..., Any]) -> Any:
    """Return what a function is annotated to return, or `None`."""
    try:
        return inspect.signature(function, eval_str=True).return_annotation
    except (NameError, TypeError, ValueError):
        return None
