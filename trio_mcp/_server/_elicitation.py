"""Asking the client's user: for a value by a form, or to go somewhere by a URL.

Spec: client/elicitation, from 2025-06-18 on; URLs from 2025-11-25 on.

What a type lets choose from, and what the choices are called. Knows nothing of forms.

A form's choices are text. Others are shown as their JSON, and turned back when they are chosen.

From a Python type to the form that asks for a value of it, and from what was filled in to the value.

A form is flat, and its fields are text, numbers, yes or no, and choices of text. What a type says beyond that is
refused when the form is made, with the name of the field: a question that loses its conditions on the way gets
wrong answers. Knows nothing of asking.

Spec: 2026-07-28, client/elicitation, "Requested Schema"; SEP-1034 (defaults), SEP-1330 (choices).
"""

from __future__ import annotations

import enum
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast, final

import attrs

from .. import types
from .._codec import _json
from .._codec._convert import from_wire, to_wire
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import InvalidData
from .._core._forms import FormProblem, form_problems
from .._core._uri_template import check_web_url
from .._errors import URL_ELICITATION_REQUIRED, LocalProtocolError, RequestError, ToolError
from .._revisions import Revision
from .._schema import InvalidValue, JsonType
from .._schema._hints import read_hint
from .._schema._shapes import AnyOf, Array, Choice, Foreign, Record, Shape, core
from ._asking import Abilities, Inquiry, unusable

_T = TypeVar("_T")

_METHOD: Final = "elicitation/create"
_FIRST: Final = Revision.V2025_06_18
_WITH_URLS: Final = Revision.V2025_11_25
_MAY_NEED_INPUT: Final = ("tools/call", "prompts/get", "resources/read")

# What a client lacks is told in full only if it has some of it: `{}` says "forms" already.
_ANY: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability())
_FORMS: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability(form={}))
_URLS: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability(url={}))


@final
@attrs.frozen(repr=False)
class Elicitation(Generic[_T]):
    """What the user did with a question.

    It is true if they accepted, and did not answer "no" to a question for a `bool`::

        if await ctx.elicit("Send by courier?", bool): ...

    Attributes:
        action: ``"accept"``, ``"decline"`` if they refused, or ``"cancel"`` if they did neither.
        elicitation_id: What a visit to a URL is known by, where the revision has that.
    """

    action: types.ElicitAction
    _value: _T | None = None
    elicitation_id: str | None = None

    def __bool__(self) -> bool:
        return self.accepted and self._value is not False

    def __repr__(self) -> str:
        return f"Elicitation({self.action!r}{f', {self._value!r}' if self.accepted else ''})"

    @property
    def accepted(self) -> bool:
        """Whether the user accepted."""
        return self.action == "accept"

    @property
    def value(self) -> _T:
        """What the user filled in; `None` for a URL.

        Raises:
            ToolError: They did not accept. A tool that needs the value may let it go: its caller reads why.
        """
        if not self.accepted:
            done = "declined" if self.action == "decline" else "did not answer"
            raise ToolError(f"The user {done}.")
        return cast("_T", self._value)  # they accepted, so it is what was asked for


async def elicit(inquiry: Inquiry, message: str, wanted: Any) -> Elicitation[Any]:
    """Ask for a value; see `Context.elicit`."""
    form = form_for(wanted)
    require_form(inquiry, form.schema)
    asked = types.ElicitRequestFormParams(message=message, requested_schema=form.schema)
    answer = await inquiry.asker.ask(_METHOD, asked)
    content = answer.get("content")
    if is_object(content):
        # Read by the form, which says it better and forgives a null; here only the rest is looked at.
        answer = {name: value for name, value in answer.items() if name != "content"}
    else:
        content = None
    try:
        result = from_wire(answer, types.ElicitResult)
    except InvalidData as error:
        raise unusable(_METHOD, str(error)) from error
    if result.action != "accept":
        return Elicitation(result.action)
    if content is None and form.schema.required:
        raise unusable(_METHOD, "content: is missing, although the user accepted")
    value, problems = form.read(content or {})
    if problems:
        told = "; ".join(f"content.{name}: {problem}" if name else problem for name, problem in problems)
        raise unusable(_METHOD, told)
    return Elicitation(result.action, value)


async def elicit_url(inquiry: Inquiry, message: str, url: str, elicitation_id: str | None) -> Elicitation[None]:
    """Send the user to a URL; see `Context.elicit_url`."""
    check_web_url(url)
    require_urls(inquiry)
    if inquiry.revision is _WITH_URLS and elicitation_id is None:
        elicitation_id = _new_id()
    asked = types.ElicitRequestURLParams(message=message, url=url, elicitation_id=elicitation_id)
    result = await inquiry.ask(_METHOD, asked, types.ElicitResult)
    known_by = elicitation_id if inquiry.revision is _WITH_URLS else None
    return Elicitation(result.action, elicitation_id=known_by)


def require_form(client: Abilities, schema: types.RequestedSchema) -> None:
    """Check that the client can show a form.

    Raises:
        CapabilityMissing: It cannot.
    """
    client.require_revision(_FIRST, "elicitation")
    capability = client.capabilities.elicitation
    if capability is None:
        raise client.missing("elicitation", _ANY)
    if capability.form is None and capability.url is not None:
        raise client.missing("elicitation by forms", _FORMS)
    for name, field in schema.properties.items():
        if isinstance(field, (types.UntitledMultiSelectEnumSchema, types.TitledMultiSelectEnumSchema)):
            client.require_revision(_WITH_URLS, f"choice of several values for {name}")


def require_urls(client: Abilities) -> None:
    """Check that the client sends its user to URLs.

    Raises:
        CapabilityMissing: It does not.
    """
    client.require_revision(_WITH_URLS, "elicitation by URL")
    capability = client.capabilities.elicitation
    if capability is None or capability.url is None:
        raise client.missing("elicitation by URL", _URLS)


def _new_id() -> str:
    return secrets.token_urlsafe(18)


@final
class URLElicitationRequired(RequestError):
    """Raise it in a handler that cannot answer before the user has been to a URL. The client asks again then.

    Nothing is waited for: the request ends here, and the handler runs anew when the client asks again. A client
    of 2025-11-25 gets the error that this revision has for it, one of 2026-07-28 a result that requires input. To
    any other client it is `CapabilityMissing`.

    Args:
        *elicitations: Where the user must go. Those without an id are given one.
        message: Why, in one sentence.

    Attributes:
        elicitations: Where the user must go.

    Raises:
        ValueError: There is no elicitation, or a URL cannot be used; see `Context.elicit_url`.

    Spec: 2025-11-25, client/elicitation, "URL Elicitation Required Error".
    """

    def __init__(
        self,
        *elicitations: types.ElicitRequestURLParams,
        message: str = "The user must go to a URL before this can be answered.",
    ) -> None:
        if not elicitations:
            raise ValueError("an elicitation is needed: where must the user go?")
        for elicitation in elicitations:
            check_web_url(elicitation.url)
        self.elicitations: tuple[types.ElicitRequestURLParams, ...] = tuple(
            types.evolve(one, elicitation_id=_new_id()) if one.elicitation_id is None else one
            for one in elicitations
        )
        told = [to_wire(one, _WITH_URLS) for one in self.elicitations]
        super().__init__(URL_ELICITATION_REQUIRED, message, {"elicitations": told})


def result_for(error: URLElicitationRequired, client: Abilities, method: str) -> types.InputRequiredResult:
    """Return what says the same as the error to a modern client.

    Raises:
        URLElicitationRequired: The client's revision has the error itself.
        CapabilityMissing: The client cannot send its user anywhere.
        LocalProtocolError: The method's result cannot say it (2026-07-28, basic/patterns/mrtr).
    """
    require_urls(client)
    if not client.revision.is_modern:
        raise error
    if method not in _MAY_NEED_INPUT:
        raise LocalProtocolError(f"{method} cannot ask for input; {', '.join(_MAY_NEED_INPUT)} can") from error
    requests = {
        f"url-{number}": types.ElicitRequest(params=one) for number, one in enumerate(error.elicitations, 1)
    }
    return types.InputRequiredResult(input_requests=requests)


CHOICE_KEYWORDS: Final = frozenset({"enum", "enumNames", "const", "oneOf"})
"""The keywords of JSON Schema that say what there is to choose from."""


@final
@attrs.frozen
class Options:
    """What there is to choose from.

    Attributes:
        texts: Each choice as text.
        titles: What they are called; `None` if that is the text.
        values: What each text means in JSON; `None` if that is the text.
    """

    texts: tuple[str, ...]
    titles: tuple[str, ...] | None
    values: Mapping[str, object] | None

    @property
    def titled(self) -> list[types.EnumOption]:
        """The choices with their titles."""
        titles = self.texts if self.titles is None else self.titles
        return [types.EnumOption(const=text, title=title) for text, title in zip(self.texts, titles, strict=True)]


def options_of(name: str, schema: Mapping[str, Any], titles: Mapping[str, str]) -> Options | None:
    """Return what a schema lets choose from, or `None` if it is no choice.

    Args:
        name: The field, for errors.
        schema: Its JSON Schema.
        titles: What the choices are called, by their text, unless the schema says so.

    Raises:
        TypeError: The choices cannot be told apart, or their names do not match.
    """
    if "oneOf" in schema and all("const" in option for option in schema["oneOf"]):
        values = [option["const"] for option in schema["oneOf"]]
        titles = {as_text(option["const"]): option.get("title", "") for option in schema["oneOf"]}
    elif "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        names = schema.get("enumNames")
        if names is not None:
            if len(names) != len(values):
                raise TypeError(f"{name}: enumNames must have as many names as there are choices")
            titles = dict(zip(map(as_text, values), names, strict=True))
    else:
        return None
    texts = tuple(map(as_text, values))
    if len(set(texts)) < len(texts):
        raise TypeError(f"{name}: two of the choices are the same as text")
    are_texts = all(isinstance(value, str) for value in values)
    return Options(
        texts,
        tuple(titles.get(text) or text for text in texts) if titles else None,
        None if are_texts else dict(zip(texts, values, strict=True)),
    )


def as_text(value: object) -> str:
    """Return a choice as text: itself, or its JSON."""
    return value if isinstance(value, str) else _json.encode(value).decode()


def titles_of(shape: Shape | None) -> Mapping[str, str]:
    """Return what the choices of an enumeration are called, if that is more than their values say.

    A member is called by its `label`, if it has one, or else by its name, in words.
    """
    choice = None if shape is None else _choice_in(shape)
    if choice is None:
        return {}
    titles: dict[str, str] = {}
    says_more = False
    for value, member in choice.options:
        if not isinstance(member, enum.Enum):
            return {}
        text, words = as_text(value), member.name.replace("_", " ").strip()
        label = getattr(member, "label", None)
        titles[text] = str(label) if label else words.capitalize() if words.isupper() else words
        said = text.replace("_", " ").replace("-", " ").casefold()
        says_more = says_more or bool(label) or said != words.casefold()
    return titles if says_more else {}


def _choice_in(shape: Shape) -> Choice | None:
    match core(shape):
        case Choice() as choice:
            return choice
        case Array(items=items):
            return _choice_in(items)
        case AnyOf(branches=branches):
            found = [choice for choice in map(_choice_in, branches) if choice is not None]
            return found[0] if len(found) == 1 else None
        case _:
            return None


VALUE: Final = "value"
"""The name of the field where a form asks for a single value that has no name."""

_Schema: TypeAlias = Mapping[str, Any]

_ABOUT_ALL: Final = frozenset({"title", "description", "default", "type"})
# They tell a reader something, and allow or forbid nothing. A set is one by its Python type.
_SILENT: Final = frozenset({"examples", "deprecated", "readOnly", "$comment", "uniqueItems"})
_FORMATS: Final = ("email", "uri", "date", "date-time")


@final
@attrs.frozen
class Form:
    """A form and the reading of it.

    Attributes:
        schema: What is shown, in the newest terms.
    """

    schema: types.RequestedSchema
    _restored: Callable[[dict[str, Any]], dict[str, Any]]
    _decode: Callable[[dict[str, Any]], Any]

    def read(self, content: Mapping[str, Any]) -> tuple[Any, Sequence[FormProblem]]:
        """Read what was filled in. Members that are no fields are ignored; so is a field that is null.

        Returns:
            The value, and no problems; or anything, and the problems.
        """
        known = {
            name: value for name, value in content.items() if name in self.schema.properties and value is not None
        }
        problems = form_problems(self.schema, known)
        if problems:
            return None, problems
        try:
            return self._decode(self._restored(known)), ()
        except InvalidValue as error:
            return None, error.problems


def form_for(wanted: Any) -> Form:
    """Make the form that asks for a value.

    Args:
        wanted: A class whose members are the fields; or a type of one field, which is called ``value``; or the
            form's own schema, whose value is a dictionary.

    Raises:
        TypeError: The type has no form in JSON, or none in a form. The message names the field.
    """
    if isinstance(wanted, types.RequestedSchema):
        return Form(wanted, dict, dict)
    kind = JsonType(wanted)
    shape = core(read_hint(wanted, "input"))
    schema = _Definitions(kind.schema).flat(kind.schema)[0]
    if schema.get("type") == "object":
        if "properties" not in schema and not isinstance(shape, (Record, Foreign)):
            raise TypeError("a form has named fields, and this type has members of any name")
        members = {member.name: member.shape for member in shape.members} if isinstance(shape, Record) else {}
        return _form_of_class(kind, schema, members)
    field = _Field.read(VALUE, kind.schema, _Definitions(kind.schema), shape)
    requested = types.RequestedSchema(
        properties={VALUE: field.schema}, required=None if field.nullable else (VALUE,)
    )
    return Form(requested, field.restore_in, lambda content: _decode_value(kind, content))


def _decode_value(kind: JsonType, content: Mapping[str, Any]) -> Any:
    try:
        return kind.decode(content.get(VALUE))
    except InvalidValue as error:
        raise InvalidValue([(VALUE, reason) for _, reason in error.problems]) from error


def _form_of_class(kind: JsonType, schema: _Schema, members: Mapping[str, Shape]) -> Form:
    definitions = _Definitions(kind.schema)
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = frozenset(cast("Sequence[str]", schema.get("required", ())))
    fields = [_Field.read(name, one, definitions, members.get(name)) for name, one in properties.items()]
    needed = tuple(field.name for field in fields if field.name in required and not field.nullable)
    # What may be null is left out in a form, and where the class demands it, it is null all the same.
    nulls = {field.name: None for field in fields if field.name in required and field.nullable}

    def restored(content: dict[str, Any]) -> dict[str, Any]:
        for field in fields:
            content = field.restore_in(content)
        return {**nulls, **content}

    requested = types.RequestedSchema(
        properties={field.name: field.schema for field in fields}, required=needed or None
    )
    return Form(requested, restored, kind.decode)


@final
class _Definitions:
    """Looks things up in a schema, and takes "or null" from them."""

    def __init__(self, root: _Schema) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs", {})

    def flat(self, schema: _Schema) -> tuple[dict[str, Any], bool]:
        """Return a schema without reference and null, and whether it allowed null."""
        nullable = False
        flat = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
        while "$ref" in flat or "anyOf" in flat:
            if "$ref" in flat:
                name = str(flat.pop("$ref")).removeprefix("#/$defs/")
                flat = {**self._definitions.get(name, {"type": "object", "properties": {}}), **flat}
                continue
            branches = [branch for branch in flat["anyOf"] if branch != {"type": "null"}]
            if len(branches) != 1:
                break
            nullable = True
            del flat["anyOf"]
            flat = {**branches[0], **flat}
        types = flat.get("type")
        if isinstance(types, list):
            others = [one for one in cast("list[str]", types) if one != "null"]
            nullable = nullable or len(others) < len(cast("list[str]", types))
            flat["type"] = others[0] if len(others) == 1 else others
        if None in flat.get("enum", ()):
            flat["enum"] = [value for value in flat["enum"] if value is not None]
        if flat.get("default", ...) is None:
            del flat["default"]
        return flat, nullable


@final
@attrs.frozen
class _Field:
    """One field.

    Attributes:
        name: Its name.
        schema: What is shown.
        nullable: Whether the type takes null, which a form cannot give: it is left out.
        values: What each choice means in JSON, if it is not the text itself.
    """

    name: str
    schema: types.PrimitiveSchemaDefinition
    nullable: bool
    values: Mapping[str, object] | None

    @classmethod
    def read(cls, name: str, schema: _Schema, definitions: _Definitions, shape: Shape | None) -> _Field:
        """Read a field from its JSON Schema, and what its choices are called from its shape.

        Raises:
            TypeError: A form cannot say it.
        """
        flat, nullable = definitions.flat(schema)
        options = options_of(name, flat, titles_of(shape))
        if options is not None:
            return cls(name, _single_choice(name, flat, options), nullable, options.values)
        match flat.get("type"):
            case "string":
                return cls(name, _text(name, flat), nullable, None)
            case "integer" | "number" as kind:
                return cls(name, _number(name, flat, kind), nullable, None)
            case "boolean":
                _refuse_other(name, flat, frozenset())
                return cls(name, types.BooleanSchema(**_remarks(flat), **_default(flat)), nullable, None)
            case "array":
                items = definitions.flat(flat.get("items", {}))[0]
                options = options_of(name, items, titles_of(shape))
                if options is None:
                    raise TypeError(f"{name}: a form has lists of choices only")
                return cls(name, _multiple_choice(name, flat, items, options), nullable, options.values)
            case "object":
                raise TypeError(f"{name}: a form is flat, and this would be a form in a form")
            case _:
                raise TypeError(f"{name}: a field of a form is text, a number, yes or no, or a choice of them")

    def restore_in(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with the values that this field's choices stand for."""
        if self.values is None or self.name not in content:
            return content
        values, chosen = self.values, content[self.name]
        restored = [values[one] for one in chosen] if is_array(chosen) else values[chosen]
        return {**content, self.name: restored}


# Choices.


def _single_choice(name: str, schema: _Schema, options: Options) -> types.PrimitiveSchemaDefinition:
    _refuse_other(name, schema, CHOICE_KEYWORDS)
    said: dict[str, Any] = _remarks(schema)
    if "default" in schema:
        said["default"] = as_text(schema["default"])
    if options.titles is None:
        return types.UntitledSingleSelectEnumSchema(enum=options.texts, **said)
    return types.TitledSingleSelectEnumSchema(one_of=options.titled, **said)


def _multiple_choice(
    name: str, schema: _Schema, items: _Schema, options: Options
) -> types.PrimitiveSchemaDefinition:
    _refuse_other(name, schema, frozenset({"items", "minItems", "maxItems"}))
    _refuse_other(name, items, CHOICE_KEYWORDS)
    said: dict[str, Any] = {
        **_remarks(schema),
        "min_items": schema.get("minItems"),
        "max_items": schema.get("maxItems"),
    }
    if "default" in schema:
        said["default"] = tuple(map(as_text, schema["default"]))
    if options.titles is None:
        return types.UntitledMultiSelectEnumSchema(items=types.EnumItems(enum=options.texts), **said)
    return types.TitledMultiSelectEnumSchema(items=types.TitledEnumItems(any_of=options.titled), **said)


# Text and numbers.


def _text(name: str, schema: _Schema) -> types.StringSchema:
    form = schema.get("format")
    if form == "password":
        raise TypeError(f"{name}: nothing secret may be asked for in a form; send the user to a URL for it")
    if form is not None and form not in _FORMATS:
        raise TypeError(f"{name}: a form has no format {form!r}, only {', '.join(_FORMATS)}")
    _refuse_other(name, schema, frozenset({"minLength", "maxLength", "format"}))
    return types.StringSchema(
        **_remarks(schema),
        **_default(schema),
        min_length=schema.get("minLength"),
        max_length=schema.get("maxLength"),
        format=form,
    )


def _number(name: str, schema: _Schema, kind: Literal["integer", "number"]) -> types.NumberSchema:
    limits = {"minimum", "maximum"}
    least, most = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":  # where "greater than 4" is "at least 5"
        limits |= {"exclusiveMinimum", "exclusiveMaximum"}
        if "exclusiveMinimum" in schema:
            above = math.floor(schema["exclusiveMinimum"]) + 1
            least = above if least is None else max(least, above)
        if "exclusiveMaximum" in schema:
            below = math.ceil(schema["exclusiveMaximum"]) - 1
            most = below if most is None else min(most, below)
    _refuse_other(name, schema, frozenset(limits))
    return types.NumberSchema(type=kind, **_remarks(schema), **_default(schema), minimum=least, maximum=most)


def _remarks(schema: _Schema) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in ("title", "description") if keyword in schema}


def _default(schema: _Schema) -> dict[str, Any]:
    return {"default": schema["default"]} if "default" in schema else {}


def _refuse_other(name: str, schema: _Schema, known: frozenset[str]) -> None:
    """Refuse what a form cannot say.

    Raises:
        TypeError: It says such a thing.
    """
    for keyword in schema:
        if keyword not in known and keyword not in _ABOUT_ALL and keyword not in _SILENT:
            raise TypeError(f"{name}: a form has no {keyword}")
