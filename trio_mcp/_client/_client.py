"""`Client`: the typed calls, one for each feature of a server, and lists that are read page by page.

How a request is sent, asked for again or answered from a cache is in `_low_level`; here is what it means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, final, overload

import attrs
import trio
from typing_extensions import TypeVar, Unpack

from .._errors import HEADER_MISMATCH, LocalProtocolError, McpError, RemoteProtocolError, RequestError
from .._limits import Limits, check_whole, refuse_unknown
from .._revisions import METHODS, Side
from ..types import (
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    CompletionArgument,
    CompletionContext,
    DiscoverResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    PaginatedRequestParams,
    PaginatedResult,
    Prompt,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    ServerCapabilities,
    Tool,
)
from ._caches import output_type, read_output
from ._listen import Events, open_events, what_to_listen_to
from ._low_level import (
    ListOptions,
    LowLevelClient,
    WorkOptions,
    brought_by,
    read_answer,
    read_result,
)
from ._questions import Roots

_T = TypeVar("_T")
_R = TypeVar("_R", bound=PaginatedResult, default=PaginatedResult)


@final
@attrs.define(eq=False, repr=False)
class PageIterator(AsyncIterator[_R], Generic[_R]):
    """Iterates over the pages of a list, each a whole result. Made by `Pages.pages`.

    Raises:
        RemoteProtocolError: The server repeats a cursor, so that the list has no end, or has too many pages.
    """

    _fetch: Callable[[str | None], Awaitable[_R]]
    _what: str
    _cursor: str | None
    _max_pages: int
    # Hashes, because cursors may be as long as a message.
    _seen: set[int] = attrs.field(factory=set[int], init=False)
    _pages: int = attrs.field(default=0, init=False)
    _at_end: bool = attrs.field(default=False, init=False)

    async def __anext__(self) -> _R:
        await trio.lowlevel.checkpoint()
        if self._at_end:
            raise StopAsyncIteration
        if self._pages >= self._max_pages:
            raise RemoteProtocolError(f"{self._what}: more than {self._max_pages} pages (max_pages)")
        if self._cursor is not None:
            self._seen.add(hash(self._cursor))
        page = await self._fetch(self._cursor)
        self._pages += 1
        cursor = page.next_cursor
        if cursor is not None and hash(cursor) in self._seen:
            raise RemoteProtocolError(f"{self._what}: the server repeats the cursor {cursor[:40]!r}")
        self._cursor, self._at_end = cursor, cursor is None
        return page


@final
@attrs.define(eq=False, repr=False)
class Pages(AsyncIterator[_T], Generic[_T, _R]):
    """Iterates over the items of a list and follows its cursors, asking for a page when it is needed.

    ``async for tool in client.list_tools()``, or all of them at once: ``await client.list_tools()``. Nothing has
    to be closed: between two items no request is pending. Items that cannot be read are left out and logged.

    Args:
        fetch: Requests the page at a cursor; `None` is the first.
        items: Returns the items of a page.
        what: The method, for errors.
        cursor: Where to begin: the `next_cursor` of a page that was read before.
        max_pages: How many pages a list may have.
        weight: Returns the bytes that the pages fetched so far take in memory.
        max_bytes: How many they may take if they are read at once.

    Raises:
        RemoteProtocolError: The server repeats a cursor, so that the list has no end, or has too many pages.

    Spec: 2026-07-28, server/utilities/pagination.
    """

    _fetch: Callable[[str | None], Awaitable[_R]]
    _items_of: Callable[[_R], Sequence[_T]] = attrs.field(alias="items")
    _what: str = attrs.field(alias="what", kw_only=True)
    _cursor: str | None = attrs.field(alias="cursor", default=None, kw_only=True)
    _max_pages: int = attrs.field(alias="max_pages", default=10_000, kw_only=True)
    _weight: Callable[[], int] = attrs.field(alias="weight", default=lambda: 0, kw_only=True)
    _max_bytes: int = attrs.field(alias="max_bytes", default=Limits().max_decoded_bytes, kw_only=True)
    _pages: PageIterator[_R] = attrs.field(init=False)
    _items: deque[_T] = attrs.field(factory=deque[_T], init=False)

    def __attrs_post_init__(self) -> None:
        self._pages = self.pages()

    async def __anext__(self) -> _T:
        await trio.lowlevel.checkpoint()
        while not self._items:
            self._items.extend(self._items_of(await anext(self._pages)))
        return self._items.popleft()

    def __await__(self) -> Generator[Any, None, list[_T]]:
        """Read what is left of the list: ``tools = await client.list_tools()``."""
        return self._all().__await__()

    async def _all(self) -> list[_T]:
        before = self._weight()
        items: list[_T] = []
        async for item in self:
            items.append(item)
            if not self._items and self._weight() - before > self._max_bytes:
                raise RemoteProtocolError(
                    f"{self._what}: read at once, the list takes more than {self._max_bytes} bytes in memory "
                    "(max_decoded_bytes); iterate over its items instead"
                )
        return items

    def pages(self) -> PageIterator[_R]:
        """Iterate over whole pages instead, from the beginning, whatever was read of the items.

        ``page = await anext(client.list_tools().pages())`` is the first; its `next_cursor` as ``cursor`` of
        another list continues there, in this program or in another.
        """
        return PageIterator(self._fetch, self._what, self._cursor, self._max_pages)


_P = TypeVar("_P", bound=PaginatedResult)


@final
class Client(LowLevelClient):
    """A client of one server. Made by `open_client` or `run_client`; any task may use it, and any may close it.

    Every call may be cancelled, and the cancellation is sent to the server. Every call raises `ConnectionLost`
    when the connection is lost for good, `trio.ClosedResourceError` when the client was closed, `RequestError`
    when the server answers with an error, and `RemoteProtocolError` when its answer cannot be used. Over HTTP
    calls do not share a connection: `ConnectionLost` concerns that call alone, and an error of HTTP is an
    `HttpStatusError`. If the server has lost the session, another one is begun, and the calls that it refused
    are made again, once.

    A modern server may ask for input before it answers `call_tool`, `get_prompt` or `read_resource`; the client's
    handlers answer, and the request is sent again, at most ``max_input_rounds`` times. That is all inside one
    call: one deadline, one ``on_progress``. The call raises what a handler raises. With
    ``input_required="return"`` an `InputRequiredResult` is returned instead, and the caller sends the request
    again, with ``input_responses`` and ``request_state`` (2026-07-28, basic/patterns/mrtr).
    """

    # Tools.

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: None = None,
        input_required: Literal["answer"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: None = None,
        input_required: Literal["return"],
        **options: Unpack[WorkOptions],
    ) -> CallToolResult | InputRequiredResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: type[_T],
        **options: Unpack[WorkOptions],
    ) -> _T: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: Any,
        **options: Unpack[WorkOptions],
    ) -> Any: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: Any = None,
        input_required: Literal["answer", "return"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> Any:
        """Call a tool.

        Args:
            name: The tool's name.
            arguments: Its arguments as plain JSON.
            returns: The type of the structured output, which is then returned instead of the result: any type a
                tool can be annotated with. Members that it does not have are left out.
            input_required: Whether the client's handlers answer the server's questions, or the caller does.
            **options: See `WorkOptions`.

        Returns:
            The result, also one that is an error of the tool: see `is_error`. With `returns`, a value of that
            type.

        Raises:
            RequestError: The server refuses the call, for instance because it has no such tool.
            RemoteProtocolError: The result cannot be read, or breaks the output schema that the tool had when
                this client listed it, or is not of the type `returns`.
            ToolError: The tool failed, and `returns` is given.
            TypeError: `returns` has no form in JSON. Nothing was sent.

        Spec: 2026-07-28, server/tools, "Calling Tools".
        """
        _check_arguments(arguments)
        kind = None if returns is None else output_type(returns)
        # Some old servers refuse a call that leaves the arguments out, although it may.
        params = CallToolRequestParams(name=name, arguments=arguments or {}, **brought_by(options))
        hand_back = input_required == "return"
        progress = options.get("on_progress")
        try:
            answered = await self._call("tools/call", params, progress, hand_back=hand_back)
        except RequestError as error:
            if error.code != HEADER_MISMATCH:
                raise
            # The server has read no further than the header fields. They follow from how the tool was listed.
            await self._list_again(error)
            answered = await self._call("tools/call", params, progress, hand_back=hand_back)
        result = read_answer("tools/call", answered, CallToolResult)
        if isinstance(result, InputRequiredResult):
            return result
        self._caches.outputs.check(name, result)
        return result if kind is None else read_output(name, result, kind)

    async def _list_again(self, mismatch: RequestError) -> None:
        """List the tools, so that the transport learns their header fields (2026-07-28, "Client Behavior")."""
        try:
            async for _ in self.list_tools(fresh=True):
                pass
        except McpError as failure:
            raise mismatch from failure

    def list_tools(self, **options: Unpack[ListOptions]) -> Pages[Tool, ListToolsResult]:
        """Iterate over the server's tools: ``async for tool in client.list_tools()``.

        Spec: 2026-07-28, server/tools, "Listing Tools".
        """
        return self._pages("tools/list", ListToolsResult, lambda page: page.tools, options)

    # Resources.

    def list_resources(self, **options: Unpack[ListOptions]) -> Pages[Resource, ListResourcesResult]:
        """Iterate over the server's resources; those of templates are not listed.

        Spec: 2026-07-28, server/resources, "Listing Resources".
        """
        return self._pages("resources/list", ListResourcesResult, lambda page: page.resources, options)

    def list_resource_templates(
        self, **options: Unpack[ListOptions]
    ) -> Pages[ResourceTemplate, ListResourceTemplatesResult]:
        """Iterate over the templates of the server's resources.

        Spec: 2026-07-28, server/resources, "Resource Templates".
        """
        return self._pages(
            "resources/templates/list",
            ListResourceTemplatesResult,
            lambda page: page.resource_templates,
            options,
        )

    @overload
    async def read_resource(
        self,
        uri: str,
        *,
        fresh: bool = False,
        input_required: Literal["answer"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> ReadResourceResult: ...
    @overload
    async def read_resource(
        self,
        uri: str,
        *,
        fresh: bool = False,
        input_required: Literal["return"],
        **options: Unpack[WorkOptions],
    ) -> ReadResourceResult | InputRequiredResult: ...
    async def read_resource(
        self,
        uri: str,
        *,
        fresh: bool = False,
        input_required: Literal["answer", "return"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> ReadResourceResult | InputRequiredResult:
        """Read a resource.

        Args:
            uri: Its URI.
            fresh: Whether to ask the server even if a cached result is still fresh. With
                ``input_required="return"`` it is always asked.
            input_required: Whether the client's handlers answer the server's questions, or the caller does.
            **options: See `WorkOptions`.

        Raises:
            RequestError: It does not exist (-32602, before 2026-07-28 -32002), or the server refuses.

        Spec: 2026-07-28, server/resources, "Reading Resources".
        """
        params = ReadResourceRequestParams(uri=uri, **brought_by(options))
        progress = options.get("on_progress")
        hand_back = input_required == "return"
        if hand_back or params.input_responses is not None or params.request_state is not None:
            answered = await self._call("resources/read", params, progress, hand_back=hand_back)
            return read_answer("resources/read", answered, ReadResourceResult)
        return await self._ask_cacheable(
            "resources/read", params, ReadResourceResult, fresh=fresh, on_progress=progress
        )

    # Prompts.

    def list_prompts(self, **options: Unpack[ListOptions]) -> Pages[Prompt, ListPromptsResult]:
        """Iterate over the server's prompts.

        Spec: 2026-07-28, server/prompts, "Listing Prompts".
        """
        return self._pages("prompts/list", ListPromptsResult, lambda page: page.prompts, options)

    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        input_required: Literal["answer"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> GetPromptResult: ...
    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        input_required: Literal["return"],
        **options: Unpack[WorkOptions],
    ) -> GetPromptResult | InputRequiredResult: ...
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        input_required: Literal["answer", "return"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> GetPromptResult | InputRequiredResult:
        """Get a prompt, filled in.

        Args:
            name: The prompt's name.
            arguments: Its arguments, by name.
            input_required: Whether the client's handlers answer the server's questions, or the caller does.
            **options: See `WorkOptions`.

        Raises:
            RequestError: The server has no such prompt, or a required argument is missing.

        Spec: 2026-07-28, server/prompts, "Getting a Prompt".
        """
        _check_arguments(arguments)
        params = GetPromptRequestParams(name=name, arguments=arguments, **brought_by(options))
        progress = options.get("on_progress")
        answered = await self._call("prompts/get", params, progress, hand_back=input_required == "return")
        return read_answer("prompts/get", answered, GetPromptResult)

    # Changes.

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resources: Iterable[str] = (),
        max_events: int | None = None,
    ) -> AbstractAsyncContextManager[Events]:
        """Listen to changes: ``async with client.listen(...) as events: async for event in events``.

        The block begins when the server has agreed; ``events.acknowledged`` is to what. Events are
        `ToolsListChanged`, `PromptsListChanged`, `ResourcesListChanged`, `ResourceUpdated` and `Resynced`. The
        iteration ends when the server ends the subscription in an orderly way. When it is interrupted, because
        the connection is restored or the subscription fails, the client subscribes again by itself, after a pause
        that grows, and reports it as `Resynced`: fetch again what you know. A slow listener delays no other task.

        Leaving the block, or cancelling it, ends the subscription at the server. In the legacy era that may take
        `Limits.goodbye_timeout`.

        Args:
            tools_list_changed: Whether to listen to changes of the list of tools.
            prompts_list_changed: Whether to listen to changes of the list of prompts.
            resources_list_changed: Whether to listen to changes of the lists of resources and templates.
            resources: The URIs of the resources to whose changes to listen.
            max_events: How many different changes may wait, at least 1; then iterating raises `Lagged`. Default:
                `Limits.max_events`.

        Raises:
            RequestError: The server refuses, or has no such resource. A legacy server is asked for
                subscriptions to resources even if it has not declared them: many have them and do not declare
                them.
            ValueError: Nothing to listen to is given, or `max_events` is less than 1.
            TypeError: `resources` is one string.
            ConnectionLost: The connection was lost before the server agreed; or, from iterating, for good.
            trio.TooSlowError: ``request_timeout`` passed before the server agreed.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        if max_events is None:
            max_events = self._settings.limits.max_events
        check_whole("max_events", max_events)
        wanted = what_to_listen_to(
            tools_list_changed=tools_list_changed,
            prompts_list_changed=prompts_list_changed,
            resources_list_changed=resources_list_changed,
            resources=resources,
        )
        entering = self._timeout("listening")
        return open_events(self._reconnecting, wanted, max_events, self._settings.limits, entering)

    # Utilities.

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference | Prompt | ResourceTemplate,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CompleteResult:
        """Ask for completions of an argument of a prompt, or of a variable of a resource template.

        Args:
            ref: The prompt or template: a reference, or an item of a list.
            argument: Its name.
            value: What has been typed so far.
            context: The arguments that have a value already. Sent from 2025-06-18 on.
            meta: What to add to the `_meta` of the request.

        Spec: 2026-07-28, server/utilities/completion.
        """
        if isinstance(ref, Prompt):
            ref = PromptReference(name=ref.name)
        elif isinstance(ref, ResourceTemplate):
            ref = ResourceTemplateReference(uri=ref.uri_template)
        params = CompleteRequestParams(
            ref=ref,
            argument=CompletionArgument(name=argument, value=value),
            context=None if context is None else CompletionContext(arguments=context),
            meta=meta,
        )
        answered = await self._call("completion/complete", params)
        return read_result("completion/complete", answered.result, CompleteResult)

    async def discover(self, *, fresh: bool = False, meta: Mapping[str, object] | None = None) -> DiscoverResult:
        """Ask what the server is and can do. In the legacy era that is its result of ``initialize``.

        Spec: 2026-07-28, server/discover.
        """
        connection = await self._reconnecting.connected()
        if connection.revision.is_modern:
            return await self._ask_cacheable(
                "server/discover", RequestParams(meta=meta), DiscoverResult, fresh=fresh
            )
        await trio.lowlevel.checkpoint()
        return DiscoverResult(
            supported_versions=(connection.revision,),
            capabilities=connection.capabilities or ServerCapabilities(),
            instructions=connection.instructions,
        )

    async def ping(self, *, meta: Mapping[str, object] | None = None) -> None:
        """Find out whether the server answers. The modern era has no ping: ``server/discover`` is sent."""
        connection = await self._reconnecting.connected()
        if connection.revision.is_modern:
            answered = await self._call("server/discover", RequestParams(meta=meta))
            read_result("server/discover", answered.result, EmptyResult)
        else:
            # Without parameters, not even an empty object (2025-11-25, basic/utilities/ping, "Message Format").
            result = await self.request("ping", None if meta is None else {"_meta": meta})
            read_result("ping", result, EmptyResult)

    async def set_log_level(self, level: LoggingLevel, *, meta: Mapping[str, object] | None = None) -> None:
        """Ask for log messages of at least this severity, from now on; they go to ``on_log``.

        In the legacy era a request is sent, in the modern era the level is a part of each request.

        Spec: 2025-11-25, server/utilities/logging; 2026-07-28, server/utilities/logging.
        """
        with self._timeout("logging/setLevel"):
            await self._reconnecting.set_log_level(level, meta)

    # Roots.

    async def set_roots(self, roots: Roots) -> None:
        """Replace the roots, and notify the server; see `roots_changed`. If cancelled, they are still replaced.

        Raises:
            TypeError, ValueError: One of them is not a root. Nothing has changed.
            LocalProtocolError: The client was opened without ``roots``, so it has not declared any.
        """
        known = self._questions.roots
        if known is not None:
            known.replace(roots)
        await self.roots_changed()

    async def roots_changed(self) -> None:
        """Notify the server that the roots have changed. A modern server asks whenever it needs them.

        Raises:
            LocalProtocolError: The client was opened without ``roots``, so it has not declared any.

        Spec: 2025-11-25, client/roots, "Root List Changes".
        """
        if self._questions.roots is None:
            raise LocalProtocolError("this client was opened without roots; pass roots=[] to set them later")
        connection = await self._reconnecting.connected()
        method = "notifications/roots/list_changed"
        if METHODS[method].allows(Side.CLIENT, connection.revision):
            await connection.peer.notify(method)
        await trio.lowlevel.checkpoint()

    def _pages(
        self,
        method: str,
        kind: type[_P],
        items: Callable[[_P], Sequence[_T]],
        options: ListOptions,
    ) -> Pages[_T, _P]:
        refuse_unknown(options, ListOptions)
        fresh, meta = options.get("fresh", False), options.get("meta")
        outputs = self._caches.outputs
        weight = 0

        def weigh(more: int) -> None:
            nonlocal weight
            weight += more

        async def fetch(cursor: str | None) -> _P:
            params = PaginatedRequestParams(cursor=cursor, meta=meta)
            stamp = outputs.stamp
            page = await self._ask_cacheable(method, params, kind, fresh=fresh, weigh=weigh)
            if isinstance(page, ListToolsResult):
                outputs.learn(page.tools, self.revision, stamp)
            return page

        limits = self._settings.limits
        return Pages(
            fetch,
            items,
            what=method,
            cursor=options.get("cursor"),
            max_pages=limits.max_pages,
            weight=lambda: weight,
            max_bytes=limits.max_decoded_bytes,
        )


def _check_arguments(arguments: object) -> None:
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments must be a mapping of names to values, not {type(arguments).__qualname__}")
