"""How a client finds the revision that it and a server both speak. Decisions only: no I/O, no Trio, no clock.

A client that does not know the server asks ``server/discover`` first. An answer that only a modern server gives
settles the era; any other answer means a legacy server, which wants `initialize`. Silence is no answer, nor is a
refusal of whoever asks, or of any work just now: what a legacy server wants is tried; the question stays open.

Spec: 2026-07-28, basic/versioning; basic/transports/stdio, "Backward Compatibility".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .._codec._json import is_array, is_object
from .._errors import (
    MODERN_ERRORS,
    SERVER_BUSY,
    UNSUPPORTED_PROTOCOL_VERSION,
    RemoteProtocolError,
    RequestError,
)
from .._revisions import Revision

__all__ = ["choose_revision", "common_revision", "is_no_answer", "judge_discovery", "judge_initialize"]

_NO_ANSWERS: Final = frozenset({401, 403, 407, 408, 425, 429})
"""HTTP statuses below 500 that speak of whoever asks, or of the moment, and not of what was asked."""


def common_revision(offered: Iterable[object], ours: Sequence[Revision]) -> Revision | None:
    """Return the newest revision that is in both lists, if there is one."""
    theirs = [version for version in offered if isinstance(version, str)]
    return max((revision for revision in ours if revision in theirs), default=None)


def choose_revision(offered: Iterable[object], ours: Sequence[Revision]) -> Revision:
    """Return the newest revision that is in both lists.

    Raises:
        RemoteProtocolError: There is none.
    """
    theirs = [version for version in offered if isinstance(version, str)]
    common = common_revision(theirs, ours)
    if common is None:
        raise RemoteProtocolError(
            f"no revision in common: the server speaks {', '.join(theirs) or 'none'}, "
            f"this client {', '.join(ours)}"
        )
    return common


def is_no_answer(error: RequestError) -> bool:
    """Whether an error says nothing of the era, because the question was not looked at.

    Args:
        error: What came of ``server/discover``.
    """
    if error.code in MODERN_ERRORS:
        return False
    status = error.status
    return error.code == SERVER_BUSY or (status is not None and (status in _NO_ANSWERS or status >= 500))


def judge_discovery(
    outcome: Mapping[str, Any] | RequestError | None, ours: Sequence[Revision]
) -> Revision | None:
    """Tell from the answer to ``server/discover`` what to speak.

    Args:
        outcome: The result, the error, or `None` for silence.
        ours: The revisions this client speaks; the newest was asked for.

    Returns:
        The revision to speak; `None` if the server is one of the legacy era and decides at `initialize`. Never
        keyed to one error code: legacy servers answer unknown requests in many ways.

    Raises:
        RemoteProtocolError: The server is modern and speaks none of our revisions.
    """
    if isinstance(outcome, RequestError):
        if outcome.code not in MODERN_ERRORS:
            return None
        supported = outcome.data.get("supported") if is_object(outcome.data) else None
        if outcome.code == UNSUPPORTED_PROTOCOL_VERSION and is_array(supported):
            return choose_revision(supported, ours)
        return max(ours)
    supported = None if outcome is None else outcome.get("supportedVersions")
    return choose_revision(supported, ours) if is_array(supported) else None


def judge_initialize(result: Mapping[str, Any], ours: Sequence[Revision]) -> Revision:
    """Return the revision that the server's answer to `initialize` settles.

    Raises:
        RemoteProtocolError: It is none of ours, or the answer names none.
    """
    version = result.get("protocolVersion")
    if not isinstance(version, str):
        raise RemoteProtocolError("initialize: the result names no protocolVersion")
    for revision in ours:
        if revision == version and not revision.is_modern:
            return revision
    raise RemoteProtocolError(f"initialize: the server wants to speak {version}, this client {', '.join(ours)}")
