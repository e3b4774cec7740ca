"""Asking the client's user: for a value by a form, or to go somewhere by a URL.

Spec: client/elicitation, from 2025-06-18 on; URLs from 2025-11-25 on.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, Generic, TypeVar, cast, final

import attrs

from .. import types
from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._codec._json import is_object
from .._core._uris import check_web_url
from .._errors import URL_ELICITATION_REQUIRED, LocalProtocolError, RequestError, ToolError
from .._revisions import Revision
from ._asking import Abilities, Inquiry, unusable

__all__ = ["Elicitation", "URLElicitationRequired", "elicit", "elicit_url", "result_for"]

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
    from ._form import form_for  # it has much to import, and most servers never ask

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
