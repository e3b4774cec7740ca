"""A server asking the client's user. Spec: client/elicitation.

The schema of a form is a small part of JSON Schema: an object whose properties are the classes here.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, final

from .._revisions import Revision
from ._fields import member, wire
from ._messages import NotificationParams
from ._metadata import MetaObject
from ._tasks import TaskMetadata

__all__ = [
    "BooleanSchema",
    "ElicitAction",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitValue",
    "ElicitationCompleteNotificationParams",
    "EnumItems",
    "EnumOption",
    "EnumSchema",
    "LegacyTitledEnumSchema",
    "MultiSelectEnumSchema",
    "NumberSchema",
    "PrimitiveSchemaDefinition",
    "RequestedSchema",
    "SingleSelectEnumSchema",
    "StringSchema",
    "TitledEnumItems",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
]

_FIRST: Final = Revision.V2025_06_18


@final
@wire(since=_FIRST)
class StringSchema:
    """A line of text.

    Attributes:
        title: What to call it.
        description: What it is.
        min_length: How many characters it needs.
        max_length: How many characters it may have.
        format: What it must look like.
        default: What it is if the user changes nothing.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    min_length: int | None = None
    max_length: int | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    default: str | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_FIRST)
class NumberSchema:
    """A number, or a whole one.

    Attributes:
        type: Which of the two.
        title: What to call it.
        description: What it is.
        minimum: The smallest it may be.
        maximum: The largest it may be.
        default: What it is if the user changes nothing.
    """

    type: Literal["number", "integer"]
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    minimum: int | float | None = None
    maximum: int | float | None = None
    default: int | float | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_FIRST)
class BooleanSchema:
    """Yes or no.

    Attributes:
        title: What to call it.
        description: What it is.
        default: What it is if the user changes nothing.
    """

    type: Literal["boolean"] = "boolean"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    default: bool | None = None


@final
@wire(since=_FIRST)
class UntitledSingleSelectEnumSchema:
    """One of several values that are shown as they are.

    Attributes:
        title: What to call it.
        description: What it is.
        enum: The values.
        default: What it is if the user changes nothing.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    enum: Sequence[str]
    default: str | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=_FIRST)
class LegacyTitledEnumSchema:
    """One of several values, shown by names in a list beside them: how 2025-06-18 does it.

    Attributes:
        title: What to call it.
        description: What it is.
        enum: The values.
        enum_names: Their names, in the same order.
        default: What it is if the user changes nothing.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    enum: Sequence[str]
    enum_names: Sequence[str] | None = None
    default: str | None = member(default=None, since=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class EnumOption:
    """A value and its name.

    Attributes:
        const: The value.
        title: Its name.
    """

    const: str
    title: str


@final
@wire(since=Revision.V2025_11_25)
class TitledSingleSelectEnumSchema:
    """One of several values, shown by their names. 2025-06-18 is sent the legacy form.

    Attributes:
        title: What to call it.
        description: What it is.
        one_of: The values.
        default: What it is if the user changes nothing.
    """

    type: Literal["string"] = "string"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    one_of: Sequence[EnumOption]
    default: str | None = None


@final
@wire(since=Revision.V2025_11_25)
class EnumItems:
    """The values to choose from, shown as they are."""

    type: Literal["string"] = "string"
    enum: Sequence[str]


@final
@wire(since=Revision.V2025_11_25)
class TitledEnumItems:
    """The values to choose from, shown by their names."""

    any_of: Sequence[EnumOption]


@final
@wire(since=Revision.V2025_11_25)
class UntitledMultiSelectEnumSchema:
    """Any of several values that are shown as they are.

    Attributes:
        title: What to call it.
        description: What it is.
        min_items: How many must be chosen.
        max_items: How many may be chosen.
        items: The values.
        default: What it is if the user changes nothing.
    """

    type: Literal["array"] = "array"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    min_items: int | None = None
    max_items: int | None = None
    items: EnumItems
    default: Sequence[str] | None = None


@final
@wire(since=Revision.V2025_11_25)
class TitledMultiSelectEnumSchema:
    """Any of several values, shown by their names.

    Attributes:
        title: What to call it.
        description: What it is.
        min_items: How many must be chosen.
        max_items: How many may be chosen.
        items: The values.
        default: What it is if the user changes nothing.
    """

    type: Literal["array"] = "array"
    title: str | None = member(default=None, hint=True)
    description: str | None = member(default=None, hint=True)
    min_items: int | None = None
    max_items: int | None = None
    items: TitledEnumItems
    default: Sequence[str] | None = None


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
"""One of several values."""

MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
"""Any of several values."""

EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema
"""A choice among several values."""

PrimitiveSchemaDefinition: TypeAlias = StringSchema | NumberSchema | BooleanSchema | EnumSchema
"""What one field of a form takes."""


@final
@wire(since=_FIRST)
class RequestedSchema:
    """The fields of a form.

    Attributes:
        schema: The dialect of JSON Schema it is written in, as a URI.
        properties: The fields, by name, in the order they are shown.
        required: The names of those that must be filled in.
    """

    schema: str | None = member(default=None, name="$schema", since=Revision.V2025_11_25)
    type: Literal["object"] = "object"
    properties: Mapping[str, PrimitiveSchemaDefinition]
    required: Sequence[str] | None = None


@final
@wire(since=_FIRST)
class ElicitRequestFormParams:
    """Ask the user to fill in a form. Nothing secret may be asked for like this.

    Attributes:
        message: What is asked for, and why.
        requested_schema: The fields of the form.
        task: Ask that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    mode: Literal["form"] = member(default="form", since=Revision.V2025_11_25)
    message: str
    requested_schema: RequestedSchema
    task: TaskMetadata | None = member(default=None, since=Revision.V2025_11_25, until=Revision.V2025_11_25)


@final
@wire(since=Revision.V2025_11_25)
class ElicitRequestURLParams:
    """Ask the user to go to a URL, where the server gets what it needs without the client seeing it.

    Attributes:
        message: What for.
        url: Where to.
        elicitation_id: What the server will know it by when it tells that the user is done. Only 2025-11-25 has
            it, and there it is required.
        task: Ask that the request become a task.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    mode: Literal["url"] = "url"
    message: str
    url: str
    elicitation_id: str | None = member(
        default=None, until=Revision.V2025_11_25, required_in=(Revision.V2025_11_25,)
    )
    task: TaskMetadata | None = member(default=None, until=Revision.V2025_11_25)


ElicitRequestParams: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams
"""A question to the user."""

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""What the user did: agreed, refused, or neither."""

ElicitValue: TypeAlias = str | int | float | bool | Sequence[str]
"""What the user filled in. A choice of several values there is from 2025-11-25 on."""


@final
@wire(since=_FIRST)
class ElicitResult:
    """What the user said.

    Attributes:
        action: Whether they agreed.
        content: What they filled in, by field, if they agreed to a form.
    """

    meta: MetaObject | None = member(default=None, hint=True, until=Revision.V2025_11_25)
    action: ElicitAction
    content: Mapping[str, ElicitValue] | None = None


@final
@wire(since=Revision.V2025_11_25, until=Revision.V2025_11_25)
class ElicitationCompleteNotificationParams(NotificationParams):
    """Tell that the user is done at the URL they were sent to."""

    elicitation_id: str
