"""What a server offers: tools, prompts, resources, handlers of methods and notifications, extensions.

The registration classes are the methods by which a server's author adds, removes and hides these, and serve the
protocol's methods for them. What is registered lives in the registries of `_tools`, `_prompts` and `_resources`;
what reads files and media is imported when the first one is registered, for many servers have none. Connections
look up in `Application` what they need of their server. How it is served is in `_server`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from operator import setitem
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, final, overload

import attrs
import trio

from .. import types
from .._channel import Origin
from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import Encoded, encode_notification
from .._core._changes import ListKind, check_announcement, check_notification_method
from .._core._http1 import HeaderMark
from .._core._uri_template import UriTemplate, check_uri
from .._limits import Limits, check_given, check_options, check_whole
from .._oauth._principal import Principal
from .._peer._call import checked
from .._revisions import WITHOUT_HANDLER, Revision
from ._changes import Announcement, ChangeHub
from ._context import Context, NotificationHandler, origin_of
from ._extensions import ServerExtensions
from ._functions import MethodHandler, decorator, pass_throttle, read_handler, registering, with_example
from ._input_required import Asking
from ._listing import Listing, described, read_params, refuse_many
from ._permits import Permit, Throttle, read_scopes, read_throttle
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
from ._tools import (
    KeptLists,
    RegisteredTool,
    ToolOptions,
    ToolRegistry,
    check_options_of_method,
    read_method_handler,
)

# Registration: tool(), prompt(), resource() and their brothers.


_OF_TASKS: Final = frozenset({"task", "ttl", "poll", "ask_first", "restartable"})
_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _SkillOptions(TypedDict):
    nested: bool
    ttl: float
    scope: types.CacheScope


class Registration:
    """Registers what a server offers, and notifies its clients; a server is one."""

    _application: Application

    # Tools.

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
            rate: How often each client may call it, such as ``"10/minute"``; as many at once as in one period.
                Further calls are refused with ``SERVER_BUSY`` and the seconds after which to try again. Each run
                of the function counts, also when it is run again with a client's answers. A client is a
                principal, an address without authentication, or a connection. Default: `None`, for any number.
            thread: Whether a plain ``def`` runs in a thread. Default: yes. If not, it must not block.
            timeout: After how many seconds a call is cancelled and its cleanup run; the model gets an error. It
                counts from when the call has its place under `limit`, and time that the client takes to answer
                the tool's own questions counts. Default: `None`, for never.
            limit: How many calls run at once. Further ones wait, and can be cancelled meanwhile. Default: `None`,
                for any number.
            resume: What happens to it in the modern era while its client answers a question. ``"park"``, the
                default: its task waits in this server. ``"replay"``: it is run again from the beginning and finds
                the answers it has got before; this outlives restarts and works behind a load balancer (see
                ``request_state_keys``), but it repeats what it does before a question. ``"never"``: it does not
                ask, and needs no task that could wait, which is faster; asking is an error.
            task: Whether a call becomes a task, which its client comes back for: ``"never"``, the default;
                ``"optional"``, if the client knows tasks, and otherwise it is a call as any other;
                ``"required"``, so that other clients cannot call it. Clients of 2026-07-28 can know tasks; those
                of 2025-11-25 say of each call whether it is to be one. The function is the same.
            ttl: For how many seconds from its creation a task is kept; one that still runs is cancelled then.
                `None` for as long as the server runs. Default: 3,600.
            poll: After how many seconds clients of a task should look at it again. Default: 1.
            ask_first: Whether the call begins as any other does, so that its questions come before the task, and
                becomes a task where the function calls `Context.begin_task`. Default: it is a task at once.
            restartable: Whether a task is run again, from the beginning, that its process has not ended: by the
                next one that opens the store (`open_sqlite_task_store`) and serves the tool. Default: it fails.
            strict_input: Whether arguments are refused that do not fit the schema to the letter; see `Server`.
                Default: as the server has it.
            input_schema: The schema of the arguments, sent to the letter and enforced. Then the function takes
                the arguments as they are, a mapping, in its first parameter that is neither a context nor a
                dependency: ``async def run(arguments: Mapping[str, Any], ctx: Context) -> …``.
            output_schema: The schema of the structured output, sent to the letter and enforced, in place of the
                return annotation's. The function returns what fits it, or a `CallToolResult` with that.
            ui: The URI of the page by which a host shows its results; see `Server.add_app`. It returns text all
                the same, for the model, and for clients that show no pages. Default: `None`, for no page.
            visibility: Who may call it: ``{"model"}``, ``{"app"}``, for the pages of this server, or both. Hosts
                keep to it; the server refuses nobody. Default: `None`, for both.

        Raises:
            TypeError: Its parameters or its result have no form in JSON; a dependency is not sound; there is no
                such option.
            ValueError: The name is not valid for a tool, or is taken; a schema or an option is not valid; a
                `Field.header` is not valid, is used twice, or marks what a header cannot carry.

        Spec: 2026-07-28, server/tools.
        """
        check_options(options, ToolOptions)
        return registering(self, "tool", function, lambda tool: self._application.add_tool(tool, options))

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Its calls that are running go on; further ones are to an unknown tool.

        Raises:
            LookupError: There is no such tool.
        """
        self._application.tools.entries.remove(name)

    def disable_tool(self, name: str) -> None:
        """Hide a tool from clients, as if it were removed, until `enable_tool` shows it again in its old place.

        Raises:
            LookupError: There is no such tool.
        """
        self._application.tools.entries.switch(name, enabled=False)

    def enable_tool(self, name: str) -> None:
        """Show a tool again that was hidden by `disable_tool`.

        Raises:
            LookupError: There is no such tool.
        """
        self._application.tools.entries.switch(name, enabled=True)

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the tools, as clients see it.

        Raises:
            ValueError: No tool has this name.
        """
        return self._application.find_tool(name)

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
            name, title, description, icons, meta, scopes, rate, thread, resume: As for `tool`.
            timeout: After how many seconds it is cancelled and answered with an error. Default: `None`, for
                never.

        Raises:
            TypeError: Its parameters have no form in JSON; a dependency is not sound; there is no such option.
            ValueError: The name is empty or taken; the timeout is not more than 0.

        Spec: 2026-07-28, server/prompts.
        """
        check_options(options, PromptOptions)
        return registering(
            self, "prompt", function, lambda prompt: self._application.prompts.add(prompt, options)
        )

    # Completion.

    @with_example('"summarise", "order_id"')
    def completion(
        self, reference: str, argument: str, *, thread: bool = True
    ) -> Callable[[_Function], _Function]:
        """Register a function that completes an argument: ``@server.completion("summarise", "order_id")``.

        It is called with what has been typed so far, and returns strings, best first, or a `Completion`. If it
        has a parameter named `arguments`, that gets the arguments filled in already; it is empty for older
        clients, which do not send them. A `Context` and dependencies are filled in. At most 100 values are sent,
        with a mark that there are more.

        Args:
            reference: A prompt's name, as it was registered before; or the template of resources, which must be
                there when serving begins.
            argument: The prompt's argument, or the template's variable.
            thread: Whether a plain ``def`` runs in a thread. Default: yes. If not, it must not block.

        Raises:
            TypeError: The function has no parameter for the value, or one that is never filled.
            ValueError: There is no such prompt, it has no such argument, or that has a completion already.

        Spec: 2026-07-28, server/utilities/completion.
        """
        check_given(Registration.completion, locals())
        return decorator(
            lambda function: self._application.completer.add(function, reference, argument, thread=thread)
        )

    # Removing.

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Requests for it that are running go on; further ones are for an unknown prompt.

        Raises:
            LookupError: There is no such prompt.
        """
        self._application.prompts.entries.remove(name)

    def disable_prompt(self, name: str) -> None:
        """Hide a prompt from clients, as if it were removed, until `enable_prompt` shows it in its old place.

        Raises:
            LookupError: There is no such prompt.
        """
        self._application.prompts.entries.switch(name, enabled=False)

    def enable_prompt(self, name: str) -> None:
        """Show a prompt again that was hidden by `disable_prompt`.

        Raises:
            LookupError: There is no such prompt.
        """
        self._application.prompts.entries.switch(name, enabled=True)

    # Resources.

    @with_example('"orders://recent"')
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
            name, title, description, icons, meta, scopes, rate, thread, resume: As for `tool`. What a template
                stands for counts together.
            mime_type: Its type. By default what the URI ends with tells, then what is returned.
            annotations: Hints for the client.
            size: Its size in bytes, if known. A template has none.
            ttl: For how many seconds clients may keep what they have read. Default: 0, ask each time.
            scope: ``"public"`` if it is the same for every client. Default: ``"private"``.
            timeout: After how many seconds reading is cancelled, and fails. Default: `None`, for never.

        Raises:
            TypeError: A parameter has no form in JSON; there is no such option.
            ValueError: The URI or template is not valid, or is taken; it can be read in several ways; its
                variables and the function's parameters do not agree; or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations"; server/utilities/caching.
        """
        check_options(options, FunctionOptions)
        check_given(Registration.resource, {"unsafe_variables": unsafe_variables})
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
            handler = read_handler(function, options, is_timed=False)
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
            mime_type: Its type. By default what the URI ends with tells, then what the content is.
            title, description, annotations, icons, meta, scopes, rate, ttl, scope: As for `resource`; by default
                there is no description.

        Raises:
            TypeError: There is no such option.
            ValueError: The URI is not valid, or is taken, or another argument is out of bounds.
        """
        from ._media import plain_contents

        check_options(options, ResourceOptions)
        check_given(Registration.add_resource, {"uri": uri, "content": content})
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
            mime_type: Its type. By default what its name tells, then its bytes.
            title, description, annotations, icons, meta, scopes, rate, ttl, scope: As for `add_resource`.

        Raises:
            TypeError: There is no such option.
            ValueError: The URI is not valid, or is taken, or another argument is out of bounds.
        """
        from ._files import FileSource

        check_options(options, ResourceOptions)
        check_given(Registration.add_file, {"path": path, "uri": uri})
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

        They are listed, up to 1,000 of them, and offered as a template. Whatever a client asks for,
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
            mime_type: The type of all of them. By default each one's name tells, then its bytes.
            title, description, annotations, icons, meta, scopes, rate, ttl, scope: As for `add_resource`; `title`
                and `meta` are the template's, `annotations` and `icons` are about each file, and all files count
                together.

        Raises:
            TypeError: There is no such option.
            ValueError: The URI or the pattern is not valid, or is taken, or another argument is out of bounds.

        Spec: 2026-07-28, server/resources, "Security Considerations".
        """
        from ._files import DirectorySource, directory_prefix

        check_options(options, ResourceOptions)
        check_given(Registration.add_directory, locals())
        absolute = Path(path).absolute()
        prefix = directory_prefix(absolute, uri)
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
        )
        self._add(prefix, source, options)

    def add_skill(
        self,
        directory: str | os.PathLike[str],
        *,
        prefix: str = "",
        nested: bool = True,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Serve a skill: a directory with a SKILL.md, which says in YAML what it is for, and what it refers to.

        Its files are resources, ``skill://<prefix>/<name>/<file>``, and clients can list the skills with a digest
        of each file, and what is in a directory. The directory is looked at whenever they ask; what has become
        invalid meanwhile is left out, and logged. Files whose names begin with a dot are not part of it. Links
        are followed as `add_directory` does. Every file is read when it is added, which blocks meanwhile.

        Needs PyYAML: ``pip install 'trio-mcp[skills]'``.

        Args:
            directory: The directory. Its name is that of the skill.
            prefix: What comes before the name in URIs, such as ``"acme/billing"``.
            nested: Whether directories in it with a SKILL.md are skills of their own, too.
            ttl: For how many seconds clients may keep what they have read. Default: 0, ask each time.
            scope: ``"public"`` if it is the same for every client. Default: ``"private"``.

        Raises:
            ValueError: It is no skill, breaks a rule of the format, or has more than 512 files or 16 MiB; or
                there is another skill at its URI; or another argument is out of bounds.
            RuntimeError: PyYAML is not installed.

        Spec: extension io.modelcontextprotocol/skills (SEP-2640).
        """
        self._add_skills(directory, prefix, is_skill=True, nested=nested, ttl=ttl, scope=scope)

    def add_skills(
        self,
        directory: str | os.PathLike[str],
        *,
        prefix: str = "",
        nested: bool = True,
        ttl: float = 0,
        scope: types.CacheScope = "private",
    ) -> None:
        """Serve every skill below a directory; see `add_skill`. The directories between are part of their URIs.

        Skills that are added or removed later are found when a client asks.

        Args:
            directory: The directory.
            prefix: What comes before the path of each skill in URIs.
            nested: Whether directories in skills with a SKILL.md are skills of their own, too.
            ttl: For how many seconds clients may keep what they have read. Default: 0, ask each time.
            scope: ``"public"`` if they are the same for every client. Default: ``"private"``.

        Raises:
            ValueError: There is no skill in it; or as `add_skill`, of one of them.
            RuntimeError: PyYAML is not installed.
        """
        self._add_skills(directory, prefix, is_skill=False, nested=nested, ttl=ttl, scope=scope)

    def _add_skills(
        self, directory: str | os.PathLike[str], prefix: str, *, is_skill: bool, **options: Unpack[_SkillOptions]
    ) -> None:
        from ._skills import SkillCatalog, SkillMethods, SkillRoot, add_skills, prefix_of

        check_given(Registration.add_skill, {"directory": directory, "prefix": prefix, **options})
        path = Path(directory).absolute()
        segments = (*prefix_of(prefix), path.name) if is_skill else prefix_of(prefix)
        root = SkillRoot(path=str(path), prefix=segments, is_skill=is_skill, **options)
        own = self._application

        def declare(catalog: SkillCatalog) -> None:
            own.extensions.add(SkillMethods(catalog, own.threads, own.listing).extension())

        own.is_skill_file = add_skills(root, own.resources.entries, own.limits, on_first=declare).has

    def remove_resource(self, uri: str) -> None:
        """Remove a resource, template or directory. Reads of it that are running go on.

        Args:
            uri: As it was registered; for a directory, what the URIs of its files begin with.

        Raises:
            LookupError: It is not registered.
        """
        self._application.resources.entries.remove(uri)

    def enable_resource(self, uri: str) -> None:
        """Show a resource, template or directory to clients again.

        Raises:
            LookupError: It is not registered.
        """
        self._application.resources.entries.switch(uri, enabled=True)

    def disable_resource(self, uri: str) -> None:
        """Hide a resource, template or directory from clients until it is enabled. It keeps its place.

        Raises:
            LookupError: It is not registered.
        """
        self._application.resources.entries.switch(uri, enabled=False)

    def _add(
        self, uri: str, source: ResourceSource, options: ResourceOptions, *, timeout: float | None = None
    ) -> None:
        registered = RegisteredResource(
            source=source, ttl=options.get("ttl", 0), scope=options.get("scope", "private"), timeout=timeout
        )
        permit = read_scopes(options.get("scopes"))
        if permit is not None and registered.scope == "public":
            raise ValueError(f"{uri!r:.200} has scopes, so what it holds cannot be for all: leave out scope")
        throttle = read_throttle(options.get("rate"), f"the resource {uri:.200}")
        self._application.resources.entries.add(uri, registered, permit, throttle)

    def _check(self, uri: str) -> None:
        try:
            check_uri(uri)
        except ValueError as error:
            raise ValueError(f"{uri!r:.200} cannot be registered: {error}") from error
        if self._application.is_skill_file(uri):
            raise ValueError(f"there is a file of a skill at {uri!r:.200} already")

    def _check_template(self, template: UriTemplate, size: int | None) -> None:
        if size is not None:
            raise ValueError(f"{template} is a template, whose resources have no size in common: leave out size")
        # What it expands to must be a URI. If it begins with a variable, that depends.
        if isinstance(template.parts[0], str):
            self._check(template.expand(dict.fromkeys(template.variables, "x")))

    @property
    def info(self) -> types.Implementation:
        """What the server is."""
        return self._application.info

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        return self._application.instructions

    @property
    def limits(self) -> Limits:
        """Limits of each connection."""
        return self._application.limits

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        return self._application.revisions

    # Methods and notifications.

    @with_example('"tools/list"')
    def request_handler(
        self, method: str, *, keep: bool = False, resume: Literal["park", "replay", "never"] = "park"
    ) -> Callable[[MethodHandler], MethodHandler]:
        """Register the handler of a method, of the protocol or your own: ``@server.request_handler("x/y")``.

        The handler is called with the parameters as plain JSON and the `Context`, and returns an object of
        `trio_mcp.types` or plain JSON. For a method of the protocol it takes the place of what the server does.
        A `ToolError` of the one of ``tools/call`` becomes a result that the model reads.

        Args:
            method: The method.
            keep: Of a list, such as ``"tools/list"``: whether its first page is the same for all clients until
                `list_changed` is called. It is then asked for, and written, once for each revision.
            resume: Of ``tools/call``, ``prompts/get`` and ``resources/read``, the only ones that can ask in the
                modern era: what happens to the handler meanwhile; see `tool`. With ``"never"`` it is faster.

        Raises:
            TypeError: It is given no function that can be called with the parameters and the `Context`.
            ValueError: The method is part of the handshake, or has such a handler already; or it is to be kept,
                and is no list; there is no such `resume`.
        """
        check_given(Registration.request_handler, {"keep": keep, "resume": resume})
        check_options_of_method(method, keep=keep, resume=resume)
        is_ours = method in WITHOUT_HANDLER
        if is_ours or method in self._application.custom:
            problem = "is served by the connection itself" if is_ours else "has a handler already"
            raise ValueError(f"{method} {problem}")

        def register(function: MethodHandler) -> None:
            handler = read_method_handler(method, function)
            kept = self._application.kept_lists
            self._application.custom[method] = kept.keeping(method, handler) if keep else handler
            self._application.asking_of_custom[method] = Asking(resume)

        return decorator(register)

    @with_example('"com.example/saved"')
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
        if method in self._application.notification_handlers:
            raise ValueError(f"{method} has a handler already")
        return decorator(partial(setitem, self._application.notification_handlers, method))

    # Changes.

    async def resource_updated(self, uri: str) -> None:
        """Notify every client that has subscribed to a resource that it has changed.

        Returns at once: each client is notified as fast as it reads, and several changes of a resource that were
        not sent yet are sent as one. Nothing happens while no client is served.

        Args:
            uri: The resource, as clients have subscribed to it, letter for letter; that of a template is made by
                `UriTemplate.expand`.

        Raises:
            ValueError: It is no URI.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        check_given(Registration.resource_updated, {"uri": uri})
        self._application.resources.check_changed(uri)
        self._application.changes.resource_updated(uri)
        await trio.lowlevel.checkpoint()

    def list_changed(self, kind: ListKind) -> None:
        """Notify every client that wants it that a list has changed. Never waits, and works in any thread.

        What is registered or removed here is notified without this. It is for lists that you serve yourself, with
        `request_handler`.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``; templates are resources, too.

        Raises:
            ValueError: There is no such list.
        """
        check_given(Registration.list_changed, {"kind": kind})
        self._application.kept_lists.forget(kind)
        self._application.changes.list_changed(kind)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send all sessions a notification of your own. Never waits, and works in any thread.

        Sessions are those of the legacy era that are initialized, over every transport; over HTTP it goes to the
        stream that the client holds open with GET. They get it in order with other such notifications. For one
        that does not read, `Limits.max_notifications` of them wait, of 1 MiB together; then the oldest are
        dropped, which `dropped_notifications` counts. Nothing happens while no client is served.

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
        check_given(Registration.notify, locals())
        check_announcement(method)
        encoded = None if params is None else Encoded(_json.encode(dict(params)))
        size = len(checked(encode_notification(method, encoded), method, self._application.limits))
        self._application.changes.announce(Announcement(method, encoded, size))

    @property
    def dropped_notifications(self) -> int:
        """How many notifications of `notify` were not sent to a session, because it did not read those before."""
        return self._application.changes.dropped


@final
@attrs.define(eq=False)
class Application:
    """What a server offers, and how its connections look that up: a `Server` without what its author calls.

    Args:
        info: What the server is.
        instructions: How a model should use it.
        limits: Limits of each connection.
        revisions: The revisions it speaks.
        throttle: How often each client may send requests.
        threads: Where plain functions run.
        listing: Cuts lists into pages, and knows how long clients may keep results.
        extensions: The extensions of the protocol that it knows.

    Attributes:
        changes: Passes changes on to the clients that want to know of them.
        custom: The handlers of methods, by method, that its author has registered.
        asking_of_custom: Which of these ask.
        kept_lists: What of these is kept.
        is_skill_file: Whether a file of a skill is at a URI.
        legacy_tasks: The `LegacyTasks`, for clients of 2025-11-25, from the first tool with ``task=`` on.
        notification_handlers: Those of notifications, likewise.
    """

    info: types.Implementation
    instructions: str | None
    limits: Limits
    revisions: tuple[Revision, ...]
    throttle: Throttle | None
    threads: Threads
    listing: Listing
    extensions: ServerExtensions
    changes: ChangeHub = attrs.field(init=False)
    tools: ToolRegistry = attrs.field(factory=partial(ToolRegistry, "tool"), init=False)
    prompts: PromptRegistry = attrs.field(init=False)
    resources: ResourceRegistry = attrs.field(init=False)
    completer: Completer = attrs.field(init=False)
    custom: dict[str, MethodHandler] = attrs.field(factory=dict[str, MethodHandler], init=False)
    asking_of_custom: dict[str, Asking] = attrs.field(factory=dict[str, Asking], init=False)
    kept_lists: KeptLists = attrs.field(factory=KeptLists, init=False)
    is_skill_file: Callable[[str], bool] = attrs.field(default=frozenset[str]().__contains__, init=False)
    notification_handlers: dict[str, NotificationHandler] = attrs.field(
        factory=dict[str, NotificationHandler], init=False
    )
    legacy_tasks: Any = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.changes = ChangeHub(self.limits)
        self.changes.knows = self._knows
        self.prompts = PromptRegistry(self.threads, self.listing)
        self.resources = ResourceRegistry(self.limits, self.threads, self.listing)
        self.tools.entries.on_change = partial(self.changes.list_changed, "tools")
        self.prompts.entries.on_change = partial(self.changes.list_changed, "prompts")
        self.resources.entries.on_change = partial(self.changes.list_changed, "resources")
        self.completer = Completer(self.prompts, self.resources, check=self.resources.check_typed)

    def capabilities(self, revision: Revision) -> types.ServerCapabilities:
        """Return what the server can do now, for a client of a revision."""
        custom = self.custom.keys()
        has_tools = self.tools.entries.was_used or "tools/list" in custom
        has_prompts = self.prompts.entries.was_used or "prompts/list" in custom
        has_resources = self.resources.entries.was_used or not custom.isdisjoint(
            ("resources/list", "resources/read")
        )
        can_complete = self.completer.can_complete or "completion/complete" in custom
        return types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=True) if has_tools else None,
            prompts=types.PromptsCapability(list_changed=True) if has_prompts else None,
            resources=types.ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if can_complete else None,
            logging={},
            extensions=self.extensions.settings[revision] or None,
        )

    def handler_for(self, method: str, revision: Revision) -> MethodHandler | None:
        """Return the handler of a method; `None` if it belongs to a capability that the server does not have."""
        of_extensions = self.extensions.request_handlers.get(method)
        return (
            self.custom.get(method)
            or (None if of_extensions is None else of_extensions.get(revision))
            or self._tool_handler(method)
            or self.prompts.handler_for(method)
            or self.resources.handler_for(method)
            or (None if self.legacy_tasks is None else self.legacy_tasks.handler_for(method, revision))
            or (self._complete if method == "completion/complete" and self.completer.can_complete else None)
        )

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask its client, and what happens to it meanwhile."""
        if method in self.custom:
            return self.asking_of_custom[method]
        match method:
            case "tools/call":
                asking = self.tools.asking(params.get("name"))
                return Asking.PARK if asking is Asking.NEVER and self.extensions.wraps_calls else asking
            case "prompts/get":
                return self.prompts.asking(params.get("name"))
            case "resources/read":
                return self.resources.asking(params.get("uri"))
            case _:
                return Asking.NEVER

    def notification_handler_for(self, method: str, revision: Revision) -> NotificationHandler | None:
        """Return the handler of the notifications of a method."""
        of_extensions = self.extensions.notification_handlers.get(method, {})
        return self.notification_handlers.get(method) or of_extensions.get(revision)

    def _knows(self, uri: str) -> bool:
        """Whether a client may subscribe to a resource; any, if a `request_handler` serves reading."""
        by_hand = "resources/read" in self.custom or not self.resources.entries.was_used
        return by_hand or self.resources.knows(uri)

    def permits(self, method: str, params: Mapping[str, Any]) -> list[Permit]:
        """Return what says who may make a request: nothing for most, everything for the empty method."""
        found: list[Permit | None] = []
        match method:
            case "":
                all_of = (*self.tools.entries, *self.prompts.entries, *self.resources.entries)
                found += [entry.permit for entry in all_of]
            case "tools/call":
                found.append(self.tools.entries.permit(params.get("name"), params))
            case "prompts/get":
                found.append(self.prompts.entries.permit(params.get("name"), params))
            case "resources/read" | "resources/subscribe":
                found.append(self.resources.permit(params.get("uri")))
            case "completion/complete":
                ref: Any = params.get("ref")
                if is_object(ref):
                    found.append(self.prompts.entries.permit(ref.get("name")))
                    found.append(self.resources.permit_of_template(ref.get("uri")))
            case "subscriptions/listen" if self.resources.entries.is_guarded:
                wanted: Any = params.get("notifications")
                uris: Any = wanted.get("resourceSubscriptions") if is_object(wanted) else None
                if is_array(uris):
                    found += [self.resources.permit(uri) for uri in uris[: self.limits.max_subscriptions]]
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
        return self.tools.marks_of(params.get("name")) if method == "tools/call" else ()

    def add_tool(self, function: Callable[..., Any], options: ToolOptions) -> None:
        """Register a function as a tool. With the first one for tasks the server has the extension.

        Raises:
            ValueError: What the options say of tasks is out of bounds, or there are none.
            TypeError, ValueError: See `ToolRegistry.add`.
        """
        self.tools.add(function, options, self._tool_maker(options))

    def _tool_maker(self, options: ToolOptions) -> Callable[..., RegisteredTool]:
        if options.keys().isdisjoint(_OF_TASKS):
            return RegisteredTool
        from ._legacy_tasks import LegacyTasks  # few servers have any
        from ._task_methods import read_task_rules, task_tool, tasks_extension

        rules = read_task_rules(options)
        if rules is None:
            return RegisteredTool
        self.extensions.add_once(tasks_extension())
        self.legacy_tasks = self.legacy_tasks or LegacyTasks(self.changes, self.listing)
        return partial(task_tool, rules)

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the tools, as clients see it.

        Raises:
            ValueError: No tool has this name.
        """
        registered = self.tools.entries.shown.get(name)
        if registered is None:
            raise ValueError(f"this server has no tool called {name!r}")
        return registered.tool

    # Serving.

    def _tool_handler(self, method: str) -> MethodHandler | None:
        """Return the handler of a method of tools; `None` if no tool was ever registered."""
        if not self.tools.entries.was_used:
            return None
        if method == "tools/call":
            if self.extensions.wraps_calls:
                return self._call_wrapped_tool
            return self._call_checked_tool if self.tools.entries.is_checked else self._call_tool
        return self._list_tools if method == "tools/list" else None

    async def _list_tools(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        revision, entries = context.revision, self.tools.entries

        def list_page(own: Origin | None = None) -> types.ListToolsResult:
            visible = entries.visible_to(own) if entries.is_guarded else entries.visible
            page, members = self.listing.page("tools/list", params, visible, is_own=entries.is_guarded)
            return types.ListToolsResult(tools=[tool.seen_by(revision) for tool in page], **members)

        if entries.is_guarded:
            return list_page(origin_of(context))
        return self.listing.kept("tools/list", params, revision, entries.changes, list_page)

    def _check_call(self, params: Mapping[str, Any], context: Context[Any]) -> None:
        self.tools.check_permit(params.get("name"), origin_of(context), params)
        pass_throttle(self.tools.entries.throttle(params.get("name")), context)

    async def _call_checked_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        self._check_call(params, context)
        return await self._call_tool(params, context)

    async def _call_wrapped_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        if self.tools.entries.is_checked:
            self._check_call(params, context)
        return await self.extensions.call(params, context, self._call_tool)

    async def _call_tool(self, params: Mapping[str, Any], context: Context[Any]) -> object:
        name: Any = params.get("name")
        arguments: Any = params.get("arguments")
        if not (
            isinstance(name, str)
            and arguments.__class__ is dict
            and params.keys() <= _CALL_MEMBERS
            and params.get("_meta", arguments).__class__ is dict
        ):
            # Something is missing, wrong, or rare: read them in full.
            call = read_params(params, types.CallToolRequestParams)
            name, arguments = call.name, call.arguments or {}
            if call.task is not None and self.legacy_tasks is not None:
                self.legacy_tasks.check(self.tools.get(name), context)
        tool = self.tools.entries.shown.get(name) or self.tools.get(name)  # which raises
        return await tool.call(arguments, context, self.threads, self.limits)

    async def _complete(self, params: Mapping[str, Any], context: Context[Any]) -> types.CompleteResult:
        refuse_many(params, "context", "arguments")
        asked = read_params(params, types.CompleteRequestParams)
        if isinstance(asked.ref, types.PromptReference):
            self.prompts.check_permit(asked.ref.name, origin_of(context))
        else:
            self.resources.check_permit_of_template(asked.ref.uri, origin_of(context), context.revision)
        return await self.completer.complete(asked, context, self.threads)
