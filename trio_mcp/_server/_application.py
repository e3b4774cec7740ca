"""What a server offers: tools, prompts, resources, handlers of methods and notifications, extensions.

The registration classes are the methods by which a server's author adds, removes and hides these, and serve the
protocol's methods for them. What is registered lives in the registries of `_tools`, `_prompts` and `_resources`;
what reads files and media is imported when the first one is registered, for many servers have none. Connections
look up in `Application` what they need of their server. How it is served is in `_server`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, Unpack, final, overload

import attrs
import trio

from .. import types
from .._channel import Origin
from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import Encoded, encode_notification
from .._core._changes import ListKind
from .._core._http1 import HeaderMark
from .._core._lifecycle import CORE_RESULT_TYPES, Agreement, check_identifier
from .._core._uri_template import UriTemplate, check_uri
from .._errors import (
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    RequestError,
)
from .._limits import Limits, check_whole, refuse_unknown
from .._oauth._principal import Principal
from .._peer._call import checked
from .._peer._middleware import Middleware
from .._revisions import METHODS, Revision
from ..types import (
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from ._changes import Announcement, ChangeHub
from ._context import Context, NotificationHandler, check_announcement, check_notification_method, origin_of
from ._functions import MethodHandler, read_handler
from ._input_required import Asking, ExtensionResult, NonFinalResult
from ._listing import CacheHint, Listing, are_plain, described, read_params, refuse_many
from ._permits import Permit, read_scopes
from ._prompts import Completer, PromptOptions, PromptRegistry
from ._reading import ResourceSource, guess_type, type_of_result
from ._resources import (
    ConstantSource,
    FunctionOptions,
    FunctionSource,
    RegisteredResource,
    ResourceOptions,
    ResourceRegistry,
    matcher_for,
    refuse_missing,
    returned_hint,
    rule_for,
)
from ._threads import Threads
from ._tools import ToolOptions, ToolRegistry

# Registration: tool(), prompt(), resource() and their brothers.


_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ToolRegistration:
    """Registers tools; a server is one."""

    _limits: Limits
    _threads: Threads
    _listing: Listing
    _tools: ToolRegistry

    @overload
    def tool(self, function: _Function, /) -> _Function: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[_Function], _Function]: ...
    def tool(self, function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Register a function as a tool: ``@server.tool``, or ``@server.tool(title="…")``.

        Its parameters become the input schema: types from the hints, descriptions from the docstring. A parameter
        annotated `Context` is given the context, one annotated with `Depends` what that gives; neither is part
        of the schema. Its return annotation becomes the output schema, unless it is text, content, or nothing;
        clients before 2026-07-28, which only know objects there, get any other value as ``{"result": value}``.
        A plain ``def`` runs in its own thread, so that it may block. When the call is cancelled it ends at once,
        and the thread is left behind.

        It may return `File`, `Image`, `Audio` or `bytes`, also in a list with text: they become the block that
        fits them. Bytes that do not begin like a picture or sound become an embedded resource.

        What the tool raises: the model reads a `ToolError`; a `RequestError` is the answer as it is; anything
        else is logged in full, and the client gets a general error.

        Args:
            function: The function.
            **options: As follows; each has a default.

        Keyword Args:
            name: The tool's name; by default the function's.
            title: Its name, for people.
            description: What it does; by default the docstring.
            annotations: Hints about what it may change.
            icons: Icons to show for it.
            meta: Its `_meta`.
            scopes: Who may use it: scopes that a principal needs, or a function of it (`Scopes`). Default: all.
            thread: Whether a plain ``def`` runs in a thread. Default: yes. If not, it must not block.
            timeout: After how many seconds a call is cancelled and its cleanup run; the model gets an error. It
                counts from when the call has its place under `limit`, and time that the client takes to answer
                the tool's own questions counts. Default: `None`, for never.
            limit: How many calls run at once. Further ones wait, and can be cancelled meanwhile. Default: `None`,
                for any number.
            resume: What happens to it in the modern era while its client answers a question. ``"park"``, the
                default: its task waits in this server. ``"replay"``: it is run again from the beginning and finds
                the answers it has got before; this outlives restarts and works behind a load balancer (see
                ``request_state_keys``), but it repeats what it does before a question.
            input_schema: The schema of the arguments, sent to the letter and enforced. Then the function takes
                the arguments as they are, a mapping, in its first parameter that is neither a context nor a
                dependency: ``async def run(arguments: Mapping[str, Any], ctx: Context) -> …``.
            output_schema: The schema of the structured output, sent to the letter and enforced, in place of the
                return annotation's. The function returns what fits it, or a `CallToolResult` with that.

        Raises:
            TypeError: Its parameters or its result have no form in JSON; a dependency is not sound; there is no
                such option.
            ValueError: The name is not valid for a tool, or is taken; a schema or an option is not valid; a
                `Field.header` is not valid, is used twice, or marks what a header cannot carry.

        Spec: 2026-07-28, server/tools.
        """
        refuse_unknown(options, ToolOptions)

        def register(function: _Function) -> _Function:
            self._tools.add(function, options)
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

    # Serving.

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the tools, as clients see it.

        Raises:
            ValueError: No tool has this name.
        """
        registered = self._tools.entries.get(name)
        if registered is None:
            raise ValueError(f"this server has no tool called {name!r}")
        return registered.tool

    def _tool_handler(self, method: str) -> MethodHandler | None:
        """Return the handler of a method of tools; `None` if no tool was ever registered."""
        if not self._tools.entries.was_used:
            return None
        if method == "tools/call":
            return self._call_guarded_tool if self._tools.entries.is_guarded else self._call_tool
        return self._list_tools if method == "tools/list" else None

    async def _list_tools(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        revision, entries = context.revision, self._tools.entries

        def list_page(own: Origin | None = None) -> types.ListToolsResult:
            visible = entries.visible_to(own) if entries.is_guarded else entries.visible
            page, members = self._listing.page("tools/list", params, visible, is_own=entries.is_guarded)
            return types.ListToolsResult(tools=[tool.seen_by(revision) for tool in page], **members)

        if entries.is_guarded:
            return list_page(origin_of(context))  # noqa: ASYNC910 - not public
        return self._listing.kept("tools/list", params, revision, entries.changes, list_page)  # noqa: ASYNC910 - not public

    async def _call_guarded_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        self._tools.check_permit(params.get("name"), origin_of(context))
        return await self._call_tool(params, context)

    async def _call_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        name, arguments = params.get("name"), params.get("arguments")
        if not (isinstance(name, str) and is_object(arguments) and are_plain(params, _CALL_MEMBERS)):
            # Something is missing, wrong, or rare: read them in full.
            call = read_params(params, types.CallToolRequestParams)
            name, arguments = call.name, call.arguments or {}
        return await self._tools.get(name).call(arguments, context, self._threads, self._limits.max_file_bytes)


class PromptRegistration:
    """Registers prompts and completions; a server is one."""

    _threads: Threads
    _listing: Listing
    _prompts: PromptRegistry
    _resources: ResourceRegistry
    _completer: Completer

    # Prompts.

    @overload
    def prompt(self, function: _Function, /) -> _Function: ...
    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[_Function], _Function]: ...
    def prompt(self, function: Any = None, /, **options: Unpack[PromptOptions]) -> Any:
        """Register a function as a prompt: ``@server.prompt``, or ``@server.prompt(title="…")``.

        Its parameters become the prompt's arguments, described by the docstring. Clients give them as strings:
        text is taken as it is, any other type is written in JSON, as ``5``, ``true`` or ``{"title": "Dune"}``.
        An argument that does not fit is refused with -32602, by name. Parameters with a default are optional. A
        parameter annotated `Context` or with `Depends` is filled in here. Arguments whose types are a `Literal`,
        an `Enum` or a ``bool`` are completed without a function; see `completion` for others.

        It returns messages: text or a block of content, as the user's; `user_message`, `assistant_message` or a
        `PromptMessage`; a list of any of these; or a whole `GetPromptResult`. An older client gets as text what
        its revision cannot express.

        What it raises: a `RequestError` is the answer as it is; anything else is logged in full, and the client
        gets a general error.

        Args:
            function: The function.
            **options: As follows; each has a default.

        Keyword Args:
            name: The prompt's name; by default the function's.
            title: Its name, for people.
            description: What it is for; by default the docstring.
            icons: Icons to show for it.
            meta: Its `_meta`.
            scopes: Who may use it: scopes that a principal needs, or a function of it (`Scopes`). Default: all.
            timeout: After how many seconds it is cancelled and answered with an error. Default: `None`, for
                never.
            thread: Whether a plain ``def`` runs in a thread. Default: yes. If not, it must not block.

        Raises:
            TypeError: Its parameters have no form in JSON; a dependency is not sound; there is no such option.
            ValueError: The name is empty or taken; the timeout is not more than 0.

        Spec: 2026-07-28, server/prompts.
        """
        refuse_unknown(options, PromptOptions)

        def register(function: _Function) -> _Function:
            self._prompts.add(function, options)
            return function

        return register if function is None else register(function)

    # Completion.

    def completion(
        self, reference: str, argument: str, *, thread: bool = True
    ) -> Callable[[_Function], _Function]:
        """Register a function that completes an argument: ``@server.completion("summarise", "order_id")``.

        It is called with what has been typed so far, and returns strings, best first, or a `Completion`. If it
        has a parameter named `arguments`, that gets the arguments filled in already; it is empty for older
        clients, which do not send them. A `Context` and dependencies are filled in. At most 100 values are sent,
        with a mark that there are more.

        Args:
            reference: A prompt's name, or the template of resources as it was registered.
            argument: The prompt's argument, or the template's variable.
            thread: Whether a plain ``def`` runs in a thread. Default: yes. If not, it must not block.

        Raises:
            TypeError: The function has no parameter for the value, or one that is never filled.
            ValueError: The argument has a completion already.

        Spec: 2026-07-28, server/utilities/completion.
        """

        def register(function: _Function) -> _Function:
            self._completer.add(function, reference, argument, thread=thread)
            return function

        return register

    # Removing.

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

    # Serving.

    def _prompt_handler(self, method: str) -> MethodHandler | None:
        """Return the handler of a method of prompts or completion, if there is something to serve."""
        if method == "completion/complete":
            return self._complete if self._completer.can_complete else None
        if not self._prompts.entries.was_used:
            return None
        if method == "prompts/get":
            return self._get_prompt
        return self._list_prompts if method == "prompts/list" else None

    async def _list_prompts(self, params: Mapping[str, Any], context: Context[Any]) -> object:  # noqa: ASYNC910 - not public
        entries = self._prompts.entries

        def list_page(own: Origin | None = None) -> types.ListPromptsResult:
            visible = entries.visible_to(own) if entries.is_guarded else entries.visible
            page, members = self._listing.page("prompts/list", params, visible, is_own=entries.is_guarded)
            return types.ListPromptsResult(prompts=[registered.prompt for registered in page], **members)

        if entries.is_guarded:
            return list_page(origin_of(context))  # noqa: ASYNC910 - not public
        return self._listing.kept("prompts/list", params, context.revision, entries.changes, list_page)  # noqa: ASYNC910 - not public

    async def _get_prompt(
        self, params: Mapping[str, Any], context: Context[Any]
    ) -> types.GetPromptResult | NonFinalResult:
        asked = read_params(params, types.GetPromptRequestParams)
        if self._prompts.entries.is_guarded:
            self._prompts.check_permit(asked.name, origin_of(context))
        prompt = self._prompts.get(asked.name)
        return await prompt.get(asked.arguments or {}, context, self._threads)

    async def _complete(self, params: Mapping[str, Any], context: Context[Any]) -> types.CompleteResult:
        refuse_many(params, "context", "arguments")
        asked = read_params(params, types.CompleteRequestParams)
        if isinstance(asked.ref, types.PromptReference):
            self._prompts.check_permit(asked.ref.name, origin_of(context))
        else:
            self._resources.check_permit_of_template(asked.ref.uri, origin_of(context), context.revision)
        return await self._completer.complete(asked, context, self._threads)


class ResourceRegistration:
    """Registers resources; a server is one."""

    _resources: ResourceRegistry
    _limits: Limits

    def resource(
        self, uri: str, /, *, unsafe_variables: Collection[str] = (), **options: Unpack[FunctionOptions]
    ) -> Callable[[_Function], _Function]:
        """Register a function as a resource: ``@server.resource("orders://recent")``.

        With ``{…}`` in the URI it is a template (RFC 6570): ``"orders://{order_id}/lines{?page}"``. Each variable
        is given to the parameter of its name, converted from text by its hint. Variables that a URI may lack,
        those of ``{?…}``, ``{/…}``, ``{#…}`` and ``{.…}``, are parameters with a default; those of ``{name*}``
        are lists. ``{name}`` ends at a slash, ``{+name}`` does not. A parameter annotated `Context` is given the
        context.

        Variables are decoded. Values that lead elsewhere when they are put into a path are refused with -32602
        before the function, or one that completes them, is called: those with a NUL or with ``..`` between
        slashes or backslashes; those that begin with either or with a drive; and those with either anywhere,
        except for ``{+name}``, ``{#name}`` and the pairs of a query. The same holds if decoding them once more
        shows it. To serve files, use `add_directory` all the same: it knows links, too.

        The function returns text, bytes, `File`, `Image`, `Audio`, `TextResourceContents`,
        `BlobResourceContents`, or a list with any of those; anything else is sent as JSON. It raises
        `ResourceNotFound` if there is no such resource; a `RequestError` is the answer as it is; anything else is
        logged in full, and the client gets a general error. A plain ``def`` runs in a thread, as with `tool`.

        Args:
            uri: The URI or the template.
            unsafe_variables: Names of variables that are not checked as above, because the function makes no
                path of them or checks them itself.
            **options: As follows; each has a default.

        Keyword Args:
            name: Its name, for programs; by default the function's.
            title: Its name, for people.
            description: What it is; by default the docstring.
            mime_type: Its type. By default what the URI ends with tells, then what is returned.
            annotations: Hints for the client.
            icons: Icons to show for it.
            size: Its size in bytes, if known. A template has none.
            meta: Its `_meta`.
            scopes: Who may use it: scopes that a principal needs, or a function of it (`Scopes`). Default: all.
            ttl: For how many seconds clients may keep what they have read. Default: 0, ask each time.
            scope: ``"public"`` if it is the same for every client. Default: ``"private"``.
            timeout: After how many seconds reading is cancelled, and fails. Default: `None`, for never.
            thread: Whether a plain ``def`` runs in a thread. Default: yes. If not, it must not block.

        Raises:
            TypeError: A parameter has no form in JSON; there is no such option.
            ValueError: The URI or template is not valid, or is taken; it can be read in several ways; its
                variables and the function's parameters do not agree; or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations"; server/utilities/caching.
        """
        refuse_unknown(options, FunctionOptions)
        size, kind = options.get("size"), options.get("mime_type")
        if size is not None:
            check_whole("size", size, at_least=0)
        template = UriTemplate(uri) if "{" in uri else None
        if template is None:
            if unsafe_variables:
                raise ValueError(f"{uri!r:.200} is no template: leave out unsafe_variables, it has no variables")
            self._check(uri)
        else:
            self._check_template(template, size)

        def register(function: _Function) -> _Function:
            handler = read_handler(function, {"thread": options.get("thread", True)})
            spec, annotations = handler.spec, options.get("annotations")
            description = described(options, spec.name, spec.description)
            if template is None:
                refuse_missing(spec, f"{spec.name}() and {uri}")
                resource = types.Resource(
                    uri=uri,
                    mime_type=kind or type_of_result(uri, returned_hint(function)),
                    size=size,
                    annotations=annotations,
                    **description,
                )
                source = FunctionSource(handler=handler, resource=resource)
            else:
                matcher = matcher_for(template, spec)
                source = FunctionSource(
                    handler=handler,
                    template=types.ResourceTemplate(
                        uri_template=uri,
                        mime_type=kind or type_of_result(uri, None),
                        annotations=annotations,
                        **description,
                    ),
                    matcher=matcher,
                    rule=rule_for(matcher, unsafe_variables),
                )
            self._add(uri, source, options, timeout=options.get("timeout"))
            return function

        return register

    def add_resource(self, uri: str, content: str | bytes, **options: Unpack[ResourceOptions]) -> None:
        """Register text or bytes as a resource.

        Args:
            uri: The URI.
            content: The text or the bytes.
            **options: As follows; each has a default.

        Keyword Args:
            name: Its name, for programs; by default the last part of the URI.
            title: Its name, for people.
            description: What it is.
            mime_type: Its type. By default what the URI ends with tells, then what the content is.
            annotations: Hints for the client.
            icons: Icons to show for it.
            meta: Its `_meta`.
            scopes: Who may use it: scopes that a principal needs, or a function of it (`Scopes`). Default: all.
            ttl: For how many seconds clients may keep it. Default: 0, ask each time.
            scope: ``"public"`` if it is the same for every client. Default: ``"private"``.

        Raises:
            TypeError: There is no such option.
            ValueError: The URI is not valid, or is taken, or another argument is out of bounds.
        """
        from ._media import plain_contents

        refuse_unknown(options, ResourceOptions)
        self._check(uri)
        contents = plain_contents(content, uri, options.get("mime_type") or type_of_result(uri, None))
        resource = types.Resource(
            uri=uri,
            mime_type=contents.mime_type,
            size=len(content.encode()) if isinstance(content, str) else len(content),
            annotations=options.get("annotations"),
            **described(options, uri.rstrip("/").rpartition("/")[2] or uri),
        )
        result = types.ReadResourceResult(contents=(contents,))
        self._add(uri, ConstantSource(resource=resource, result=result, template=None), options)

    def add_file(
        self, path: str | os.PathLike[str], *, uri: str | None = None, **options: Unpack[ResourceOptions]
    ) -> None:
        """Register a file as a resource. It is read anew each time, in a thread, up to `Limits.max_file_bytes`.

        The list shows its size and when it last changed. While the file does not exist, it is not listed, and
        reading it fails as for an unknown resource.

        Args:
            path: Its path; it may be a symbolic link.
            uri: Its URI; by default ``file://`` and its absolute path.
            **options: As follows; each has a default.

        Keyword Args:
            name: Its name, for programs; by default the file's.
            title: Its name, for people.
            description: What it is.
            mime_type: Its type. By default what its name tells, then its bytes.
            annotations: Hints for the client.
            icons: Icons to show for it.
            meta: Its `_meta`.
            scopes: Who may use it: scopes that a principal needs, or a function of it (`Scopes`). Default: all.
            ttl: For how many seconds clients may keep it. Default: 0, ask each time.
            scope: ``"public"`` if it is the same for every client. Default: ``"private"``.

        Raises:
            TypeError: There is no such option.
            ValueError: The URI is not valid, or is taken, or another argument is out of bounds.
        """
        from ._files import FileSource

        refuse_unknown(options, ResourceOptions)
        absolute = Path(path).absolute()
        uri = absolute.as_uri() if uri is None else uri
        self._check(uri)
        kind = options.get("mime_type")
        resource = types.Resource(
            uri=uri,
            mime_type=guess_type(absolute.name) if kind is None else kind,
            annotations=options.get("annotations"),
            **described(options, absolute.name),
        )
        self._add(uri, FileSource(path=str(absolute), resource=resource, template=None), options)

    def add_directory(
        self,
        path: str | os.PathLike[str],
        *,
        uri: str | None = None,
        pattern: str = "**/*",
        hidden: bool = False,
        **options: Unpack[ResourceOptions],
    ) -> None:
        """Register the files below a directory as resources.

        They are listed, up to `Limits.max_listed_files`, and offered as a template. Whatever a client asks for,
        no file outside is read: ``..``, absolute paths and symbolic links that lead out of the directory are
        refused, also if something is renamed meanwhile. Links within are followed if they are relative; the name
        of a link counts for `pattern`, and its target for `hidden`, too. Pipes and devices are not served.

        Args:
            path: The directory.
            uri: What the URIs of its files begin with; by default ``file://`` and its absolute path.
            pattern: Which files are served: ``*`` for any part of a name, ``**`` for any folders.
            hidden: Whether files and folders whose names begin with a dot are served, by whatever link.
            **options: As follows; each has a default.

        Keyword Args:
            name: The template's name, for programs; by default the directory's.
            title: The template's name, for people.
            description: What the files are.
            mime_type: The type of all of them. By default each one's name tells, then its bytes.
            annotations: Hints for the client, about each of them.
            icons: Icons to show for each of them.
            meta: The template's `_meta`.
            scopes: Who may read them: scopes that are needed, or a function (`Scopes`). Default: all.
            ttl: For how many seconds clients may keep a file. Default: 0, ask each time.
            scope: ``"public"`` if they are the same for every client. Default: ``"private"``.

        Raises:
            TypeError: There is no such option.
            ValueError: The URI or the pattern is not valid, or is taken, or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations".
        """
        from ._files import DirectorySource, directory_prefix

        refuse_unknown(options, ResourceOptions)
        absolute = Path(path).absolute()
        prefix = directory_prefix(absolute, uri, max_length=self._limits.max_uri_length)
        template = types.ResourceTemplate(
            uri_template=prefix + "{+path}",
            mime_type=options.get("mime_type"),
            annotations=options.get("annotations"),
            **described(options, absolute.name or prefix),
        )
        source = DirectorySource(
            root=str(absolute),
            prefix=prefix,
            pattern=pattern,
            hidden=hidden,
            template=template,
            limits=self._limits,
        )
        self._add(prefix, source, options)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, template or directory. Reads of it that are running go on.

        Args:
            uri: As it was registered; for a directory, what the URIs of its files begin with.

        Raises:
            LookupError: It is not registered.
        """
        self._resources.entries.remove(uri)

    def enable_resource(self, uri: str) -> None:
        """Show a resource, template or directory to clients again.

        Raises:
            LookupError: It is not registered.
        """
        self._resources.entries.switch(uri, enabled=True)

    def disable_resource(self, uri: str) -> None:
        """Hide a resource, template or directory from clients until it is enabled. It keeps its place.

        Raises:
            LookupError: It is not registered.
        """
        self._resources.entries.switch(uri, enabled=False)

    def _add(
        self, uri: str, source: ResourceSource, options: ResourceOptions, *, timeout: float | None = None
    ) -> None:
        registered = RegisteredResource(
            source=source, ttl=options.get("ttl", 0), scope=options.get("scope", "private"), timeout=timeout
        )
        permit = read_scopes(options.get("scopes"))
        if permit is not None and registered.scope == "public":
            raise ValueError(f"{uri!r:.200} has scopes, so what it holds cannot be for all: leave out scope")
        self._resources.entries.add(uri, registered, permit)

    def _check(self, uri: str) -> None:
        try:
            check_uri(uri, max_length=self._limits.max_uri_length)
        except ValueError as error:
            raise ValueError(f"{uri!r:.200} cannot be registered: {error}") from error

    def _check_template(self, template: UriTemplate, size: int | None) -> None:
        if size is not None:
            raise ValueError(f"{template} is a template, whose resources have no size in common: leave out size")
        # What it expands to must be a URI. If it begins with a variable, that depends.
        if isinstance(template.parts[0], str):
            self._check(template.expand(dict.fromkeys(template.variables, "x")))


_OURS: Final = frozenset({"initialize", "ping", "server/discover", "logging/setLevel"})


def _read_only(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(given))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


def _functions(given: Iterable[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    return tuple(given)


@final
@attrs.frozen
class ServerExtension:
    """An extension that a server knows. It is declared to clients of every revision, in `initialize` too.

    What it adds is only for clients that also declare it; requests of others are refused, and the error names it.

    Attributes:
        identifier: What it is called, for example ``com.example/notes``.
        settings: What is declared with it, as plain JSON.
        request_handlers: The handlers of the methods it adds, by method.
        notification_handlers: The handlers of the notifications it adds, by method.
        result_types: The types of results it adds; see `ExtensionResult`.
        tools: Functions that it adds as tools, for every client.

    Raises:
        ValueError: The identifier is not valid, or something of the core protocol is claimed.

    Spec: 2026-07-28, basic/versioning, "Extension Negotiation"; SEP-2133, "Negotiation".
    """

    identifier: str
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any], converter=_read_only, kw_only=True)
    request_handlers: Mapping[str, MethodHandler] = attrs.field(
        factory=dict[str, MethodHandler], converter=_read_only, kw_only=True
    )
    notification_handlers: Mapping[str, NotificationHandler] = attrs.field(
        factory=dict[str, NotificationHandler], converter=_read_only, kw_only=True
    )
    result_types: Collection[str] = attrs.field(default=(), converter=_names, kw_only=True)
    tools: Sequence[Callable[..., Any]] = attrs.field(default=(), converter=_functions, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_identifier(self.identifier)
        for kind in CORE_RESULT_TYPES.intersection(self.result_types):
            raise ValueError(f"{self.identifier} claims the result type {kind}, which is the protocol's own")
        for method in [*self.request_handlers, *self.notification_handlers]:
            if method in METHODS:
                raise ValueError(f"{self.identifier} claims the method {method}, which is the protocol's own")


@final
class ServerExtensions:
    """The extensions of a server, together.

    Raises:
        ValueError: Two of them have one identifier, or claim one method or result type.
    """

    def __init__(self, extensions: Sequence[ServerExtension]) -> None:
        self.settings: dict[str, Mapping[str, Any]] = {}
        self.request_handlers: dict[str, MethodHandler] = {}
        self.notification_handlers: dict[str, NotificationHandler] = {}
        self._result_types: dict[str, str] = {}
        for extension in extensions:
            name = extension.identifier
            _claim(self.settings, name, dict(extension.settings), "identifier")
            for method, handler in extension.request_handlers.items():
                _claim(self.request_handlers, method, _for_declared(name, handler), "method")
            for method, hear in extension.notification_handlers.items():
                _claim(self.notification_handlers, method, hear, "notification")
            for kind in extension.result_types:
                _claim(self._result_types, kind, name, "result type")

    def plain(self, result: ExtensionResult, agreement: Agreement) -> dict[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        extension = self._result_types.get(result.result_type)
        if extension is None:
            raise TypeError(f"no extension of this server adds the result type {result.result_type!r}")
        _require(extension, agreement.client_capabilities, is_modern=agreement.revision.is_modern)
        return {**result.members, "resultType": result.result_type}


def _claim(claimed: dict[str, Any], name: str, what: object, kind: str) -> None:
    if name in claimed:
        raise ValueError(f"two extensions claim the {kind} {name}")
    claimed[name] = what


def _for_declared(extension: str, handler: MethodHandler) -> MethodHandler:
    async def serve(params: Mapping[str, Any], context: Context[Any]) -> object:
        _require(extension, context.declared_capabilities, is_modern=context.revision.is_modern)
        return await handler(params, context)

    return serve


def _require(extension: str, declared: Mapping[str, Any], *, is_modern: bool) -> None:
    extensions: Any = declared.get("extensions")
    settings = extensions.get(extension) if is_object(extensions) else None
    if settings is not None and settings is not False:
        return
    problem = f"the client has not declared the extension {extension}"
    if not is_modern:  # the legacy era has no error code for this
        raise RequestError(METHOD_NOT_FOUND, problem)
    needed: object = {"requiredCapabilities": {"extensions": {extension: {}}}}
    raise RequestError(MISSING_REQUIRED_CLIENT_CAPABILITY, problem, needed)


class Application(ToolRegistration, PromptRegistration, ResourceRegistration):
    """What a server offers, and how its connections look that up: a `Server` without the serving.

    Attributes:
        middleware: Wraps every message.
        changes: Passes changes on to the clients that want to know of them.
    """

    _info: Implementation
    _instructions: str | None
    _revisions: tuple[Revision, ...]
    middleware: tuple[Middleware, ...]
    changes: ChangeHub
    _custom: dict[str, MethodHandler]
    _notification_handlers: dict[str, NotificationHandler]
    _extensions: ServerExtensions

    @property
    def info(self) -> Implementation:
        """What the server is."""
        return self._info

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        return self._instructions

    @property
    def limits(self) -> Limits:
        """Limits of each connection."""
        return self._limits

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        return self._revisions

    # Registering.

    def request_handler(self, method: str) -> Callable[[MethodHandler], MethodHandler]:
        """Register the handler of a method, of the protocol or your own: ``@server.request_handler("x/y")``.

        The handler is called with the parameters as plain JSON and the `Context`, and returns an object of
        `trio_mcp.types` or plain JSON. For a method of the protocol it takes the place of what the server does.

        Args:
            method: The method.

        Raises:
            ValueError: The method is part of the handshake, or has such a handler already.
        """
        if method in _OURS or method in self._custom:
            problem = "is served by the connection itself" if method in _OURS else "has a handler already"
            raise ValueError(f"{method} {problem}")

        def register(handler: MethodHandler) -> MethodHandler:
            self._custom[method] = handler
            return handler

        return register

    def notification_handler(self, method: str) -> Callable[[NotificationHandler], NotificationHandler]:
        """Register the handler of a notification of clients: ``@server.notification_handler("x/y")``.

        The handler is called with the parameters as plain JSON and a `NotificationContext`: one notification
        after another, in the order in which they came over the connection. The next one waits for it, so it
        should be brief. What it raises is logged. A notification that the client's revision does not have is
        ignored.

        Args:
            method: The method, of the protocol or your own.

        Raises:
            ValueError: It has such a handler already, the connection itself handles it, or no client sends it.
        """
        check_notification_method(method)
        if method in self._notification_handlers:
            raise ValueError(f"{method} has a handler already")

        def register(handler: NotificationHandler) -> NotificationHandler:
            self._notification_handlers[method] = handler
            return handler

        return register

    # Changes.

    async def resource_updated(self, uri: str) -> None:
        """Notify every client that has subscribed to a resource that it has changed.

        Returns at once: each client is notified as fast as it reads, and several changes of a resource that were
        not sent yet are sent as one. Nothing happens while no client is served.

        Args:
            uri: The resource, as clients have subscribed to it.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        self.changes.resource_updated(uri)
        await trio.lowlevel.checkpoint()

    def list_changed(self, kind: ListKind) -> None:
        """Notify every client that wants it that a list has changed. Never waits, and works in any thread.

        What is registered or removed here is notified without this. It is for lists that you serve yourself, with
        `request_handler`.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``; templates are resources, too.

        Raises:
            KeyError: There is no such list.
        """
        self.changes.list_changed(kind)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send all sessions a notification of your own. Never waits, and works in any thread.

        Sessions are those of the legacy era that are initialized, over every transport; over HTTP it goes to the
        stream that the client holds open with GET. They get it in order with other such notifications. For one
        that does not read, `Limits.max_announcements` and `max_announcement_bytes` of them wait; then the oldest
        are dropped, which `dropped_notifications` counts. Nothing happens while no client is served.

        From 2026-07-28 on a server sends nothing outside of requests but what a client has subscribed to, and
        there is no subscription to methods of your own: clients of that era get nothing by this. Within a request
        `Context.notify` reaches them, too.

        Args:
            method: The method.
            params: Its parameters, as plain JSON.

        Raises:
            ValueError: The library itself sends this method; the error names what sends it.
            LocalProtocolError: It is another method of the protocol; or it is larger than a message may be.
            TypeError: The parameters are no plain JSON.

        Spec: 2025-11-25, basic, "Notifications"; 2026-07-28, basic/patterns, "Request and Response".
        """
        check_announcement(method)
        encoded = None if params is None else Encoded(_json.encode(dict(params)))
        size = len(checked(encode_notification(method, encoded), method, self._limits))
        self.changes.announce(Announcement(method, encoded, size))

    @property
    def dropped_notifications(self) -> int:
        """How many notifications of `notify` were not sent to a session, because it did not read those before."""
        return self.changes.dropped

    # Looked up by connections.

    def capabilities(self) -> ServerCapabilities:
        """Return what the server can do now."""
        custom = self._custom.keys()
        has_tools = self._tools.entries.was_used or "tools/list" in custom
        has_prompts = self._prompts.entries.was_used or "prompts/list" in custom
        has_resources = self._resources.entries.was_used or not custom.isdisjoint(
            ("resources/list", "resources/read")
        )
        can_complete = self._completer.can_complete or "completion/complete" in custom
        return ServerCapabilities(
            tools=ToolsCapability(list_changed=True) if has_tools else None,
            prompts=PromptsCapability(list_changed=True) if has_prompts else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if can_complete else None,
            logging={},
            extensions=self._extensions.settings or None,
        )

    def cache_hint(self, method: str) -> CacheHint:
        """Return how long clients may keep the results of a method, and for whom."""
        return self._listing.hint_for(method)

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return the handler of a method; `None` if it belongs to a capability that the server does not have."""
        return (
            self._custom.get(method)
            or self._extensions.request_handlers.get(method)
            or self._tool_handler(method)
            or self._prompt_handler(method)
            or self._resources.handler_for(method)
        )

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask its client, and what happens to it meanwhile."""
        if method in self._custom:
            return Asking.PARK
        match method:
            case "tools/call":
                return self._tools.asking(params.get("name"))
            case "prompts/get":
                return self._prompts.asking(params.get("name"))
            case "resources/read":
                return self._resources.asking(params.get("uri"))
            case _:
                return Asking.NEVER

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return the handler of the notifications of a method."""
        return self._notification_handlers.get(method) or self._extensions.notification_handlers.get(method)

    def extension_result(self, result: ExtensionResult, agreement: Agreement) -> Mapping[str, Any]:
        """Return a result of an extension as plain JSON.

        Raises:
            TypeError: No extension of the server adds the type.
            RequestError: The client has not declared the extension.
        """
        return self._extensions.plain(result, agreement)

    def _knows(self, uri: str) -> bool:
        """Whether a client may subscribe to a resource; any, if a `request_handler` serves reading."""
        by_hand = "resources/read" in self._custom or not self._resources.entries.was_used
        return by_hand or self._resources.knows(uri)

    def permits(self, method: str, params: Mapping[str, Any]) -> list[Permit]:
        """Return what says who may make a request: nothing for most."""
        found: list[Permit | None] = []
        match method:
            case "tools/call":
                found.append(self._tools.entries.permit(params.get("name")))
            case "prompts/get":
                found.append(self._prompts.entries.permit(params.get("name")))
            case "resources/read" | "resources/subscribe":
                found.append(self._resources.permit(params.get("uri")))
            case "subscriptions/listen" if self._resources.entries.is_guarded:
                wanted: Any = params.get("notifications")
                uris: Any = wanted.get("resourceSubscriptions") if is_object(wanted) else None
                if is_array(uris):
                    found += [self._resources.permit(uri) for uri in uris[: self._limits.max_subscriptions]]
            case _:
                pass
        return [permit for permit in found if permit is not None]

    def lacking_scopes(
        self, method: str, params: Mapping[str, Any], principal: Principal | None
    ) -> frozenset[str] | None:
        """Return the scopes that a request needs, if its principal lacks some; `None` if more would not help."""
        lacking = [permit.lacking(principal) for permit in self.permits(method, params)]
        needed = [scopes for scopes in lacking if scopes is not None]
        return frozenset[str]().union(*needed) if needed else None

    def marks_of(self, method: str, params: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
        """Return which arguments of a request header fields carry, over HTTP."""
        return self._tools.marks_of(params.get("name")) if method == "tools/call" else ()
