"""What the typed calls of a client can be told beside what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from ..types import InputResponses
from ._progress import ProgressTarget

__all__ = ["Brought", "ListOptions", "WorkOptions", "brought_by", "refuse_unknown"]


class ListOptions(TypedDict, total=False):
    """What every call for a list can be told.

    Attributes:
        cursor: Where to begin: the `next_cursor` of a page that was read before. Default: at the beginning.
        fresh: Whether to ask the server even if a kept answer is still good. Default: no.
        meta: What to add to `_meta` of each request.
    """

    cursor: str | None
    fresh: bool
    meta: Mapping[str, object] | None


class WorkOptions(TypedDict, total=False):
    """What every call that a server may work on for a while can be told.

    Attributes:
        on_progress: Called with each `Progress` the server reports, in this task, all before the call returns; or
            a channel that takes them and is closed when the call is over (see `ProgressTarget`).
        meta: What to add to the request's `_meta`.
        input_responses: By hand: the answers to the `input_requests` that came back before.
        request_state: By hand: the `request_state` that came back before; `None` if none did.
    """

    on_progress: ProgressTarget | None
    meta: Mapping[str, object] | None
    input_responses: InputResponses | None
    request_state: str | None


class Brought(TypedDict):
    """What the parameters of a request that a server may answer by asking back have in common."""

    meta: Mapping[str, object] | None
    input_responses: InputResponses | None
    request_state: str | None


def brought_by(options: WorkOptions) -> Brought:
    """Return what goes into the parameters.

    Raises:
        TypeError: There is no such option.
    """
    if options:
        refuse_unknown(options, WorkOptions)
    return {
        "meta": options.get("meta"),
        "input_responses": options.get("input_responses"),
        "request_state": options.get("request_state"),
    }


def refuse_unknown(options: Mapping[str, object], known: type[Any]) -> None:
    """Refuse an option that is misspelt. Python lets everything through where options are ``**options``.

    Args:
        options: What was given.
        known: The `TypedDict` that says what there is.

    Raises:
        TypeError: There is no such option.
    """
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        names = ", ".join(sorted(unknown))
        raise TypeError(f"there is no option {names}; see {known.__name__}: {', '.join(known.__annotations__)}")
