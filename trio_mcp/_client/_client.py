"""`Client`: the typed calls, one for each feature of a server, and lists that are read page by page.

How a request is sent, asked for again or answered from a cache is in `_low_level`; here is what it means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NoReturn, final, overload

import attrs
import trio
from typing_extensions import TypeVar, Unpack

from .._codec._json import Misfit, check_names
from .._core._apps import AppPage
from .._core._skill_entries import (
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsResult,
    ReadDirectoryRequestParams,
    ReadDirectoryResult,
    Skill,
)
from .._core._skills import resolve
from .._core._tasks import TASK
from .._errors import HEADER_MISMATCH, LocalProtocolError, McpError, RemoteProtocolError, RequestError
from .._lazily import name_as_methods_of, names_for_users
from .._limits import Limits, check_given, check_options, check_whole
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
from ._apps import page_in, uri_of, without_app_tools
from ._caches import output_type, read_output
from ._legacy_tasks import call_as_task, follower_of, is_task, resume, wants_task
from ._listen import EnteredInTrio, Events, open_events, what_to_listen_to
from ._low_level import (
    AnsweringOptions,
    HandingBackOptions,
    ListOptions,
    LowLevelClient,
    WorkOptions,
    brought_by,
    read_answer,
    read_result,
)
from ._questions import Roots
from ._skills import LoadedSkill, SkillFile, check_declared, check_received, load, read_file, refuse_dynamic
from ._tasks import ClientTask, TaskFollower, connected, declaring, finish_task, may_declare, open_task

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
            raise RemoteProtocolError(f"{self._what}: more than {self._max_pages} pages")
        if self._cursor is not None:
            self._seen.add(hash(self._cursor))
        page = await self._fetch(self._cursor)
        self._pages += 1
        cursor = page.next_cursor
        if cursor is not None and hash(cursor) in self._seen:
            raise RemoteProtocolError(f"{self._what}: the server repeats the cursor {cursor[:40]!r}")
        self._cursor, self._at_end = cursor, cursor is None
        return page


MAX_PAGES: Final = 10_000
"""Pages of one list that are read before the server is taken to be broken: each gives another cursor."""


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
        weight: Returns the bytes that the pages take in memory which were fetched since it was first called.
        max_bytes: How many they may take if they are read at once.

    Raises:
        RemoteProtocolError: The server repeats a cursor, so that the list has no end, or has too many pages.

    Spec: 2026-07-28, server/utilities/pagination.
    """

    _fetch: Callable[[str | None], Awaitable[_R]]
    _items_of: Callable[[_R], Sequence[_T]] = attrs.field(alias="items")
    _what: str = attrs.field(alias="what", kw_only=True)
    _cursor: str | None = attrs.field(alias="cursor", default=None, kw_only=True)
    _max_pages: int = attrs.field(alias="max_pages", default=MAX_PAGES, kw_only=True)
    _weight: Callable[[], int] = attrs.field(alias="weight", default=lambda: 0, kw_only=True)
    _max_bytes: int = attrs.field(alias="max_bytes", default=Limits().max_decoded_bytes, kw_only=True)
    _pages: PageIterator[_R] = attrs.field(init=False)
    _items: deque[_T] = attrs.field(factory=deque[_T], init=False)

    def __attrs_post_init__(self) -> None:
        self._pages = self.pages()

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self._what} asks the server: write 'async for', or await the whole list")

    if not TYPE_CHECKING:  # which would take any name for one that exists

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"a list that was not awaited has no {name!r}: await it, and leave out .{name}")

    async def __anext__(self) -> _T:
        await trio.lowlevel.checkpoint()
        while not self._items:
            self._items.extend(self._items_of(await anext(self._pages)))
        return self._items.popleft()

    def __await__(self) -> Generator[Any, None, list[_T]]:
        """Read what is left of the list: ``tools = await client.list_tools()``."""
        return self._all().__await__()

    async def _all(self) -> list[_T]:
        await trio.lowlevel.checkpoint()
        before = self._weight()
        items = _Whole(self._items)
        self._items.clear()
        async for page in self._pages:
            items += self._items_of(page)
            if self._weight() - before > self._max_bytes:
                raise RemoteProtocolError(
                    f"{self._what}: read at once, the list takes more than {self._max_bytes} bytes in memory "
                    "(8 times max_message_bytes); iterate over its items instead"
                )
        return items

    def pages(self) -> PageIterator[_R]:
        """Iterate over whole pages instead, from the beginning, whatever was read of the items.

        ``page = await anext(client.list_tools().pages())`` is the first; its `next_cursor` as ``cursor`` of
        another list continues there, in this program or in another.
        """
        return PageIterator(self._fetch, self._what, self._cursor, self._max_pages)


@final
class _Whole(list[_T]):
    """A list that was awaited: it is no result, of which it is a member."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"what was awaited is the list itself, which has no {name!r}: leave out .{name}")


_P = TypeVar("_P", bound=PaginatedResult)


class _Choices(dict[str, bool]):
    """Looked up in place of a comparison, which would take any other word for the default."""

    def __missing__(self, given: object) -> NoReturn:
        raise ValueError(f"input_required takes {' or '.join(map(repr, self))}, not {given!r:.60}")


_HANDS_BACK: Final = _Choices(answer=False, **{"return": True})


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
    handlers answer, and the request is sent again, `Limits.max_input_rounds` times at most. All is inside one
    call: one deadline, one ``on_progress``. The call raises what a handler raises. With
    ``input_required="return"`` an `InputRequiredResult` is returned instead, and the caller sends the request
    again, with ``input_responses`` and ``request_state`` (2026-07-28, basic/patterns/mrtr).
    """

    def __dir__(self) -> list[str]:
        return names_for_users(self)

    # Tools.

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: None = None,
        **options: Unpack[AnsweringOptions],
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        returns: None = None,
        **options: Unpack[HandingBackOptions],
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
                tool can be annotated with, ``type(None)`` for one that returns nothing. Members that it does not
                have are left out. Without it nothing is raised for a tool that has failed; `CallToolResult.check`
                does that.
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
            ValueError: An argument is NaN or infinite, which JSON has no number for. Nothing was sent.

        Spec: 2026-07-28, server/tools, "Calling Tools".
        """
        _check_arguments(arguments)
        kind = None if returns is None else output_type(returns)
        # Some old servers refuse a call that leaves the arguments out, although it may.
        params = CallToolRequestParams(
            name=name, arguments=arguments or {}, **brought_by(options, takes_arguments="call_tool")
        )
        hand_back = _HANDS_BACK[input_required]
        progress, support = options.get("on_progress"), self._caches.task_support
        call: Callable[..., Awaitable[Any]] = self._call
        if support and wants_task(self, support.get(name)):
            call = partial(call_as_task, self)
        try:
            answered = await call("tools/call", params, progress, hand_back=hand_back)
        except RequestError as error:
            if may_declare(self, error):
                params = declaring(self, params)
            elif call == self._call and wants_task(self, None, error):
                call = partial(call_as_task, self)
            else:
                if error.code != HEADER_MISMATCH:
                    raise
                # The server has read no further than the header fields. They follow from how the tool was listed.
                await self._list_again(error)
            answered = await call("tools/call", params, progress, hand_back=hand_back)
        if answered.result_type == "input_required":
            return read_result("tools/call", answered.result, InputRequiredResult)
        if (answered.result_type == TASK or "task" in answered.params) and is_task(answered):
            answered = await finish_task(await follower_of(self, answered), answered)
        result = read_result("tools/call", answered.result, CallToolResult)
        self._caches.outputs.check(name, result)
        return result if kind is None else read_output(name, result, kind)

    def start_task(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        meta: Mapping[str, object] | None = None,
    ) -> AbstractAsyncContextManager[ClientTask]:
        """Call a tool, and see the task that comes of it: ``async with client.start_task("x") as task``.

        `call_tool` waits for a task as for any result. Here it has an id, a state that changes, and can be left
        to go on: ``task.id``, ``task.state``, ``async for state in task.updates()``, ``await task.result()``,
        ``await task.cancel()``, ``task.detach()``. The server decides whether there is a task; if not, the block
        begins when there is a result.

        Entering waits for the server's answer. Leaving cancels a task that is not over, unless it was detached,
        for `Limits.goodbye_timeout` at most. If entering is cancelled, so is the call.

        Args:
            name: The tool's name.
            arguments: Its arguments as plain JSON.
            meta: What to add to the request's `_meta`.

        Raises:
            RequestError: The server refuses the call.
            RemoteProtocolError: What it answers cannot be read.
            LocalProtocolError: The revision in use has no tasks, or a server of 2025-11-25 has declared none.

        Spec: ext-tasks, "Task Creation"; 2025-11-25, basic/utilities/tasks, "Creating Tasks".
        """
        _check_arguments(arguments)
        check_given(Client.start_task, {"name": name, "meta": meta})
        params = CallToolRequestParams(name=name, arguments=arguments or {}, meta=meta)

        async def start() -> TaskFollower | CallToolResult:
            if (await connected(self, "tools/call")).revision.is_modern:
                answered = await self._call("tools/call", declaring(self, params))
            else:
                if name not in self._caches.task_support:
                    await self.list_tools()  # a call must not be one of a tool that has not said so
                call = partial(call_as_task, self) if name in self._caches.task_support else self._call
                answered = await call("tools/call", params)
            if is_task(answered):
                return await follower_of(self, answered)
            return read_result("tools/call", answered.result, CallToolResult)

        return EnteredInTrio(open_task(self, start, name), "client.start_task")

    def resume_task(self, id: str) -> AbstractAsyncContextManager[ClientTask]:
        """Go on with a task that a client of the same principal has started; see `start_task`.

        Args:
            id: The task's id, of `ClientTask.id`.

        Raises:
            RequestError: The server has no such task, or none that is this principal's, or it has expired.
            LocalProtocolError: The revision in use has no tasks, or a server of 2025-11-25 has declared none.
            RemoteProtocolError: What it answers cannot be read, or is about another task.

        Spec: ext-tasks, "Task Polling"; 2025-11-25, basic/utilities/tasks, "Getting Tasks".
        """
        check_given(Client.resume_task, {"id": id})
        return EnteredInTrio(open_task(self, lambda: resume(self, id), None), "client.resume_task")

    async def _list_again(self, mismatch: RequestError) -> None:
        """List the tools, so that the transport learns their header fields (2026-07-28, "Client Behavior")."""
        try:
            async for _ in self.list_tools(fresh=True):
                pass
        except McpError as failure:
            raise mismatch from failure

    def list_tools(
        self, *, for_model: bool = False, **options: Unpack[ListOptions]
    ) -> Pages[Tool, ListToolsResult]:
        """Iterate over the server's tools: ``async for tool in client.list_tools()``.

        Args:
            for_model: Whether to leave out the tools that only pages of the server may call, not a model.
            **options: See `ListOptions`.

        Spec: 2026-07-28, server/tools, "Listing Tools"; SEP-1865, "Visibility".
        """
        sift = without_app_tools if for_model else None
        return self._pages("tools/list", ListToolsResult, lambda page: page.tools, options, sift)

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
            "resources/templates/list", ListResourceTemplatesResult, lambda page: page.resource_templates, options
        )

    @overload
    async def read_resource(
        self, uri: str, *, fresh: bool = False, **options: Unpack[AnsweringOptions]
    ) -> ReadResourceResult: ...
    @overload
    async def read_resource(
        self, uri: str, *, fresh: bool = False, **options: Unpack[HandingBackOptions]
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
        hand_back = _HANDS_BACK[input_required]
        if hand_back or params.input_responses is not None or params.request_state is not None:
            answered = await self._call("resources/read", params, progress, hand_back=hand_back)
            return read_answer("resources/read", answered, ReadResourceResult)
        return await self._ask_cacheable(
            "resources/read", params, ReadResourceResult, fresh=fresh, on_progress=progress
        )

    async def read_app(self, tool: Tool | str, *, fresh: bool = False, max_bytes: int = 4 << 20) -> AppPage:
        """Read the page that shows what a tool returns, with the policies to show it by.

        Args:
            tool: The tool, as it was listed; or the URI of its page.
            fresh: Whether to ask the server even if a cached result is still fresh.
            max_bytes: How large the page may be.

        Raises:
            RemoteProtocolError: What the server has sent is no page, or larger than `max_bytes`; or it wants
                origins that are none.
            RequestError: There is no such page, or the server refuses.
            ValueError: The tool has no page.

        Spec: SEP-1865, 2026-01-26, "UI Resource Format".
        """
        check_given(Client.read_app, {"tool": tool})
        check_whole("max_bytes", max_bytes)
        uri = uri_of(tool)
        return page_in(uri, await self.read_resource(uri, fresh=fresh), max_bytes)

    # Skills.

    def list_skills(self, **options: Unpack[ListOptions]) -> Pages[Skill, ListSkillsResult]:
        """Iterate over the server's skills. None of their files is read. There may be others: see `get_skill`.

        Raises:
            LocalProtocolError: The server has not declared that it has skills.

        Spec: extension io.modelcontextprotocol/skills, "Listing Skills".
        """
        check_declared(self.server_capabilities)
        return self._pages("skills/list", ListSkillsResult, lambda page: page.skills, options)

    async def get_skill(self, uri: str, *, fresh: bool = False) -> Skill:
        """Ask what a skill is, whether it is listed or not: its frontmatter, and the digest of each file.

        Args:
            uri: The URI of its SKILL.md. It means a skill of this server; another may have another one there.
            fresh: Whether to ask the server even if a cached answer is still fresh.

        Raises:
            ValueError: It is no URI.
            RequestError: The server serves no such skill (-32602).
            LocalProtocolError: The server has not declared that it has skills.

        Spec: extension io.modelcontextprotocol/skills, "Getting a Skill".
        """
        check_given(Client.get_skill, {"uri": uri, "fresh": fresh})
        check_declared(self.server_capabilities)
        if "://" not in uri:
            raise ValueError(f"uri takes the URI of a skill, such as skill://refunds/SKILL.md, not {uri!r:.200}")
        params = GetSkillRequestParams(uri=uri)
        result = await self._ask_cacheable("skills/get", params, GetSkillResult, fresh=fresh)
        return check_received(result.skill, uri)

    async def load_skill(self, skill: Skill | str, *, dynamic: bool = False) -> LoadedSkill:
        """Read the SKILL.md of a skill, and verify it: its size, its digest, and each member of its frontmatter.

        What it says is written by the server. Let a person approve the skill before a model reads it, and tell
        the model where it is from; `SkillApproval` keeps what was approved.

        Args:
            skill: The skill, as the server has described it; or its URI, and the server is asked for that first.
            dynamic: Whether to take a skill whose contents are made when they are read, so that only its
                frontmatter can be verified.

        Raises:
            SkillChanged: It is not what the server has said.
            LocalProtocolError: Its contents are dynamic.
            RuntimeError: PyYAML is not installed: ``pip install 'trio-mcp[skills]'``.
            Others: As `get_skill` and `read_resource`.

        Spec: extension io.modelcontextprotocol/skills, "Integrity and Verification".
        """
        check_given(Client.load_skill, {"skill": skill, "dynamic": dynamic})
        skill = await self.get_skill(skill) if isinstance(skill, str) else check_received(skill)
        refuse_dynamic(skill, dynamic=dynamic)
        return await load(skill, partial(self.read_resource, fresh=True), self._caches.results)

    async def read_skill_file(self, skill: Skill, path: str, *, dynamic: bool = False) -> SkillFile:
        """Read a file of a skill, and verify its size and digest. One with this digest that was kept is not read.

        Args:
            skill: The skill, as it was when it was loaded: `LoadedSkill.skill`.
            path: The path of the file from the skill's directory, as the text of the skill has it.
            dynamic: As `load_skill`; of such a skill nothing is verified.

        Raises:
            SkillChanged: It is not what the server has said, or not among the skill's files.
            ValueError: The path leads out of the skill, or is none.
            LocalProtocolError: The skill's contents are dynamic.
            Others: As `read_resource`.

        Spec: extension io.modelcontextprotocol/skills, "Relative References", "Verification on Read".
        """
        check_given(Client.read_skill_file, {"skill": skill, "path": path, "dynamic": dynamic})
        refuse_dynamic(check_received(skill), dynamic=dynamic)
        read = partial(self.read_resource, fresh=True)
        return await read_file(skill, resolve(skill, path), read, self._caches.results)

    def list_directory(self, uri: str, **options: Unpack[ListOptions]) -> Pages[Resource, ReadDirectoryResult]:
        """Iterate over what is directly in a directory of the server: files, and directories (`inode/directory`).

        It is what the server has now, and adds nothing to what a skill was said to have.

        Args:
            uri: The directory's URI, without a slash at the end.
            **options: See `ListOptions`.

        Raises:
            LocalProtocolError: The server has not declared that it can list directories.

        Spec: extension io.modelcontextprotocol/skills, "Reading Directories".
        """
        check_declared(self.server_capabilities, "directoryRead")
        return self._pages(
            "resources/directory/read",
            ReadDirectoryResult,
            lambda page: page.resources,
            options,
            new_params=partial(ReadDirectoryRequestParams, uri=uri),
        )

    # Prompts.

    def list_prompts(self, **options: Unpack[ListOptions]) -> Pages[Prompt, ListPromptsResult]:
        """Iterate over the server's prompts.

        Spec: 2026-07-28, server/prompts, "Listing Prompts".
        """
        return self._pages("prompts/list", ListPromptsResult, lambda page: page.prompts, options)

    @overload
    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[AnsweringOptions]
    ) -> GetPromptResult: ...
    @overload
    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[HandingBackOptions]
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
        params = GetPromptRequestParams(
            name=name, arguments=arguments, **brought_by(options, takes_arguments="get_prompt")
        )
        progress = options.get("on_progress")
        answered = await self._call("prompts/get", params, progress, hand_back=_HANDS_BACK[input_required])
        return read_answer("prompts/get", answered, GetPromptResult)

    # Changes.

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resources: Iterable[str] = (),
        tasks: Iterable[str] = (),
        max_events: int | None = None,
    ) -> AbstractAsyncContextManager[Events]:
        """Listen to changes: ``async with client.listen(...) as events: async for event in events``.

        The block begins when the server has agreed; ``events.acknowledged`` is to what. Events are
        `ToolsListChanged`, `PromptsListChanged`, `ResourcesListChanged`, `ResourceUpdated`, `TaskUpdated` and
        `Resynced`. When it is interrupted, because the connection is restored, or the subscription fails or is
        ended by the server, the client subscribes again by itself, after pauses that grow up to half a minute, if
        the server does not refuse it for good; and reports it as `Resynced`: fetch again what you know. A slow
        listener delays no other task.

        Leaving the block, or cancelling it, ends the subscription at the server. In the legacy era that may take
        `Limits.goodbye_timeout`.

        Args:
            tools_list_changed: Whether to listen to changes of the list of tools.
            prompts_list_changed: Whether to listen to changes of the list of prompts.
            resources_list_changed: Whether to listen to changes of the lists of resources and templates.
            resources: The URIs of the resources to whose changes to listen.
            tasks: The ids of the tasks to whose changes to listen, each first as it is then; from 2026-07-28 on.
                Those that the server does not know are not acknowledged.
            max_events: How many different changes may wait, at least 1; then iterating raises `Lagged`. Default:
                `Limits.max_notifications`.

        Raises:
            RequestError: The server refuses, has no such resource, or notifies of nothing of it. A legacy server
                is asked for subscriptions to resources even if it has not declared them: many have them and do
                not declare them.
            ValueError: Nothing to listen to is given, or `max_events` is less than 1.
            TypeError: `resources` or `tasks` is one string.
            ConnectionLost: The connection was lost before the server agreed; or, from iterating, for good.
            trio.TooSlowError: ``request_timeout`` passed before the server agreed.

        Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
        """
        if max_events is None:
            max_events = self._settings.limits.max_notifications
        check_whole("max_events", max_events)
        wanted = what_to_listen_to(
            tools_list_changed=tools_list_changed,
            prompts_list_changed=prompts_list_changed,
            resources_list_changed=resources_list_changed,
            resources=resources,
            tasks=tasks,
        )
        entering = self._timeout("listening")
        opening = open_events(self._reconnecting, wanted, max_events, self._settings.limits, entering)
        return EnteredInTrio(opening, "client.listen")

    # Utilities.

    async def complete(
        self,
        ref: str | PromptReference | ResourceTemplateReference | Prompt | ResourceTemplate,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CompleteResult:
        """Ask for completions of an argument of a prompt, or of a variable of a resource template.

        Args:
            ref: The prompt or template: its name, or its URI as it is listed (``"books://{title}"``; a text with
                ``://`` or braces is one); an item of a list; or a reference.
            argument: Its name.
            value: What has been typed so far.
            context: The arguments that have a value already. Sent from 2025-06-18 on.
            meta: What to add to the `_meta` of the request.

        Spec: 2026-07-28, server/utilities/completion.
        """
        check_given(Client.complete, locals())
        if isinstance(ref, str):
            is_uri = "://" in ref or "{" in ref
            ref = ResourceTemplateReference(uri=ref) if is_uri else PromptReference(name=ref)
        elif isinstance(ref, Prompt):
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
            if meta is not None:
                check_given(Client.ping, {"meta": meta})
            # Without parameters, not even an empty object (2025-11-25, basic/utilities/ping, "Message Format").
            result = await self.request("ping", None if meta is None else {"_meta": meta})
            read_result("ping", result, EmptyResult)

    async def set_log_level(self, level: LoggingLevel, *, meta: Mapping[str, object] | None = None) -> None:
        """Ask for log messages of at least this severity, from now on; they go to ``on_log``.

        In the legacy era a request is sent, in the modern era the level is a part of each request.

        Spec: 2025-11-25, server/utilities/logging; 2026-07-28, server/utilities/logging.
        """
        check_given(Client.set_log_level, {"level": level, "meta": meta})
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
        sift: Callable[[_P], _P] | None = None,
        new_params: Callable[..., RequestParams] = PaginatedRequestParams,
    ) -> Pages[_T, _P]:
        if options:
            check_options(options, ListOptions)
        fresh, meta = options.get("fresh", False), options.get("meta")
        outputs = self._caches.outputs
        weight: int | None = None

        def weigh(more: int = 0) -> int:
            nonlocal weight
            weight = more if weight is None else weight + more
            return weight

        async def fetch(cursor: str | None) -> _P:
            params = new_params(cursor=cursor, meta=meta)
            stamp = outputs.stamp
            # To weigh a page takes as long as a part of reading it, and is of use where all are read at once.
            weighing = None if weight is None else weigh
            page = await self._ask_cacheable(method, params, kind, fresh=fresh, weigh=weighing)
            if isinstance(page, ListToolsResult):
                self._caches.learn(page.tools, self.revision, stamp)
            return page if sift is None else sift(page)

        return Pages(
            fetch,
            items,
            what=method,
            cursor=options.get("cursor"),
            weight=weigh,
            max_bytes=self._settings.limits.max_decoded_bytes,
        )


def _check_arguments(arguments: object) -> None:
    if arguments is not None and arguments.__class__ is not dict and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments must be a mapping of names to values, not {type(arguments).__qualname__}")
    if arguments:
        try:
            check_names({"arguments": arguments})
        except Misfit as misfit:
            raise ValueError(str(misfit)) from None


name_as_methods_of("Client", LowLevelClient)
