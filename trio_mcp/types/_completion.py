"""Completing what a user has begun to type. Spec: server/utilities/completion."""

from collections.abc import Mapping, Sequence
from typing import Literal, final

from .._revisions import Revision
from ._fields import member, wire
from ._messages import RequestParams, Result

__all__ = [
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "PromptReference",
    "ResourceTemplateReference",
]


@final
@wire
class PromptReference:
    """The prompt whose argument is completed.

    Attributes:
        name: The prompt's name.
        title: The prompt's name, for people.
    """

    type: Literal["ref/prompt"] = "ref/prompt"
    name: str
    title: str | None = member(default=None, hint=True, since=Revision.V2025_06_18)


@final
@wire
class ResourceTemplateReference:
    """The resource template whose variable is completed. Before 2025-06-18 it was called `ResourceReference`.

    Attributes:
        uri: The template, or a URI.
    """

    type: Literal["ref/resource"] = "ref/resource"
    uri: str


@final
@wire
class CompletionArgument:
    """What is to be completed.

    Attributes:
        name: Which argument or variable.
        value: What has been typed so far.
    """

    name: str
    value: str


@final
@wire(since=Revision.V2025_06_18)
class CompletionContext:
    """What a completion may depend on.

    Attributes:
        arguments: The arguments or variables already filled in, by name.
    """

    arguments: Mapping[str, str] | None = None


@final
@wire
class CompleteRequestParams(RequestParams):
    """Ask how an argument might go on.

    Attributes:
        ref: What the argument belongs to.
        argument: The argument.
        context: What has been filled in before.
    """

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = member(default=None, since=Revision.V2025_06_18)


@final
@wire
class Completion:
    """How an argument might go on.

    Attributes:
        values: At most 100 values, best first.
        total: How many there are in all.
        has_more: Whether there are more than `values`, even if `total` is not known.
    """

    values: Sequence[str] = member(max_items=100)
    total: int | None = member(default=None, hint=True)
    has_more: bool | None = member(default=None, hint=True)


@final
@wire
class CompleteResult(Result):
    """The answer to a request for completion."""

    completion: Completion
