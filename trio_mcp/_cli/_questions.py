"""What a server asks, asked at the terminal: forms field by field, visits to a page, and what a model is to say.

Nothing is asked without a terminal: then every question is declined, and sampling is not declared.

Spec: 2026-07-28, client/elicitation, "Security Considerations": who asks is said, and everything can be declined;
client/sampling, "User Interaction Model": somebody sees what a model is asked, and what it answers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, cast, final

import trio

from .. import types
from .._client._questions import ElicitAnswer
from .._core._forms import form_problems
from .._errors import RequestError
from ._calls import shown_content
from ._console import Console, is_terminal
from ._layout import shown_line

DECLINED_SAMPLING: Final = (-1, "the user declined to answer for a model")
"""The code and the message of the error for a sampling that is refused. Spec: 2025-11-25, client/sampling."""

_YES: Final = frozenset({"y", "yes", "true", "1"})
_NO: Final = frozenset({"n", "no", "false", "0"})


async def read_line() -> str | None:
    """Wait for a line that is typed, and return it without its end; `None` for Ctrl+D."""
    # Past `sys.stdin`, in whose lock Python would wait at its end for a thread that still reads.
    descriptor = sys.stdin.fileno()
    if sys.platform == "win32":
        data = await trio.to_thread.run_sync(os.read, descriptor, 65_536, abandon_on_cancel=True)
    else:
        await trio.lowlevel.wait_readable(descriptor)
        data = os.read(descriptor, 65_536)  # a terminal gives whole lines
    line = data.decode(errors="replace")
    return line.rstrip("\r\n") if line else None


@final
class Questioner:
    """Asks the user, one question at a time.

    Args:
        console: Where the questions are shown: on standard error, so that standard output has the result alone.
        server: Who asks.
    """

    def __init__(self, console: Console, server: str) -> None:
        self._console = console
        self._server = shown_line(server)
        self._turn = trio.Lock()

    async def __call__(self, params: types.ElicitRequestParams) -> ElicitAnswer:
        """Return the user's answer."""
        async with self._turn:
            if not is_terminal(sys.stdin):
                self._console.quote(f"{self._server} asks: ", params.message)
                self._console.note("(declined: there is no terminal to ask at)")
                return "decline"
            if isinstance(params, types.ElicitRequestURLParams):
                return await self._ask_to_visit(params)
            return await self._ask(params)

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Return what the user says in place of a model.

        Raises:
            RequestError: The user declines.
        """
        async with self._turn:
            self._console.note(f"{self._server} asks a model for at most {params.max_tokens} tokens")
            if params.system_prompt is not None:
                self._console.quote("  system: ", params.system_prompt)
            for message in params.messages:
                given = message.content
                blocks = given if isinstance(given, Sequence) else (given,)
                self._console.quote(f"  {message.role}: ", "\n".join(shown_content(blocks)))
            self._console.note("(type the answer, or paste it; Ctrl+D sends it, or declines if there is none)")
            lines: list[str] = []
            while (line := await read_line()) is not None:
                lines.append(line)
        text = "\n".join(lines)
        if not text.strip():
            raise RequestError(*DECLINED_SAMPLING)
        content = types.TextContent(text=text)
        return types.CreateMessageResult(role="assistant", content=content, model="typed-by-hand")

    async def _ask_to_visit(self, params: types.ElicitRequestURLParams) -> ElicitAnswer:
        self._console.quote(f"{self._server} asks you to open a page: ", params.message)
        self._console.note(f"  {shown_line(params.url)}")
        agreed = await self._agrees("Open it in a browser if you trust it. Do you? [y/N] ", otherwise=False)
        return "accept" if agreed else "decline"

    async def _ask(self, params: types.ElicitRequestFormParams) -> ElicitAnswer:
        fields = params.requested_schema.properties
        required = params.requested_schema.required or ()
        self._console.quote(f"{self._server} asks: ", params.message)
        self._console.note("(Ctrl+D declines)")
        content: dict[str, types.ElicitValue] = {}
        for name, field in fields.items():
            value = await self._ask_field(name, field, is_required=name in required)
            if isinstance(value, _Declined):
                self._console.note("")
                return "decline"
            if value is not None:
                content[name] = value
        if len(fields) != 1 and not await self._agrees("Send this? [Y/n] ", otherwise=True):
            return "decline"
        return content

    async def _ask_field(
        self, name: str, field: types.PrimitiveSchemaDefinition, *, is_required: bool
    ) -> types.ElicitValue | _Declined | None:
        """Ask until the answer fits. Returns `None` for a field that is left out."""
        label = shown_line(field.title or name)
        if field.description:
            self._console.quote(f"  {label}: ", field.description)
        default = "" if field.default is None else f" [{shown_line(_written(field.default))}]"
        optional = "" if is_required or default else ", may be left out"
        while True:
            self._console.prompt(f"  {label} ({shown_line(_kind_of(field))}{optional}){default}: ")
            line = await read_line()
            if line is None:
                return _DECLINED
            if not line.strip():
                if field.default is not None or not is_required:
                    return None  # the default is filled in before the form is sent
                problem = "it is required"
            else:
                value = _read(line.strip(), field)
                form = types.RequestedSchema(properties={name: field})
                problem = "; ".join(problem for _, problem in form_problems(form, {name: value}, quotes=False))
                if not problem:
                    return cast("types.ElicitValue", value)  # it fits the field
            self._console.quote("    ", problem)

    async def _agrees(self, question: str, *, otherwise: bool) -> bool:
        while True:
            self._console.prompt(question)
            line = await read_line()
            if line is None:
                self._console.note("")
                return False
            if not line.strip():
                return otherwise
            if line.strip().lower() in _YES | _NO:
                return line.strip().lower() in _YES


@final
class _Declined:
    """The type of the mark for a form that the user does not fill in."""


_DECLINED: Final = _Declined()


def _written(value: types.ElicitValue) -> str:
    """Return a default as it would be typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) else ",".join(value)


def _options(field: types.PrimitiveSchemaDefinition) -> Mapping[str, str]:
    """Return what can be chosen: how it is called, and what is sent for it. Empty for a field without choices."""
    match field:
        case types.UntitledSingleSelectEnumSchema(enum=values):
            return {value: value for value in values}
        case types.LegacyTitledEnumSchema(enum=values, enum_names=names):
            return dict(zip(names or values, values, strict=False))
        case types.TitledSingleSelectEnumSchema(one_of=options):
            return {option.title: option.const for option in options}
        case types.UntitledMultiSelectEnumSchema(items=items):
            return {value: value for value in items.enum}
        case types.TitledMultiSelectEnumSchema(items=titled):
            return {option.title: option.const for option in titled.any_of}
        case _:
            return {}


def _kind_of(field: types.PrimitiveSchemaDefinition) -> str:
    options = ", ".join(_options(field))
    match field:
        case types.UntitledMultiSelectEnumSchema() | types.TitledMultiSelectEnumSchema():
            return f"some of {options}, with commas between"
        case types.BooleanSchema():
            return "yes or no"
        case types.NumberSchema(type=kind, minimum=minimum, maximum=maximum):
            least = "" if minimum is None else f", {minimum} or more"
            most = "" if maximum is None else f", {maximum} or less"
            return f"{kind}{least}{most}"
        case types.StringSchema(format=form):
            return form or "text"
        case _:
            return f"one of {options}"


def _read(text: str, field: types.PrimitiveSchemaDefinition) -> object:
    """Return what a text stands for. If it is nothing that the field takes, the text."""
    match field:
        case types.BooleanSchema():
            return True if text.lower() in _YES else False if text.lower() in _NO else text
        case types.NumberSchema():
            try:
                number: object = json.loads(text)
            except (ValueError, RecursionError):
                return text
            return number
        case types.StringSchema():
            return text
        case types.UntitledMultiSelectEnumSchema() | types.TitledMultiSelectEnumSchema():
            return [_chosen(part.strip(), _options(field)) for part in text.split(",")]
        case _:
            return _chosen(text, _options(field))


def _chosen(text: str, options: Mapping[str, str]) -> str:
    """Return the option that a text names: by its title or by what is sent, and capitals do not matter."""
    names: Sequence[tuple[str, str]] = [*options.items(), *((value, value) for value in options.values())]
    for name, value in names:
        if text == name:
            return value
    for name, value in names:
        if text.lower() == name.lower():
            return value
    return text
