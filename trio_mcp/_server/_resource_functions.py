"""Functions and constants as resources: what their URIs mean, and how they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, final

import attrs
import trio

from .. import types
from .._core._uri_matching import Found, UriMatcher
from .._core._uri_template import UriTemplate
from .._core._uri_values import VariableRule
from .._errors import INVALID_PARAMS, RequestError, ResourceNotFound
from .._schema import CallSpec, InvalidValue
from ._calling import HandlerFunction
from ._interim import Interim
from ._reading import Reading
from ._variables import kinds_of, value_for

__all__ = [
    "ConstantSource",
    "FunctionSource",
    "matcher_for",
    "refuse_parameters",
    "returned_hint",
    "rule_for",
]


@final
@attrs.frozen(kw_only=True)
class ConstantSource:
    """Text or bytes that do not change."""

    resource: types.Resource
    result: types.ReadResourceResult
    template: types.ResourceTemplate | None = None
    blocks: bool = False
    may_ask: bool = False

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """It has no variables."""
        return {}

    def match(self, uri: str) -> Found | None:
        """Return nothing more: it was found by its URI."""
        del uri
        return {}

    def check(self, values: Mapping[str, str]) -> None:
        """It has no variables."""

    def resources(self) -> Iterator[types.Resource]:
        """Yield the resource."""
        yield self.resource

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult:
        """Return the contents."""
        del reading, found
        await trio.lowlevel.checkpoint()
        return self.result


@final
@attrs.frozen(kw_only=True)
class FunctionSource:
    """A function that gives the contents of one resource, or of all that fit a template.

    Attributes:
        handler: The function.
        resource: What clients are told, if it is one resource.
        template: What clients are told, if it is a template.
        matcher: What finds the variables of the template.
        rule: What those may be.
    """

    handler: HandlerFunction
    resource: types.Resource | None = None
    template: types.ResourceTemplate | None = None
    matcher: UriMatcher | None = None
    rule: VariableRule | None = None
    blocks: bool = False

    @property
    def may_ask(self) -> bool:
        """Whether it is given a context."""
        return self.handler.may_ask

    @property
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """What the variables can be, as far as the types of the parameters say."""
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

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult | Interim:
        """Call the function, and turn what it returns into a result.

        Raises:
            RequestError: A variable may be no name but a way to somewhere else; see `VariableRule`.
            ResourceNotFound: A variable is not what the function takes.
            Exception: Whatever the function raises.
        """
        from ._contents import contents_of

        try:
            self.check(found)
        except ValueError as error:
            raise RequestError(INVALID_PARAMS, f"invalid params: uri: {error}", {"uri": reading.uri}) from error
        spec = self.handler.spec
        schema = spec.input_schema
        known: Mapping[str, Any] = schema.get("properties", {})
        arguments = {name: value_for(known.get(name, {}), schema, value) for name, value in found.items()}
        try:
            values = spec.decode(arguments)
        except InvalidValue as error:
            raise ResourceNotFound(f"Resource not found: {error}") from error
        described = self.resource or self.template
        kind = None if described is None else described.mime_type

        async def finish(returned: Any) -> types.ReadResourceResult | Interim:
            return returned if isinstance(returned, Interim) else await contents_of(returned, kind, reading)

        return await self.handler.call(values, reading.context, reading.threads, finish)


def matcher_for(template: UriTemplate, spec: CallSpec) -> UriMatcher:
    """Return what finds the variables of a template for a function's parameters.

    Raises:
        ValueError: The template can be read in several ways, or its variables and the parameters do not agree.
    """
    matcher = UriMatcher(template)
    schema: Mapping[str, Any] = spec.input_schema
    known: Mapping[str, Any] = schema.get("properties", {})
    required: frozenset[str] = frozenset(schema.get("required", ()))
    takes_any = schema.get("additionalProperties", False) is not False
    where = f"{spec.name}() and {template}"
    variables = template.variables
    for name in variables:
        if name not in known:
            if not takes_any:
                raise ValueError(f"{where}: there is no parameter for the variable {name!r}")
            continue
        kinds = kinds_of(known[name], schema) - {"null"}
        if kinds and (kinds == {"array"}) is not (name in matcher.lists) and not kinds > {"array"}:
            said = f"is a list; write {{{name}*}}" if kinds == {"array"} else "is no list, but the variable is"
            raise ValueError(f"{where}: the parameter {name!r} {said}")
        if kinds == {"object"}:
            raise ValueError(f"{where}: the parameter {name!r} is an object, which has no form in a URI")
        if name in matcher.optional and name in required:
            raise ValueError(f"{where}: a URI may lack {name!r}, so that parameter needs a default")
    _refuse_missing(required.difference(variables), where)
    return matcher


def rule_for(matcher: UriMatcher, unsafe: Collection[str]) -> VariableRule:
    """Return what the variables of a template may be.

    Raises:
        TypeError: The names are one string.
        ValueError: A name is none of its variables.
    """
    if isinstance(unsafe, str):
        raise TypeError(f"unsafe_variables is a collection of names, not one string: {unsafe!r}")
    unknown = frozenset(unsafe).difference(matcher.names)
    if unknown:
        raise ValueError(f"unsafe_variables: the template has no variable {min(unknown)!r}")
    return VariableRule(with_slashes=matcher.with_slashes, unsafe=frozenset(unsafe))


def refuse_parameters(spec: CallSpec, uri: str) -> None:
    """Make sure that nobody needs to give a function anything.

    Raises:
        ValueError: It has a parameter without a default.
    """
    _refuse_missing(spec.input_schema.get("required", ()), f"{spec.name}() and {uri}")


def _refuse_missing(missing: Collection[str], where: str) -> None:
    if missing:
        raise ValueError(f"{where}: no variable gives the parameter {min(missing)!r}, and it has no default")


def returned_hint(function: Callable[..., Any]) -> Any:
    """Return what a function is annotated to return, or `None`."""
    try:
        return inspect.signature(function, eval_str=True).return_annotation
    except (NameError, TypeError, ValueError):
        return None
