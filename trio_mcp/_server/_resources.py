"""Resources: what is registered, what a URI means, and the methods by which clients list and read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from .. import types
from .._contained import going_on
from .._core._uris import check_uri, normalised
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RequestError, ResourceNotFound
from .._limits import Limits, check_seconds
from .._logs import Log
from .._revisions import Revision
from ..types._fields import evolve
from ._application import MethodHandler
from ._asking import is_answered_wrongly
from ._context import Context
from ._input_required import Asking
from ._interim import Interim
from ._listing import Listing
from ._params import read_params
from ._reading import Reading, ResourceSource
from ._registry import Entry, Registry
from ._threads import Threads

if TYPE_CHECKING:
    from .._core._uri_matching import Found

__all__ = ["Offer", "ResourceRegistry"]

_log: Final = Log("trio_mcp.server")


def _check_ttl(_instance: object, _attribute: attrs.Attribute[Any], value: float) -> None:
    check_seconds("ttl", value, is_told=True)


def _check_scope(_instance: object, _attribute: attrs.Attribute[Any], value: object) -> None:
    if value not in {"public", "private"}:
        raise ValueError(f"scope must be 'public' or 'private', not {value!r}")


def _check_timeout(_instance: object, _attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None:
        check_seconds("timeout", value, may_be_zero=False)


@final
@attrs.frozen(eq=False, kw_only=True)
class Offer:
    """A resource, a template or a directory that is registered.

    Attributes:
        source: Where the contents come from.
        ttl: For how many seconds clients may keep what they have read.
        scope: Whether they may show it to others.
        timeout: After how many seconds reading is cancelled.
    """

    source: ResourceSource
    ttl: float = attrs.field(default=0, validator=_check_ttl)
    scope: types.CacheScope = attrs.field(default="private", validator=_check_scope)
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
        self.entries: Final = Registry[Offer]("resource", named="at", key=normalised)
        self._limits = limits
        self._threads = threads
        self._listing = listing
        self._told: tuple[int, Sequence[Entry[types.Resource]]] | None = None  # and after how many changes
        self._handlers: Final[Mapping[str, MethodHandler]] = {
            "resources/list": self._list,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
        }

    @property
    def has_choices(self) -> bool:
        """Whether a variable of a template can be completed without anybody's help; see `CompletionSource`."""
        return any(any(entry.item.source.choices.values()) for entry in self.entries.visible)

    def choices(
        self, reference: types.PromptReference | types.ResourceTemplateReference, argument: str
    ) -> Iterable[str] | None:
        """Return what a variable of a template can be, as far as its type says; see `CompletionSource`.

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

    def check_typed(self, uri: str, values: Mapping[str, str]) -> None:
        """Check what a client has typed for variables of a template, before a function completes it.

        Raises:
            RequestError: It could not be read with.
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
        """Return whether reading a resource may ask the client, and what becomes of it then."""
        found = self._find(uri) if isinstance(uri, str) and len(uri) <= self._limits.max_uri_length else None
        return Asking.PARK if found is not None and found[0].source.may_ask else Asking.NEVER

    def knows(self, uri: str) -> bool:
        """Whether a URI means a resource that may be read. Whether there is one is only known when it is."""
        return len(uri) <= self._limits.max_uri_length and self._find(uri) is not None

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method; nobody, while there have never been resources."""
        return self._handlers.get(method) if self.entries.was_used else None

    def _find(self, asked: str) -> tuple[Offer, Found] | None:
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
                return entry.item, found
        return None

    # The methods.

    async def _list(self, params: Mapping[str, Any], _: Context[Any]) -> types.ListResourcesResult:
        found = await self._all()
        page, members = self._listing.page("resources/list", params, found)
        return types.ListResourcesResult(resources=page, **members)

    async def _all(self) -> Sequence[Entry[types.Resource]]:
        """Return what is listed, on all pages together; made once for them, unless files are looked for."""
        changes = self.entries.changes
        if self._told is not None and self._told[0] == changes:
            await trio.lowlevel.checkpoint()
            return self._told[1]
        entries = self.entries.visible
        taken = {normalised(entry.name) for entry in self.entries if entry.item.source.template is None}
        if any(entry.item.source.blocks for entry in entries):
            # A thread that is left behind only looks around.
            return await self._threads.run(_listed, entries, taken)
        found = _listed(entries, taken)
        self._told = changes, found
        await trio.lowlevel.checkpoint()
        return found

    async def _list_templates(
        self, params: Mapping[str, Any], _: Context[Any]
    ) -> types.ListResourceTemplatesResult:
        await trio.lowlevel.checkpoint()
        found = [
            Entry(entry.serial, entry.name, template)
            for entry in self.entries.visible
            if (template := entry.item.source.template) is not None
        ]
        page, members = self._listing.page("resources/templates/list", params, found)
        return types.ListResourceTemplatesResult(resource_templates=page, **members)

    async def _read(self, params: Mapping[str, Any], context: Context[Any]) -> types.ReadResourceResult | Interim:
        uri = read_params(params, types.ReadResourceRequestParams).uri
        try:
            check_uri(uri, max_length=self._limits.max_uri_length)
        except ValueError as error:
            raise RequestError(INVALID_PARAMS, f"invalid params: uri: {error}", {"uri": uri[:256]}) from error
        found = self._find(uri)
        if found is None:
            raise _not_found(ResourceNotFound(), uri, context.revision)
        offer, variables = found
        reading = Reading(uri, context, self._threads, self._limits)
        try:
            with trio.move_on_after(math.inf if offer.timeout is None else offer.timeout):
                result = await offer.source.read(reading, variables)
                return result if isinstance(result, Interim) else _with_freshness(result, offer)
        except ResourceNotFound as error:
            raise _not_found(error, uri, context.revision) from error
        except RequestError:
            raise
        except BaseException as error:
            if going_on(error) is not None or is_answered_wrongly(error):
                raise
            # The boundary of one read. What the exception says was not written for strangers.
            _log.exception("reading the resource %s failed", uri)
            problem = "Reading the resource failed. The server's log says why."
            raise RequestError(INTERNAL_ERROR, problem, {"uri": uri}) from error  # noqa: ASYNC104
        # Only the deadline leads here.
        _log.warning("reading the resource %s took longer than %g s and was cancelled", uri, offer.timeout)
        problem = f"Reading the resource took longer than {offer.timeout:g} s and was cancelled."
        raise RequestError(INTERNAL_ERROR, problem, {"uri": uri})


def _listed(entries: Iterable[Entry[Offer]], taken: set[str]) -> list[Entry[types.Resource]]:
    """Return what clients are told. Files of a directory that are registered by themselves are not told twice."""
    return [
        Entry(entry.serial, resource.uri, resource)
        for entry in entries
        for resource in entry.item.source.resources()
        if entry.item.source.template is None or normalised(resource.uri) not in taken
    ]


def _with_freshness(result: types.ReadResourceResult, offer: Offer) -> types.ReadResourceResult:
    """Add what the registration says, where the function itself has not said anything."""
    if result.ttl_ms or result.cache_scope != "private" or (not offer.ttl and offer.scope == "private"):
        return result
    return evolve(result, ttl_ms=int(offer.ttl * 1000), cache_scope=offer.scope)


def _not_found(error: ResourceNotFound, asked: str, revision: Revision) -> RequestError:
    """Return the answer that a revision has for this (server/resources, "Error Handling")."""
    code = INVALID_PARAMS if revision.is_modern else RESOURCE_NOT_FOUND
    return RequestError(code, error.message, {"uri": asked if error.uri is None else error.uri})
