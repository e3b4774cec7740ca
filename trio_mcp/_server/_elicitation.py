"""Elicitation: asks the client's user for a value by a form, or to open a URL.

Three parts: the questions; the form that asks for a value of a Python type, and what was filled in as that value;
the choices of a field. How a question travels lives in `_asking`; the check of what was filled in, in
`_core._forms`.

Spec: client/elicitation, from 2025-06-18 on; URLs from 2025-11-25 on. Forms: 2026-07-28, "Requested Schema";
SEP-1034 (defaults), SEP-1330 (choices).
"""

from __future__ import annotations

import enum
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast, final

import attrs

from .. import types
from .._codec import _json
from .._codec._json import InvalidData, is_array, is_object
from .._codec._jsonrpc import from_wire, to_wire
from .._core._forms import FormProblem, form_problems
from .._core._uri_template import check_web_url
from .._errors import URL_ELICITATION_REQUIRED, LocalProtocolError, RequestError, ToolError
from .._limits import check_given
from .._revisions import INPUT_METHODS, Revision
from .._schema import InvalidValue, JsonType
from .._schema._hints import read_hint
from .._schema._members import UnsupportedHint
from .._schema._shapes import AnyOf, Array, Choice, Foreign, Record, Shape, core
from ._asking import AskableClient, ClientFeatures, unusable_answer

_T = TypeVar("_T")

_METHOD: Final = "elicitation/create"
_FIRST: Final = Revision.V2025_06_18
_WITH_URLS: Final = Revision.V2025_11_25

# The missing capability is named in full only if the client has declared a part: `{}` means "forms" already.
_ANY: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability())
_FORMS: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability(form={}))
_URLS: Final = types.ClientCapabilities(elicitation=types.ElicitationCapability(url={}))


@final
@attrs.frozen(repr=False)
class Elicitation(Generic[_T]):
    """What the user did with a question.

    It is true if they accepted, and did not answer `False` to a question for a `bool`::

        if await ctx.elicit("Send by courier?", bool): ...

    Attributes:
        action: ``"accept"``, ``"decline"`` if they refused, or ``"cancel"`` if they did neither.
        elicitation_id: Identifies a visit to a URL, where the revision has ids for that.
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
            ToolError: They did not accept. A tool that needs the value may let it pass: its caller reads why.
        """
        if not self.accepted:
            done = "declined" if self.action == "decline" else "did not answer"
            raise ToolError(f"The user {done}.")
        return cast("_T", self._value)  # they accepted, so it is what was asked for


async def elicit(client: AskableClient, message: str, wanted: Any) -> Elicitation[Any]:
    """Ask for a value; see `Context.elicit`."""
    check_given(elicit, {"message": message})
    try:
        form = form_for(wanted)
    except UnsupportedHint as error:
        raise TypeError(f"wanted: {error}") from None
    require_form(client, form.schema)
    asked = types.ElicitRequestFormParams(message=message, requested_schema=form.schema)
    answer = await client.requester.ask(_METHOD, asked)
    content = answer.get("content")
    if is_object(content):
        # The form reads it, with better messages, and accepts null; only the other members are checked here.
        answer = {name: value for name, value in answer.items() if name != "content"}
    else:
        content = None
    try:
        result = from_wire(answer, types.ElicitResult)
    except InvalidData as error:
        raise unusable_answer(_METHOD, str(error)) from error
    if result.action != "accept":
        return Elicitation(result.action)
    if content is None and form.schema.required:
        raise unusable_answer(_METHOD, "content: is missing, although the user accepted")
    value, problems = form.read(content or {})
    if problems:
        why = "; ".join(f"content.{name}: {problem}" if name else problem for name, problem in problems)
        raise unusable_answer(_METHOD, why)
    return Elicitation(result.action, value)


async def elicit_url(
    client: AskableClient, message: str, url: str, elicitation_id: str | None
) -> Elicitation[None]:
    """Ask the user to open a URL; see `Context.elicit_url`."""
    check_given(elicit_url, locals())
    check_web_url(url)
    require_urls(client)
    if client.revision is _WITH_URLS and elicitation_id is None:
        elicitation_id = _new_id()
    asked = types.ElicitRequestURLParams(message=message, url=url, elicitation_id=elicitation_id)
    result = await client.ask(_METHOD, asked, types.ElicitResult)
    return Elicitation(result.action, elicitation_id=elicitation_id if client.revision is _WITH_URLS else None)


def require_form(client: ClientFeatures, schema: types.RequestedSchema) -> None:
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


def require_urls(client: ClientFeatures) -> None:
    """Check that the client can ask its user to open a URL.

    Raises:
        CapabilityMissing: It cannot.
    """
    client.require_revision(_WITH_URLS, "elicitation by URL")
    capability = client.capabilities.elicitation
    if capability is None or capability.url is None:
        raise client.missing("elicitation by URL", _URLS)


def _new_id() -> str:
    return secrets.token_urlsafe(18)


@final
class URLElicitationRequired(RequestError):
    """Raise it in a handler that cannot answer before the user has visited a URL. The client then retries.

    The request ends at once, and the handler runs anew when the client retries. A client of 2025-11-25 gets the
    error that this revision has for it, one of 2026-07-28 an `InputRequiredResult`. To any other client it is
    `CapabilityMissing`.

    Args:
        *elicitations: The URLs the user must visit. Those without an id are given one.
        message: The reason, in one sentence.

    Attributes:
        elicitations: The URLs the user must visit.

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
            raise ValueError("URLElicitationRequired needs at least one elicitation, with the URL to visit")
        for elicitation in elicitations:
            check_web_url(elicitation.url)
        self.elicitations: tuple[types.ElicitRequestURLParams, ...] = tuple(
            types.evolve(one, elicitation_id=_new_id()) if one.elicitation_id is None else one
            for one in elicitations
        )
        data = {"elicitations": [to_wire(one, _WITH_URLS) for one in self.elicitations]}
        super().__init__(URL_ELICITATION_REQUIRED, message, data)


def result_for(error: URLElicitationRequired, client: ClientFeatures, method: str) -> types.InputRequiredResult:
    """Return the result that a modern client gets instead of the error.

    Raises:
        URLElicitationRequired: The client's revision has the error itself.
        CapabilityMissing: The client has not declared elicitation by URL.
        LocalProtocolError: The method has no such result (2026-07-28, basic/patterns/mrtr).
    """
    require_urls(client)
    if not client.revision.is_modern:
        raise error
    if method not in INPUT_METHODS:
        raise LocalProtocolError(
            f"{method} cannot ask for input; {', '.join(sorted(INPUT_METHODS))} can"
        ) from error
    requests = {
        f"url-{number}": types.ElicitRequest(params=one) for number, one in enumerate(error.elicitations, 1)
    }
    return types.InputRequiredResult(input_requests=requests)


CHOICE_KEYWORDS: Final = frozenset({"enum", "enumNames", "const", "oneOf"})
"""The keywords of JSON Schema that list choices."""


@final
@attrs.frozen
class Options:
    """The choices of a field. In a form they are text; other values are shown as their JSON, and restored.

    Attributes:
        texts: Each choice as text.
        titles: Their titles; `None` if these are the texts.
        values: The JSON value of each text; `None` if it is the text.
    """

    texts: tuple[str, ...]
    titles: tuple[str, ...] | None
    values: Mapping[str, object] | None

    @property
    def titled(self) -> list[types.EnumOption]:
        """The choices with their titles."""
        titles = self.texts if self.titles is None else self.titles
        return [types.EnumOption(const=text, title=title) for text, title in zip(self.texts, titles, strict=True)]


def membersof(name: str, schema: Mapping[str, Any], titles: Mapping[str, str]) -> Options | None:
    """Return the choices of a schema, or `None` if it has none.

    Args:
        name: The field, for errors.
        schema: Its JSON Schema.
        titles: The titles of the choices, by their text, unless the schema has titles.

    Raises:
        TypeError: Two choices are equal as text, or there are too few or too many names.
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
    """Return titles for the choices of an enumeration, if these add something to their values.

    The title of a member is its `label`, if it has one, or else its name, in words.
    """
    choice = None if shape is None else _choice_in(shape)
    if choice is None:
        return {}
    titles: dict[str, str] = {}
    adds_something = False
    for value, member in choice.options:
        if not isinstance(member, enum.Enum):
            return {}
        text, words = as_text(value), member.name.replace("_", " ").strip()
        label = getattr(member, "label", None)
        titles[text] = str(label) if label else words.capitalize() if words.isupper() else words
        value_words = text.replace("_", " ").replace("-", " ").casefold()
        adds_something = adds_something or bool(label) or value_words != words.casefold()
    return titles if adds_something else {}


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
"""The name of the field of a form that asks for a single value."""

_Schema: TypeAlias = Mapping[str, Any]

_COMMON: Final = frozenset({"title", "description", "default", "type"})
# Annotations, which allow or forbid nothing. Items are unique because the Python type is a set.
_IGNORED: Final = frozenset({"examples", "deprecated", "readOnly", "$comment", "uniqueItems"})
_FORMATS: Final = ("email", "uri", "date", "date-time")


@final
@attrs.frozen
class Form:
    """A form, and how to read what was filled in.

    A form is flat; its fields are text, numbers, booleans, and choices of text. A type with more conditions is
    refused when the form is made, with the name of the field: a question without its conditions gets wrong
    answers.

    Attributes:
        schema: The schema that is sent, as in the newest revision.
    """

    schema: types.RequestedSchema
    _restored: Callable[[dict[str, Any]], dict[str, Any]]
    _decode: Callable[[dict[str, Any]], Any]

    def read(self, content: Mapping[str, Any]) -> tuple[Any, Sequence[FormProblem]]:
        """Read what was filled in. Members that are no fields are ignored; so is a field that is null.

        Returns:
            The value, and no problems; or `None`, and the problems.
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
            form's schema, whose value is a dictionary.

    Raises:
        TypeError: The type has no JSON Schema, or none that a form can have. The message names the field.
    """
    if isinstance(wanted, types.RequestedSchema):
        return Form(wanted, dict, dict)
    return _form_of_class_known(wanted) if isinstance(wanted, type) else _form_of(wanted)


def _form_of(wanted: Any) -> Form:
    kind = JsonType(wanted)
    shape = core(read_hint(wanted, "input"))
    schema = _Definitions(kind.schema).flat(kind.schema)[0]
    if schema.get("type") == "object":
        if "properties" not in schema and not isinstance(shape, (Record, Foreign)):
            raise TypeError("a form has named fields, and this type has members of any name; use a class instead")
        members = {member.name: member.shape for member in shape.members} if isinstance(shape, Record) else {}
        return _form_of_class(kind, schema, members)
    field = _Field.read(VALUE, kind.schema, _Definitions(kind.schema), shape)
    requested = types.RequestedSchema(
        properties={VALUE: field.schema}, required=None if field.nullable else (VALUE,)
    )
    return Form(requested, field.restore_in, lambda content: _decode_value(kind, content))


_form_of_class_known: Final = lru_cache(maxsize=256)(_form_of)  # a handler asks the same again and again


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
    # A form cannot give null: the field is left out, and is set to null where the class requires it.
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
@attrs.frozen
class _Definitions:
    """Resolves references in a schema, and removes "or null" from it."""

    _root: _Schema

    def flat(self, schema: _Schema) -> tuple[dict[str, Any], bool]:
        """Return a schema without reference and null, and whether it allowed null."""
        nullable = False
        flat = {keyword: value for keyword, value in schema.items() if keyword != "$defs"}
        while "$ref" in flat or "anyOf" in flat:
            if "$ref" in flat:
                name = str(flat.pop("$ref")).removeprefix("#/$defs/")
                flat = {**self._root.get("$defs", {}).get(name, {"type": "object", "properties": {}}), **flat}
                continue
            branches = [branch for branch in flat["anyOf"] if branch != {"type": "null"}]
            if len(branches) != 1 and not all("enum" in branch or "const" in branch for branch in branches):
                break
            nullable = nullable or len(branches) < len(flat["anyOf"])
            del flat["anyOf"]
            if len(branches) != 1:  # values of several types
                branches = [
                    {"enum": [value for part in branches for value in part.get("enum", [part.get("const")])]}
                ]
            flat = {**branches[0], **flat}
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
        schema: The schema that is sent.
        nullable: Whether the type accepts null, which a form cannot give: the field is left out.
        values: The JSON value of each choice, if it is not the text itself.
    """

    name: str
    schema: types.PrimitiveSchemaDefinition
    nullable: bool
    values: Mapping[str, object] | None

    @classmethod
    def read(cls, name: str, schema: _Schema, definitions: _Definitions, shape: Shape | None) -> _Field:
        """Make a field from its JSON Schema, and the titles of its choices from its shape.

        Raises:
            TypeError: A form cannot have it.
        """
        flat, nullable = definitions.flat(schema)
        options = membersof(name, flat, titles_of(shape))
        if options is not None:
            return cls(name, _single_choice(name, flat, options), nullable, options.values)
        match flat.get("type"):
            case "string":
                return cls(name, _text(name, flat), nullable, None)
            case "integer" | "number" as kind:
                return cls(name, _number(name, flat, kind), nullable, None)
            case "boolean":
                _refuse_other(name, flat, frozenset())
                return cls(name, types.BooleanSchema(**_annotations(flat), **_default(flat)), nullable, None)
            case "array":
                items = definitions.flat(flat.get("items", {}))[0]
                options = membersof(name, items, titles_of(shape))
                if options is None:
                    raise TypeError(f"{name}: in a form a list must be of choices (Literal or Enum)")
                return cls(name, _multiple_choice(name, flat, items, options), nullable, options.values)
            case "object":
                raise TypeError(f"{name}: a form is flat; move the members of this class to the form itself")
            case _:
                raise TypeError(f"{name}: a field of a form must be text, a number, a boolean or a choice")

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
    members: dict[str, Any] = _annotations(schema)
    if "default" in schema:
        members["default"] = as_text(schema["default"])
    if options.titles is None:
        return types.UntitledSingleSelectEnumSchema(enum=options.texts, **members)
    return types.TitledSingleSelectEnumSchema(one_of=options.titled, **members)


def _multiple_choice(
    name: str, schema: _Schema, items: _Schema, options: Options
) -> types.PrimitiveSchemaDefinition:
    _refuse_other(name, schema, frozenset({"items", "minItems", "maxItems"}))
    _refuse_other(name, items, CHOICE_KEYWORDS)
    members: dict[str, Any] = {
        **_annotations(schema),
        "min_items": schema.get("minItems"),
        "max_items": schema.get("maxItems"),
    }
    if "default" in schema:
        members["default"] = tuple(map(as_text, schema["default"]))
    if options.titles is None:
        return types.UntitledMultiSelectEnumSchema(items=types.EnumItems(enum=options.texts), **members)
    return types.TitledMultiSelectEnumSchema(items=types.TitledEnumItems(any_of=options.titled), **members)


# Text and numbers.


def _text(name: str, schema: _Schema) -> types.StringSchema:
    form = schema.get("format")
    if form == "password":
        raise TypeError(f"{name}: a form must not ask for secrets; use Context.elicit_url instead")
    if form is not None and form not in _FORMATS:
        raise TypeError(f"{name}: a form has no format {form!r}, only {', '.join(_FORMATS)}")
    _refuse_other(name, schema, frozenset({"minLength", "maxLength", "format"}))
    return types.StringSchema(
        **_annotations(schema),
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
    return types.NumberSchema(type=kind, **_annotations(schema), **_default(schema), minimum=least, maximum=most)


def _annotations(schema: _Schema) -> dict[str, Any]:
    return {keyword: schema[keyword] for keyword in ("title", "description") if keyword in schema}


def _default(schema: _Schema) -> dict[str, Any]:
    return {"default": schema["default"]} if "default" in schema else {}


def _refuse_other(name: str, schema: _Schema, known: frozenset[str]) -> None:
    """Refuse keywords that a form cannot have.

    Raises:
        TypeError: There is one.
    """
    for keyword in schema:
        if keyword not in known and keyword not in _COMMON and keyword not in _IGNORED:
            raise TypeError(f"{name}: a form cannot have {keyword}; remove it from the type")
