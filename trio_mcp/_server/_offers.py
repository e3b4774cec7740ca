"""The part of a server by which its author registers tools.

The part of a server by which its author registers prompts and completions.

The part of a server by which its author registers resources.

What resources are made of is imported when the first one is registered: many servers have none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, overload

import attrs

from .. import types
from .._codec._json import is_object
from .._core._uri_template import check_uri
from .._limits import Limits, check_whole
from ._application import MethodHandler
from ._context import Context
from ._functions import anything, read_handler
from ._input_required import NonFinalResult
from ._listing import Listing, are_plain, read_params, refuse_many
from ._prompts import Completer, PromptRegistry
from ._resources import Offer, ResourceRegistry
from ._threads import Threads
from ._tools import ToolRegistry

if TYPE_CHECKING:
    from .._core._uri_template import UriTemplate


_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolOffers:
    """Registers tools; a server is one."""

    _limits: Limits
    _threads: Threads
    _listing: Listing
    _tools: ToolRegistry

    @overload
    def tool(self, function: _Function, /) -> _Function: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        thread: bool = True,
        timeout: float | None = None,
        limit: int | None = None,
        resume: Literal["park", "replay"] = "park",
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[_Function], _Function]: ...
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        thread: bool = True,
        timeout: float | None = None,
        limit: int | None = None,
        resume: Literal["park", "replay"] = "park",
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Register a function as a tool: ``@server.tool``, or ``@server.tool(title="…")``.

        Its parameters become the input schema: types from the hints, descriptions from the docstring. A parameter
        annotated `Context` is given the context, one annotated with `Depends` what that gives; neither is part
        of the schema. Its return annotation becomes the output schema, unless it is text, content, or nothing;
        clients before 2026-07-28, which only know objects there, get any other value as ``{"result": value}``.
        A plain ``def`` runs in a thread of its own, so that it may block; cancelled, the call ends at once and
        the thread is left to itself.

        It may return `File`, `Image`, `Audio` or `bytes`, also in a list with text: they become the block that
        fits them. Bytes that do not begin like a picture or sound become an embedded resource.

        What the tool raises: `ToolError` is shown to the model; `RequestError` is the answer as it is; anything
        else is logged in full and shown to nobody.

        Args:
            function: The function.
            name: The tool's name; the function's own if `None`.
            title: Its name, for people.
            description: What it does; the docstring if `None`.
            annotations: Hints about what it may change.
            icons: What to show for it.
            meta: Its `_meta`.
            thread: Whether a plain ``def`` runs in a thread; if not, it must not block.
            timeout: After how many seconds a call is cancelled, and its cleanup run; the model is told. It counts
                from when the call has its place under `limit`, and time that the client takes to answer the
                tool's own questions counts. `None` for never.
            limit: How many calls run at once. Further ones wait, and can be cancelled meanwhile. `None` for any
                number.
            resume: What becomes of it in the modern era while its client answers a question: it is parked, its
                task waiting in this server, or it is run again from the beginning and finds the answers it has
                got before. The latter outlives restarts and works behind a load balancer (see
                ``request_state_keys``), but what it does before a question it does again.
            input_schema: The schema of the arguments, sent to the letter and enforced. Then the function takes
                the arguments as they are, a mapping, in its first parameter that is neither a context nor a
                dependency: ``async def run(arguments: Mapping[str, Any], ctx: Context) -> …``.
            output_schema: The schema of the structured output, sent to the letter and enforced, in place of the
                return annotation's. The function returns what fits it, or a `CallToolResult` with that.

        Raises:
            TypeError: Its parameters or its result have no form in JSON; a dependency is not sound.
            ValueError: The name is none a tool may have, or is taken; a schema or an option is not valid; a
                `Field.header` is none, is used twice, or marks what a header cannot carry.

        Spec: 2026-07-28, server/tools.
        """

        def register(function: _Function) -> _Function:
            self._tools.add(
                function,
                name=name,
                title=title,
                description=description,
                annotations=annotations,
                icons=icons,
                meta=meta,
                thread=thread,
                timeout=timeout,
                limit=limit,
                resume=resume,
                input_schema=input_schema,
                output_schema=output_schema,
            )
            return function

        return register if function is None else register(function)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Its calls that are running go on; further ones are to an unknown tool.

        Raises:
            LookupError: There is no such tool.
        """
        self._tools.entries.remove(name)

    def disable_tool(self, name: str) -> None:
        """Hide a tool from clients, as if it were removed, until `enable_tool` shows it again in its old place.

        Raises:
            LookupError: There is no such tool.
        """
        self._tools.entries.switch(name, enabled=False)

    def enable_tool(self, name: str) -> None:
        """Show a tool again that was hidden by `disable_tool`.

        Raises:
            LookupError: There is no such tool.
        """
        self._tools.entries.switch(name, enabled=True)

    # What a session asks.

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the tools, as clients are told of it.

        Raises:
            ValueError: There is none of this name.
        """
        registered = self._tools.entries.get(name)
        if registered is None:
            raise ValueError(f"this server has no tool called {name!r}")
        return registered.tool

    def _tool_handler(self, method: str) -> MethodHandler | None:
        """Return who serves a method of tools; nobody, while there have never been any."""
        if not self._tools.entries.was_used:
            return None
        if method == "tools/call":
            return self._call_tool
        return self._list_tools if method == "tools/list" else None

    async def _list_tools(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        revision, entries = context.revision, self._tools.entries

        def list_page() -> types.ListToolsResult:
            page, members = self._listing.page("tools/list", params, entries.visible)
            return types.ListToolsResult(tools=[tool.seen_by(revision) for tool in page], **members)

        return self._listing.kept("tools/list", params, revision, entries.changes, list_page)  # noqa: ASYNC910 - not public

    async def _call_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        name, arguments = params.get("name"), params.get("arguments")
        if not (isinstance(name, str) and is_object(arguments) and are_plain(params, _CALL_MEMBERS)):
            # Something is missing, wrong, or rare.
            call = read_params(params, types.CallToolRequestParams)
            name, arguments = call.name, call.arguments or {}
        return await self._tools.get(name).call(arguments, context, self._threads, self._limits.max_file_bytes)


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
    ) -> types.GetPromptResult | NonFinalResult:
        asked = read_params(params, types.GetPromptRequestParams)
        prompt = self._prompts.get(asked.name)
        return await prompt.get(asked.arguments or {}, context, self._threads)

    async def _complete(self, params: Mapping[str, Any], context: Context[Any]) -> types.CompleteResult:
        refuse_many(params, "context", "arguments")
        asked = read_params(params, types.CompleteRequestParams)
        return await self._completer.complete(asked, context, self._threads)


class ResourceOffers:
    """Registers resources; a server is one."""

    _resources: ResourceRegistry
    _limits: Limits

    def resource(
        self,
        uri: str,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        size: int | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
        timeout: float | None = None,
        thread: bool = True,
        unsafe_variables: Collection[str] = (),
    ) -> Callable[[_Function], _Function]:
        """Register a function as a resource: ``@server.resource("orders://recent")``.

        With ``{…}`` in the URI it is a template (RFC 6570): ``"orders://{order_id}/lines{?page}"``. Each variable
        is given to the parameter of its name, converted from text by its hint. Variables that a URI may lack,
        those of ``{?…}``, ``{/…}``, ``{#…}`` and ``{.…}``, are parameters with a default; those of ``{name*}``
        are lists. ``{name}`` ends at a slash, ``{+name}`` does not. A parameter annotated `Context` is given the
        context.

        What the variables say is decoded. Values that lead elsewhere when they are put into a path are refused
        with -32602 before the function, or one that completes them, is called: those with a NUL or with ``..``
        between slashes or backslashes; those that begin with either or with a drive; and those with either
        anywhere, except for ``{+name}``, ``{#name}`` and the pairs of a query. The same holds if it shows when
        they are decoded again. To serve files, use `add_directory` all the same: it knows links, too.

        The function returns text, bytes, `File`, `Image`, `Audio`, `TextResourceContents`,
        `BlobResourceContents`, or a list with any of those; anything else is sent as JSON. It raises
        `ResourceNotFound` if there is nothing; a `RequestError` is the answer as it is; anything else is logged
        in full and shown to nobody. A plain ``def`` runs in a thread, as with `tool`.

        Args:
            uri: The URI or the template.
            name: Its name, for programs; the function's own if `None`.
            title: Its name, for people.
            description: What it is; the docstring if `None`.
            mime_type: Its type. By default what the URI ends with tells, then what is returned.
            annotations: Hints for the client.
            icons: What to show for it.
            size: Its size in bytes, if known. A template has none.
            meta: Its `_meta`.
            ttl: For how many seconds clients may keep what they have read.
            scope: ``"public"`` if what is read is the same for everybody, so that it may be shared.
            timeout: After how many seconds reading is cancelled, and fails.
            thread: Whether a plain ``def`` runs in a thread; if not, it must not block.
            unsafe_variables: Names of variables that the function takes whatever they say, because it makes no
                path of them or checks them itself.

        Raises:
            TypeError: A parameter has no form in JSON.
            ValueError: The URI or template is none, or is taken; it can be read in several ways; its variables
                and the function's parameters do not agree; or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations"; server/utilities/caching.
        """
        from .._core._uri_template import UriTemplate
        from ._reading import type_of_result
        from ._resources import FunctionSource, matcher_for, refuse_parameters, returned_hint, rule_for

        if size is not None:
            check_whole("size", size, at_least=0)
        template = UriTemplate(uri) if "{" in uri else None
        if template is None:
            if unsafe_variables:
                raise ValueError(f"{uri!r:.200} is no template, and has no variables")
            self._check(uri)
        else:
            self._check_template(template, size)

        def register(function: _Function) -> _Function:
            handler = read_handler(function, thread=thread, unstructured=anything)
            spec = handler.spec
            told = spec.description if description is None else description
            described = _Described(
                name=spec.name if name is None else name,
                title=title,
                description=told,
                annotations=annotations,
                icons=icons,
                meta=meta,
            )
            source = FunctionSource(handler=handler)
            if template is None:
                refuse_parameters(spec, uri)
                kind = mime_type or type_of_result(uri, returned_hint(function))
                resource = types.Resource(uri=uri, mime_type=kind, size=size, **described)
                source = attrs.evolve(source, resource=resource)
            else:
                matcher = matcher_for(template, spec)
                kind = mime_type or type_of_result(uri, None)
                told_of_all = types.ResourceTemplate(uri_template=uri, mime_type=kind, **described)
                rule = rule_for(matcher, unsafe_variables)
                source = attrs.evolve(source, template=told_of_all, matcher=matcher, rule=rule)
            self._resources.entries.add(uri, Offer(source=source, ttl=ttl, scope=scope, timeout=timeout))
            return function

        return register

    def add_resource(
        self,
        uri: str,
        content: str | bytes,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Register text or bytes as a resource.

        Args:
            uri: The URI.
            content: The text or the bytes.
            name: Its name, for programs; by default the last part of the URI.
            title: Its name, for people.
            description: What it is.
            mime_type: Its type. By default what the URI ends with tells, then what the content is.
            annotations: Hints for the client.
            icons: What to show for it.
            meta: Its `_meta`.
            ttl: For how many seconds clients may keep it.
            scope: ``"public"`` if it is the same for everybody.

        Raises:
            ValueError: The URI is none, or is taken, or another argument is out of bounds.
        """
        from ._media import plain_contents
        from ._reading import type_of_result
        from ._resources import ConstantSource

        self._check(uri)
        contents = plain_contents(content, uri, mime_type or type_of_result(uri, None))
        size = len(content.encode()) if isinstance(content, str) else len(content)
        resource = types.Resource(
            uri=uri,
            name=uri.rstrip("/").rpartition("/")[2] or uri if name is None else name,
            title=title,
            description=description,
            mime_type=contents.mime_type,
            size=size,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        source = ConstantSource(resource=resource, result=types.ReadResourceResult(contents=(contents,)))
        self._resources.entries.add(uri, Offer(source=source, ttl=ttl, scope=scope))

    def add_file(
        self,
        path: str | os.PathLike[str],
        *,
        uri: str | None = None,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Register a file as a resource. It is read anew each time, in a thread, up to `Limits.max_file_bytes`.

        Its size and when it last changed are told in the list. While there is no such file, it is not listed, and
        not found.

        Args:
            path: Where it is; it may be a symbolic link.
            uri: Its URI; by default ``file://`` and its absolute path.
            name: Its name, for programs; the file's own if `None`.
            title: Its name, for people.
            description: What it is.
            mime_type: Its type. By default what its name tells, then its bytes.
            annotations: Hints for the client.
            icons: What to show for it.
            meta: Its `_meta`.
            ttl: For how many seconds clients may keep it.
            scope: ``"public"`` if it is the same for everybody.

        Raises:
            ValueError: The URI is none, or is taken, or another argument is out of bounds.
        """
        from ._files import FileSource
        from ._reading import guess_type

        absolute = Path(path).absolute()
        uri = absolute.as_uri() if uri is None else uri
        self._check(uri)
        resource = types.Resource(
            uri=uri,
            name=absolute.name if name is None else name,
            title=title,
            description=description,
            mime_type=guess_type(absolute.name) if mime_type is None else mime_type,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        source = FileSource(path=str(absolute), resource=resource)
        self._resources.entries.add(uri, Offer(source=source, ttl=ttl, scope=scope))

    def add_directory(
        self,
        path: str | os.PathLike[str],
        *,
        uri: str | None = None,
        pattern: str = "**/*",
        hidden: bool = False,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, object] | None = None,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Register the files beneath a directory as resources.

        They are listed, up to `Limits.max_listed_files`, and offered as a template. Whatever a client asks for,
        no file outside is read: ``..``, absolute paths and symbolic links that lead out of the directory lead
        nowhere, also if something is renamed meanwhile. Links within are followed if they are relative; the name
        of a link counts for `pattern`, and where it leads for `hidden`, too. Pipes and devices are no files.

        Args:
            path: The directory.
            uri: What the URIs of its files begin with; by default ``file://`` and its absolute path.
            pattern: Which files there are: ``*`` for any part of a name, ``**`` for any folders.
            hidden: Whether files and folders whose names begin with a dot are among them, by whatever link.
            name: The template's name, for programs; the directory's own if `None`.
            title: The template's name, for people.
            description: What the files are.
            mime_type: The type of all of them. By default each one's name tells, then its bytes.
            annotations: Hints for the client, about each of them.
            icons: What to show for each of them.
            meta: The template's `_meta`.
            ttl: For how many seconds clients may keep a file.
            scope: ``"public"`` if they are the same for everybody.

        Raises:
            ValueError: The URI or the pattern is none, or is taken, or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations".
        """
        from ._files import DirectorySource, directory_prefix

        absolute = Path(path).absolute()
        prefix = directory_prefix(absolute, uri, max_length=self._limits.max_uri_length)
        template = types.ResourceTemplate(
            uri_template=prefix + "{+path}",
            name=absolute.name or prefix if name is None else name,
            title=title,
            description=description,
            mime_type=mime_type,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )
        source = DirectorySource(
            root=str(absolute),
            prefix=prefix,
            pattern=pattern,
            hidden=hidden,
            template=template,
            limits=self._limits,
        )
        self._resources.entries.add(prefix, Offer(source=source, ttl=ttl, scope=scope))

    def remove_resource(self, uri: str) -> None:
        """Take away a resource, template or directory. Reads of it that are under way go on.

        Args:
            uri: As it was registered; for a directory, what the URIs of its files begin with.

        Raises:
            LookupError: There is none.
        """
        self._resources.entries.remove(uri)

    def enable_resource(self, uri: str) -> None:
        """Show a resource, template or directory to clients again.

        Raises:
            LookupError: There is none.
        """
        self._resources.entries.switch(uri, enabled=True)

    def disable_resource(self, uri: str) -> None:
        """Hide a resource, template or directory from clients until it is enabled. It keeps its place.

        Raises:
            LookupError: There is none.
        """
        self._resources.entries.switch(uri, enabled=False)

    def _check(self, uri: str) -> None:
        try:
            check_uri(uri, max_length=self._limits.max_uri_length)
        except ValueError as error:
            raise ValueError(f"{uri!r:.200} cannot be registered: {error}") from error

    def _check_template(self, template: UriTemplate, size: int | None) -> None:
        if size is not None:
            raise ValueError(f"{template}: the resources of a template have no size in common")
        # What it expands to must be a URI. If it begins with a variable, that depends.
        if isinstance(template.parts[0], str):
            self._check(template.expand(dict.fromkeys(template.variables, "x")))


class _Described(TypedDict):
    """What resources and templates say alike."""

    name: str
    title: str | None
    description: str | None
    annotations: types.Annotations | None
    icons: Sequence[types.Icon] | None
    meta: Mapping[str, object] | None
