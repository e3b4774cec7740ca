"""`open_clients`: several servers at once, each with a task and a state of its own; and what all are asked.

The tasks and states are in `_members`, the names of tools in `_core/_group_names`, configurations in `_config`.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, cast, final, overload

import attrs
import trio
from typing_extensions import Unpack

from .._core._changes import Resynced
from .._core._group_names import GroupNames
from .._core._reconnect import as_policy
from .._errors import (
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    LocalProtocolError,
    McpError,
    RequestError,
    ServerUnavailable,
)
from .._http._auth import Auth
from .._limits import MIB, Limits, check_given, check_options, check_seconds, check_whole
from .._logs import Log
from .._printable import shown
from .._trio import open_hidden_nursery
from ..types import (
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    SubscriptionFilter,
    Tool,
)
from ._asks import asks_under
from ._client import Client
from ._config import ClientsConfig, GroupOptions, options_of, read_config
from ._gathered import GroupEvents, Listed, Listing
from ._listen import EnteredInTrio, entered_in_trio, what_to_listen_to
from ._low_level import AnsweringOptions, HandingBackOptions, WorkOptions
from ._members import Member, ServerState, StateChanges, States
from ._open import can_have_auth, make_client

_log: Final = Log("trio_mcp.client")

_T = TypeVar("_T")

_NAMED_BY: Final = {"resource": "uri", "resource template": "uri_template"}
"""What has no name that the group could change."""

MAX_MARKED: Final = 10_000
"""Marked names of tools and prompts whose meaning is remembered; those listed first are forgotten first."""

MAX_MARKED_BYTES: Final = 64 * MIB
"""What they may take in memory: servers write them, and each may be as long as a message."""


@entered_in_trio
@asynccontextmanager
async def open_clients(config: ClientsConfig, **options: Unpack[GroupOptions]) -> AsyncGenerator[ClientGroup]:
    """Connect to several servers for as long as the block runs, without waiting for any of them.

    Each server has a task and a state of its own. One that cannot be opened, hangs or crashes harms and delays no
    other; its error is in its state (`ClientGroup.states`), and comes out of calls to it, but not out of the
    block. A server that is lost is connected to again by the policy of its transport; the processes of a
    configuration are started again (`RestartPolicy`, with its defaults).

    When the block is left, all servers are left at once, each as by `open_client`, within the time that one
    takes; no task or process is left. An exception of the block is raised as itself. Both ends are checkpoints.

    Args:
        config: The path of an ``mcp.json``, or what is in one (a mapping with ``mcpServers``, or ``servers``), or
            a mapping of names to targets: whatever `open_client` takes. Of an entry ``command``, ``args``,
            ``env``, ``cwd``, ``url``, ``headers``, ``type`` or ``transport``, ``disabled`` and ``enabled`` count;
            other keys are ignored. ``${NAME}``, ``${NAME:-default}`` and ``${env:NAME}`` in its strings are
            replaced.
        **options: See `GroupOptions`.

    Raises:
        ConfigError: The configuration cannot be read, or is wrong; it names everything that is. What is wrong
            with one server of a file makes only that one ``"failed"``, with the reason.
        TypeError: An option is unknown, or of the wrong type.
        ValueError: Options contradict each other.
    """
    check_options(options, GroupOptions)
    entries = await read_config(config, options.get("environment", os.environ))
    policy = options.get("policy")
    for option, named in (("server_options", options.get("server_options")), ("policy", policy)):
        unknown = named.keys() - entries.keys() if isinstance(named, Mapping) else ()
        if unknown:
            raise ValueError(f"{option}: no such server: {', '.join(sorted(unknown))}")
    timeout = check_seconds("server_timeout", options.get("server_timeout", 10.0), may_be_zero=False)
    roots = options.get("roots")
    if roots is not None and not callable(roots) and not isinstance(roots, str):
        options["roots"] = tuple(roots)  # it is read once for each server
    retry = as_policy(options.get("retry"), "retry")
    prefix = options.get("prefix", "{}_".format)
    limits = options.get("limits", Limits())
    states = States()
    members: dict[str, Member] = {}
    for name, entry in entries.items():
        if entry.target is None:
            reason = None if entry.error is None else str(entry.error)
            states.set(ServerState(name, "disabled" if reason is None else "failed", reason, entry.error))
            continue
        client_options = options_of(name, options)
        auth = options.get("auth")
        if auth is not None and "auth" not in client_options and can_have_auth(entry.target):
            client_options["auth"] = auth if isinstance(auth, Auth) else auth(name)
        asks = asks_under(client_options.get("policy"), name)
        make = partial(make_client, entry.target, client_options, asks=asks, name=name)
        make(lambda _: None)  # what is wrong with the options is raised here, before anything is started
        members[name] = Member(name, make, retry, client_options.get("limits", limits), states)
    names = GroupNames({name: prefix(name) for name in entries})
    group = ClientGroup(_Servers(members, states), names, limits, timeout)
    async with open_hidden_nursery() as nursery:
        for name, member in members.items():
            nursery.start_soon(member.run, name=f"the server {name!r}")
        try:
            yield group
        except BaseException:
            # As in `open_client`: what the block has raised comes out.
            with suppress(trio.Cancelled):
                await _leave(members.values(), states)  # noqa: ASYNC102 - the members are shielded, and bounded
            raise
        await _leave(members.values(), states, at_end=True)


async def _leave(members: Collection[Member], states: States, *, at_end: bool = False) -> None:
    try:
        try:
            if at_end:
                async with open_hidden_nursery() as nursery:
                    for member in members:
                        nursery.start_soon(member.finish_notifications)
        finally:
            for member in members:
                member.begin_closing()
        for member in members:
            await member.finished.wait()
        await trio.lowlevel.checkpoint()
    except BaseException:  # `Cancelled`, or Ctrl+C
        for member in members:
            member.hurry()
        raise
    finally:
        states.finish()


@final
@attrs.frozen
class _Servers:
    """The servers of a group: those that are not disabled, and the states of all."""

    members: Mapping[str, Member]
    states: States

    def ready(self) -> dict[str, Client]:
        """Return the clients of the servers that are ready, in the order of the configuration."""
        found = {name: self.client(name) for name in self.states.all()}
        return {name: client for name, client in found.items() if client is not None}

    def client(self, name: str) -> Client | None:
        """Return the client of a server if it is ready."""
        member = self.members.get(name)
        return member.client if member is not None and self.states[name].status == "ready" else None


@final
class ClientGroup:
    """The clients of several servers. Made by `open_clients`; any task may use it.

    ``group["name"]`` is the `Client` of one server, with everything that a client can do. The calls below find
    the server by the name that the group gives to its tools and prompts, and raise what the client's call raises;
    they raise `ServerUnavailable` if the server is not ready. Cancelling a call cancels this one request.

    Tools and prompts are called what `prefix` returns for their server, followed by the server's own name for
    them: ``files_read`` is the tool ``read`` of ``files``. What models' APIs would refuse, or could be mistaken
    for another one, is marked by ten digits at its end that depend on the server's and its own name alone; see
    `docs/client.md`. Iterating over a group gives the names of its servers.
    """

    def __init__(self, servers: _Servers, names: GroupNames, limits: Limits, server_timeout: float) -> None:
        self._servers = servers
        self._states = servers.states
        self._names = names
        self._limits = limits
        self._server_timeout = server_timeout
        # The marked names that were listed, which no rule leads back from, by the kind of what they name.
        self._marked: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        self._marked_bytes = 0

    # The servers and their states.

    def __iter__(self) -> Iterator[str]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)

    def __contains__(self, name: object) -> bool:
        return name in self.states

    def __getitem__(self, name: str) -> Client:
        """Return the client of a server that is ready.

        It stays the same while the server is lost and connected to again. Only a server that is opened once more
        by ``retry`` or `restart` gets another one.

        Raises:
            ServerUnavailable: The server is not ready. `wait_ready` waits for it.
            KeyError: There is no such server.
        """
        self._check(name)
        client = self._servers.client(name)
        if client is None:
            raise self._states.unavailable(name)
        return client

    @property
    def clients(self) -> Mapping[str, Client]:
        """The clients of the servers that are ready now, by name, in the order of the configuration."""
        return MappingProxyType(self._servers.ready())

    @property
    def states(self) -> Mapping[str, ServerState]:
        """What each server is now, by name, in the order of the configuration."""
        return MappingProxyType(self._states.all())

    def changes(self) -> StateChanges:
        """Iterate over the states that servers get from now on: ``async for state in group.changes()``."""
        return StateChanges(self._states)

    async def wait_ready(self, *names: str, at_least: int | None = None) -> list[str]:
        """Wait until servers are ready. Returns the names of those that are; one may be lost right afterwards.

        For how long is the caller's choice: ``with trio.fail_after(5): await group.wait_ready("files")``.

        Args:
            *names: The servers. Default: all that are not disabled.
            at_least: How many of them are enough. Default: all.

        Raises:
            ServerUnavailable: So many cannot be ready any more, and this is one of the servers that failed.
            KeyError: There is no such server.
            ValueError: `at_least` is more than there are, or less than 0.
        """
        for name in names:
            self._check(name)
        of = tuple(dict.fromkeys(names)) or tuple(self._servers.members)
        if at_least is None:
            at_least = len(of)
        if check_whole("at_least", at_least, at_least=0) > len(of):
            raise ValueError(f"at_least is {at_least}, and there are {len(of)} servers")
        return await self._states.wait_ready(of, at_least)

    async def wait_settled(self) -> None:
        """Wait until no server is being opened or restored: each is ready, or will not be by itself."""
        await self._states.wait_settled()

    def restart(self, name: str) -> None:
        """Close the client of a server and open another one, for a server that hangs, has failed or was closed.

        The server is ``"connecting"`` at once, and nothing is waited for; `wait_ready` does. What is under way at
        the server raises `trio.ClosedResourceError`. A process gets as much time to exit as when the group is
        left, and is started again then. Policies (``retry``, ``restart``) begin anew. While the old client is
        still being closed, calling this again changes nothing.

        Args:
            name: The server. What was given as a channel cannot be opened again, and fails.

        Raises:
            ServerUnavailable: The configuration disables it, or the block of the group is being left.
            KeyError: There is no such server.
        """
        self._states.check_thread()
        self._check(name)
        member = self._servers.members.get(name)
        if member is None or member.is_over:
            raise ServerUnavailable(name, "disabled" if member is None else "closed")
        member.restart()

    def _check(self, name: str) -> None:
        if name not in self:
            raise KeyError(f"there is no server {name!r} in this group: {', '.join(self)}")

    # Lists.

    async def list_tools(self, *, fresh: bool = False, for_model: bool = False) -> Listing[Tool]:
        """List the tools of all servers that are ready, asking them at the same time.

        Args:
            fresh: Whether to ask the servers even if cached results are still fresh.
            for_model: Whether to leave out the tools that only pages of their server may call, not a model.

        Returns:
            The tools, and why servers are missing.
        """
        return await self._list("tool", lambda client: client.list_tools(fresh=fresh, for_model=for_model))

    async def list_prompts(self, *, fresh: bool = False) -> Listing[Prompt]:
        """List the prompts of all servers that are ready; see `list_tools`."""
        return await self._list("prompt", lambda client: client.list_prompts(fresh=fresh))

    async def list_resources(self, *, fresh: bool = False) -> Listing[Resource]:
        """List the resources of all servers that are ready; see `list_tools`. Two may have the same URI."""
        return await self._list("resource", lambda client: client.list_resources(fresh=fresh))

    async def list_resource_templates(self, *, fresh: bool = False) -> Listing[ResourceTemplate]:
        """List the resource templates of all servers that are ready; see `list_tools`."""
        return await self._list("resource template", lambda client: client.list_resource_templates(fresh=fresh))

    async def _list(self, kind: str, ask: Callable[[Client], Awaitable[list[_T]]]) -> Listing[_T]:
        found: dict[str, list[_T]] = {}
        failures: dict[str, Exception] = {}

        async def ask_one(server: str, client: Client) -> None:
            try:
                with trio.fail_after(self._server_timeout):
                    found[server] = await ask(client)
            except Exception as error:  # the boundary of a server: its failure is shown with the list
                failures[server] = error

        self._states.check_thread()
        await trio.lowlevel.checkpoint()
        async with open_hidden_nursery() as nursery:
            for server, state in self.states.items():
                client = self._servers.client(server)
                if client is not None:
                    nursery.start_soon(ask_one, server, client, name=f"listing the {kind}s of {server!r}")
                elif state.status != "disabled":
                    failures[server] = self._states.unavailable(server)
        listed: list[Listed[_T]] = []
        taken: set[str] = set()
        is_renamed = kind not in _NAMED_BY
        for server in self.states:
            for item in found.get(server, ()):
                own = getattr(item, _NAMED_BY.get(kind, "name"))
                name = self._name(kind, server, own) if is_renamed else own
                if is_renamed and name in taken:
                    _log.warning("left out the %s %.100r of %.100r: it is there already", kind, own, server)
                    continue
                taken.add(name)
                listed.append(Listed(server, name, item))
        return Listing(tuple(listed), failures)

    # Names.

    def _name(self, kind: str, server: str, own: str) -> str:
        """Return the group's name for what a server has listed. Marked ones are remembered with their meaning."""
        name = self._names.name(server, own)
        if self._names.is_marked(name):
            self._remember((kind, name), (server, own))
        return name

    def _remember(self, marked: tuple[str, str], meaning: tuple[str, str]) -> None:
        if marked in self._marked:
            return
        self._marked[marked] = meaning
        self._marked_bytes += _weight(meaning)
        while len(self._marked) > MAX_MARKED or self._marked_bytes > MAX_MARKED_BYTES:
            self._marked_bytes -= _weight(self._marked.popitem(last=False)[1])

    async def _locate(self, kind: Literal["tool", "prompt"], name: str) -> tuple[Client, str]:
        """Return the client of the server that has a tool or prompt, and the server's own name for it.

        Raises:
            LocalProtocolError: No server has it.
            ServerUnavailable: The server is not ready.
        """
        await trio.lowlevel.checkpoint()
        try:
            found = self._names.unmarked(name)
        except AttributeError:
            check_given(ClientGroup.call_tool, {"name": name})
            raise
        missing: Collection[str] = ()
        if found is None and self._names.is_marked(name):
            found = self._marked.get((kind, name))
            if found is None:
                listing: Listing[Any] = await (self.list_tools() if kind == "tool" else self.list_prompts())
                missing = listing.failures
                found = next(((each.server, each.item.name) for each in listing if each.name == name), None)
        if found is None:
            unlisted = f"; these could not be asked: {', '.join(missing)}" if missing else ""
            first = [self._names.name(each, name) for each in self.states][:1]
            like = f"; a name begins with its server's, such as {first[0]!r}" if first else ""
            raise LocalProtocolError(f"no server of this group has the {kind} {shown(name)}{unlisted or like}")
        server, own = found
        return self[server], own

    # Calls.

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
        self, name: str, arguments: Mapping[str, object] | None = None, **options: Unpack[HandingBackOptions]
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
        """Call a tool by its name in the group; otherwise as `Client.call_tool`.

        Args:
            name: What the group calls it. Of a marked name that was not listed yet, the tools are listed first.
            arguments: Its arguments as plain JSON.
            returns: The type of the structured output, which is then returned instead of the result.
            input_required: Whether the client's handlers answer the server's questions, or the caller does.
            **options: See `WorkOptions`.

        Raises:
            ServerUnavailable: Its server is not ready. Nothing was sent.
            LocalProtocolError: No server has a tool that is called so. Nothing was sent.
            Others: As `Client.call_tool`.
        """
        client, own = await self._locate("tool", name)
        options_of_call = {"returns": returns, "input_required": input_required, **options}
        return await cast("Any", client).call_tool(own, arguments, **options_of_call)

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
    ) -> Any:
        """Get a prompt by its name in the group; see `call_tool` for the name and `Client.get_prompt`."""
        client, own = await self._locate("prompt", name)
        return await cast("Any", client).get_prompt(own, arguments, input_required=input_required, **options)

    @overload
    async def read_resource(
        self, server: str, uri: str, *, fresh: bool = False, **options: Unpack[AnsweringOptions]
    ) -> ReadResourceResult: ...
    @overload
    async def read_resource(
        self, server: str, uri: str, *, fresh: bool = False, **options: Unpack[HandingBackOptions]
    ) -> ReadResourceResult | InputRequiredResult: ...
    async def read_resource(
        self,
        server: str,
        uri: str,
        *,
        fresh: bool = False,
        input_required: Literal["answer", "return"] = "answer",
        **options: Unpack[WorkOptions],
    ) -> Any:
        """Read a resource of one server; see `Client.read_resource`. Another server may have the same URI."""
        client = cast("Any", self[server])
        return await client.read_resource(uri, fresh=fresh, input_required=input_required, **options)

    async def complete(
        self,
        server: str,
        ref: str | PromptReference | ResourceTemplateReference | Prompt | ResourceTemplate,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> CompleteResult:
        """Ask one server for completions; see `Client.complete`. `ref` has the server's own name for it."""
        return await self[server].complete(ref, argument, value, context=context, meta=meta)

    # Changes.

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resources: Mapping[str, Iterable[str]] | None = None,
        max_events: int | None = None,
    ) -> AbstractAsyncContextManager[GroupEvents]:
        """Listen to changes at all servers: ``async with group.listen(...) as events``, and iterate over those.

        The block begins when the servers that are ready have agreed or refused, or ``server_timeout`` has passed.
        Each server that agrees later, because it has become ready later or once more, is reported with
        `Resynced`: fetch again what you know of it. A server that refuses is in `GroupEvents.refusals`, and no
        other knows. That a server was lost is not reported here, but by `changes`.

        Args:
            tools_list_changed: Whether to listen to changes of the lists of tools.
            prompts_list_changed: Whether to listen to changes of the lists of prompts.
            resources_list_changed: Whether to listen to changes of the lists of resources and templates.
            resources: The URIs of the resources to whose changes to listen, by server.
            max_events: How many different changes of one server may wait, at least 1; beyond that `Resynced`
                takes their place. Default: `Limits.max_notifications`.

        Raises:
            ValueError: Nothing to listen to is given, or `max_events` is less than 1.
            TypeError: The resources of a server are one string.
            KeyError: There is no such server.
            RequestError: Every server that is not disabled and has not failed notifies of nothing of this.
        """
        self._states.check_thread()
        if max_events is None:
            max_events = self._limits.max_notifications
        check_whole("max_events", max_events)
        check_given(ClientGroup.listen, locals())
        of_server = {} if resources is None else dict(resources)
        for name in of_server:
            self._check(name)
        lists = (tools_list_changed, prompts_list_changed, resources_list_changed)
        wanted: dict[str, SubscriptionFilter] = {}
        for name in self if any(lists) else of_server:
            wanted[name] = what_to_listen_to(
                tools_list_changed=tools_list_changed,
                prompts_list_changed=prompts_list_changed,
                resources_list_changed=resources_list_changed,
                resources=of_server.get(name, ()),
            )
        if not wanted:
            raise ValueError("there is nothing to listen to: name a list, or the URIs of resources by server")
        return EnteredInTrio(self._listen(wanted, max_events), "group.listen")

    @asynccontextmanager
    async def _listen(
        self, wanted: Mapping[str, SubscriptionFilter], max_events: int
    ) -> AsyncGenerator[GroupEvents]:
        events = GroupEvents(max_events, self._limits.max_notification_bytes)
        settled = {name: trio.Event() for name in wanted if self._servers.client(name) is not None}
        async with open_hidden_nursery() as nursery:
            for name, what in wanted.items():
                begun = settled.get(name)
                nursery.start_soon(self._listen_to, name, what, events, begun, name=f"listening to {name!r}")
            nursery.start_soon(self._end_with_group, events)
            try:
                with trio.move_on_after(self._server_timeout):
                    for begun in settled.values():
                        await begun.wait()
                self._check_that_some_notify(wanted, events.refusals)
                yield events
            finally:
                events._leave()
                nursery.cancel_scope.cancel(reason="the listener has left")

    def _check_that_some_notify(self, wanted: Iterable[str], refusals: Mapping[str, Exception]) -> None:
        """Raise what all servers have answered that can be asked, if no change of any can come."""
        states = self._states.all()
        over = {"disabled", "failed", "closed"}
        left = {name for name in wanted if name in refusals or states[name].status not in over}
        codes = [getattr(refusals.get(name), "code", None) for name in left]
        if codes and all(code in {METHOD_NOT_FOUND, RESOURCE_NOT_FOUND} for code in codes):
            told = "; ".join(f"{name}: {refusals[name]}" for name in wanted if name in refusals)
            raise RequestError(METHOD_NOT_FOUND, f"no server of the group notifies of these changes: {told:.500}")

    async def _end_with_group(self, events: GroupEvents) -> None:
        while not self._states.are_final:
            await self._states.changed.park()
        await trio.lowlevel.checkpoint()
        events._finish(StopAsyncIteration)  # there are no servers any more

    async def _listen_to(
        self, name: str, wanted: SubscriptionFilter, events: GroupEvents, begun: trio.Event | None
    ) -> None:
        """Listen to one server, with one client after another. `begun` is set once the first has answered."""
        refused: Client | None = None
        has_missed = begun is None
        while True:  # noqa: ASYNC913 - what changes comes from other tasks
            client = self._servers.client(name)
            if client is None or client is refused:
                await self._states.wait_changed()
                continue
            events.refusals.pop(name, None)
            try:
                async with client.listen(
                    tools_list_changed=bool(wanted.tools_list_changed),
                    prompts_list_changed=bool(wanted.prompts_list_changed),
                    resources_list_changed=bool(wanted.resources_list_changed),
                    resources=wanted.resource_subscriptions or (),
                ) as changes:
                    if has_missed:
                        events._push(name, Resynced("the server has become ready"))
                    if begun is not None:
                        begun.set()
                    async for change in changes:
                        events._push(name, change)
            except (McpError, trio.ClosedResourceError, trio.TooSlowError) as error:
                events.refusals[name] = error
                refused = client  # it goes on by itself where that may help
                _log.warning("%s: changes are not notified: %s", name, error)
            if begun is not None:
                begun.set()
            has_missed = True


def _weight(meaning: tuple[str, str]) -> int:
    """Return how much memory a remembered name takes at most, in bytes."""
    return 512 + 4 * len(meaning[1])
