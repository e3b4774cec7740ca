"""What an authorization server for tests receives, and how it answers: JSON, pages, redirects."""

from __future__ import annotations

import html
import secrets
from collections.abc import Mapping
from typing import Final, final

import attrs

from .._codec import _json

NOT_STORED: Final = {"cache-control": "no-store", "pragma": "no-cache"}


@final
@attrs.frozen
class ReceivedRequest:
    """A request that an `AuthorizationServer` has received.

    Attributes:
        method: The method of HTTP.
        path: The path.
        parameters: Those of its query and its form.
        headers: Its header fields, their names in lower case.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str] = attrs.field(repr=False)


@final
@attrs.frozen
class Answer:
    """An answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, _json.encode(value), {"content-type": "application/json", **(headers or {})})


def page_of(title: str, content: str, status: int = 200) -> Answer:
    """Return a page that no other page can show in a frame."""
    shown = html.escape(title)
    text = f"<!doctype html><meta charset=utf-8><title>{shown}</title><h1>{shown}</h1>{content}"
    return Answer(
        status,
        text.encode(),
        {
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
            "referrer-policy": "no-referrer",
            **NOT_STORED,
        },
    )


def random_text(size: int = 18) -> str:
    """Return a text that nobody can guess, of so many random bytes."""
    return secrets.token_urlsafe(size)
