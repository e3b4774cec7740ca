"""The part of a server by which its author registers prompts and completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from .. import types
from ._application import MethodHandler
from ._completion import Completer
from ._context import Context
from ._interim import Interim
from ._listing import Listing
from ._params import read_params, refuse_many
from ._prompts import PromptRegistry
from ._threads import Threads

__all__ = ["PromptOffers"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class PromptOffers:
    """Registers prompts and completions; a server is one."""

    _threads: Threads
    _listing: Listing
    _prompts: PromptRegistry
    _completer: Completer

    # Prompts.

    @overload
    def prompt(self, function: _Function, /) -> _Function: ...
    @overload
    def prompt(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        timeout: float | None = None,
        thread: bool = True,
    ) -> Callable[[_Function], _Function]: ...
    def prompt(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        timeout: float | None = None,
        thread: bool = True,
    ) -> Any:
        """Register a function as a prompt: ``@server.prompt``, or ``@server.prompt(title="…")``.

        Its parameters become the prompt's arguments, described by the docstring. Clients give them as strings:
        text is taken as it is, any other type is written in JSON, as ``5``, ``true`` or ``{"title": "Dune"}``.
        What does not fit is refused with -32602, by name. Parameters with a default are optional. One annotated
        `Context` or with `Depends` is filled in here. Arguments whose types are a `Literal`, an `Enum` or a
        ``bool`` are completed by themselves; see `completion` for others.

        It returns what is said: text or a block of content, said by the user; `user_message`,
        `assistant_message` or a `PromptMessage`; a list of any of these; or a whole `GetPromptResult`. An older
        client gets in words what its revision cannot say.

        What it raises: `RequestError` is the answer as it is; anything else is logged in full and told to nobody.

        Args:
            function: The function.
            name: The prompt's name; the function's own if `None`.
            title: Its name, for people.
            description: What it is for; the docstring if `None`.
            icons: What to show for it.
            meta: Its `_meta`.
            timeout: After how many seconds it is cancelled and answered with an error; `None` for never.
            thread: Whether a plain ``def`` runs in a thread; if not, it must not block.

        Raises:
            TypeError: Its parameters have no form in JSON; a dependency is not sound.
            ValueError: The name is empty or taken; the timeout is not more than 0.

        Spec: 2026-07-28, server/prompts.
        """

        def register(function: _Function) -> _Function:
            self._prompts.add(
                function,
                name=name,
                title=title,
                description=description,
                icons=icons,
                meta=meta,
                thread=thread,
                timeout=timeout,
            )
            return function

        return register if function is None else register(function)

    # Completion.

    def completion(
        self, reference: str, argument: str, *, thread: bool = True
    ) -> Callable[[_Function], _Function]:
        """Register a function that completes an argument: ``@server.completion("summarise", "order_id")``.

        It is called with what has been typed so far, and returns strings, best first, or a `Completion`. If it
        has a parameter named `arguments`, that gets the arguments filled in already; older clients do not say,
        and then it is empty. A `Context` and dependencies are filled in. At most 100 values are sent; if there
        are more, the client is told so.

        Args:
            reference: A prompt's name, or the template of resources as it was registered.
            argument: The prompt's argument, or the template's variable.
            thread: Whether a plain ``def`` runs in a thread; if not, it must not block.

        Raises:
            TypeError: The function has no parameter for the value, or one that nobody fills.
            ValueError: The argument has a completion already.

        Spec: 2026-07-28, server/utilities/completion.
        """

        def register(function: _Function) -> _Function:
            self._completer.add(function, reference, argument, thread=thread)
            return function

        return register

    # Taking away.

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Requests for it that are running go on; further ones are for an unknown prompt.

        Raises:
            LookupError: There is no such prompt.
        """
        self._prompts.entries.remove(name)

    def disable_prompt(self, name: str) -> None:
        """Hide a prompt from clients, as if it were removed, until `enable_prompt` shows it in its old place.

        Raises:
            LookupError: There is no such prompt.
        """
        self._prompts.entries.switch(name, enabled=False)

    def enable_prompt(self, name: str) -> None:
        """Show a prompt again that was hidden by `disable_prompt`.

        Raises:
            LookupError: There is no such prompt.
        """
        self._prompts.entries.switch(name, enabled=True)

    # What a session asks.

    def _prompt_handler(self, method: str) -> MethodHandler | None:
        """Return who serves a method of prompts or completion, if there is anything to serve."""
        if method == "completion/complete":
            return self._complete if self._completer.can_complete else None
        if not self._prompts.entries.was_used:
            return None
        if method == "prompts/get":
            return self._get_prompt
        return self._list_prompts if method == "prompts/list" else None

    async def _list_prompts(self, params: Mapping[str, Any], context: Context[Any]) -> object:  # noqa: ASYNC910 - not public
        entries = self._prompts.entries

        def list_page() -> types.ListPromptsResult:
            page, members = self._listing.page("prompts/list", params, entries.visible)
            return types.ListPromptsResult(prompts=[registered.prompt for registered in page], **members)

        return self._listing.kept("prompts/list", params, context.revision, entries.changes, list_page)  # noqa: ASYNC910 - not public

    async def _get_prompt(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> types.GetPromptResult | Interim:
        asked = read_params(params, types.GetPromptRequestParams)
        prompt = self._prompts.get(asked.name)
        return await prompt.get(asked.arguments or {}, context, self._threads)

    async def _complete(self, params: Mapping[str, Any], context: Context[Any]) -> types.CompleteResult:
        refuse_many(params, "context", "arguments")
        asked = read_params(params, types.CompleteRequestParams)
        return await self._completer.complete(asked, context, self._threads)
