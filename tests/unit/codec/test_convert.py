"""Between decoded JSON and wire objects: what is accepted, what is refused, and how that is said."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import attrs
import pytest
from inside_base import LATEST, LEGACY
from inside_wire import InvalidData, Member, from_wire, members, options_of, to_wire, wire

from trio_mcp import LocalProtocolError, Revision, types

TOOL = {"name": "add", "inputSchema": {"type": "object"}}
V2025_03_26, V2025_06_18, V2025_11_25 = Revision.V2025_03_26, Revision.V2025_06_18, Revision.V2025_11_25


def problems(data: object, kind: Any) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidData) as caught:
        from_wire(data, kind)
    return caught.value.problems


def problem(data: object, kind: Any) -> tuple[str, str]:
    (only,) = problems(data, kind)
    return only


@wire
class Mistaken:
    """A class whose making fails for a reason of its own."""

    member: int

    def __attrs_post_init__(self) -> None:
        """Fail."""
        raise ZeroDivisionError


@wire(since=LATEST)
class Extended:
    """A class of an extension."""

    new_name: str


# Reading: scalars are what they are.


def test_what_is_not_what_it_must_be_is_refused() -> None:
    """Nothing is coerced: a client that says "5" has a bug that somebody should hear of."""
    cases: list[tuple[type, object, str, str]] = [
        (types.TextContent, {"type": "text", "text": 5}, "text", "expected a string, got an integer"),
        (types.TextContent, {"type": "text", "text": None}, "text", "expected a string, got null"),
        (types.TextContent, {"type": "text"}, "text", "required, but missing"),
        (types.TaskMetadata, {"ttl": "5"}, "ttl", "expected an integer, got a string"),
        (types.TaskMetadata, {"ttl": True}, "ttl", "expected an integer, got a boolean"),
        (types.TaskMetadata, {"ttl": 5.5}, "ttl", "expected an integer, got 5.5"),
        (types.TaskMetadata, {"ttl": float("inf")}, "ttl", "expected an integer, got Infinity"),
        (types.CallToolResult, {"content": [], "isError": 1}, "isError", "expected a boolean, got an integer"),
        (types.CallToolResult, {"content": [], "isError": "no"}, "isError", "expected a boolean, got a string"),
        (types.NumberSchema, {"type": "number", "minimum": "1"}, "minimum", "expected a number, got a string"),
        (types.NumberSchema, {"type": "number", "minimum": True}, "minimum", "expected a number, got a boolean"),
        (types.CallToolResult, {"content": "any"}, "content", "expected a list, got a string"),
        (types.ElicitResult, {"action": "grey"}, "action", 'expected "accept", "decline" or "cancel", got "grey"'),
        (types.ElicitResult, {"action": ["accept"]}, "action", 'expected "accept", "decline" or "cancel", got a list'),
        (types.Tool, {**TOOL, "inputSchema": "x"}, "inputSchema", "expected an object, got a string"),
        (types.Tool, {**TOOL, "inputSchema": []}, "inputSchema", "expected an object, got a list"),
        (types.Tool, [], "", "expected an object, got a list"),
        (types.Tool, None, "", "expected an object, got null"),
        (types.CancelledNotificationParams, {"requestId": True}, "requestId", "expected a string or an integer, got a boolean"),
    ]  # fmt: skip
    for kind, data, path, reason in cases:
        assert problem(data, kind) == (path, reason)


@pytest.mark.parametrize(("data", "expected"), [(5, 5), (5.0, 5), (-0.0, 0), (1e15, 10**15), (10**30, 10**30)])
def test_a_whole_number_may_be_written_as_a_fraction(data: float, expected: int) -> None:
    """JSON has one type of number; peers in JavaScript cannot tell 5 from 5.0."""
    ttl = from_wire({"ttl": data}, types.TaskMetadata).ttl
    assert ttl == expected
    assert type(ttl) is int


@pytest.mark.parametrize("data", [0, 1, 0.5, 1.0])
def test_a_number_is_kept_as_it_was_written(data: float) -> None:
    """A progress of 1 is not to come out as 1.0."""
    params = from_wire({"progressToken": "t", "progress": data}, types.ProgressNotificationParams)
    assert params.progress == data
    assert type(params.progress) is type(data)


@pytest.mark.parametrize("data", [7, "7"])
def test_ids_keep_their_type(data: object) -> None:
    """The ids 7 and "7" are two (JSON-RPC 2.0, section 4)."""
    read = from_wire({"requestId": data}, types.CancelledNotificationParams)
    assert read.request_id == data
    assert type(read.request_id) is type(data)


# Reading: what may be missing, and what nobody knows.


def test_null_stands_for_an_optional_member_that_is_missing() -> None:
    """Peers in Python write it (seen in recorded traffic)."""
    data = {**TOOL, "title": None, "annotations": None, "icons": None, "outputSchema": None, "_meta": None}
    assert from_wire(data, types.Tool) == from_wire(TOOL, types.Tool)
    page: Any = {
        "tools": [],
        "nextCursor": None,
        "ttlMs": None,
        "cacheScope": None,
        "resultType": None,
        "_meta": None,
    }
    assert from_wire(page, types.ListToolsResult) == types.ListToolsResult(tools=[])


def test_a_missing_result_type_means_complete() -> None:
    """2026-07-28, `Result`: an older server does not say it."""
    assert from_wire({}, types.EmptyResult).result_type == "complete"


def test_null_and_missing_differ_where_null_is_a_value() -> None:
    """2026-07-28: structured content is any JSON value."""
    assert from_wire({"content": [], "structuredContent": None}, types.CallToolResult).has_structured_content
    assert not from_wire({"content": []}, types.CallToolResult).has_structured_content
    assert from_wire({"level": "info", "data": None}, types.LoggingMessageNotificationParams).data is None


def test_what_peers_drop_with_every_null_is_not_missed() -> None:
    """A required null is left out by peers that leave out every null: `data` of a log message, `ttl` of a task."""
    assert from_wire({"level": "info"}, types.LoggingMessageNotificationParams).data is None
    task = {"taskId": "t", "status": "working", "createdAt": "2025-11-25", "lastUpdatedAt": "2025-11-25"}
    assert from_wire(task, types.Task).ttl is None


def test_unknown_members_are_ignored() -> None:
    """JSON-RPC peers may be of a newer revision than any here."""
    assert from_wire({**TOOL, "novelty": {"a": 1}}, types.Tool) == from_wire(TOOL, types.Tool)


def test_members_are_read_whatever_the_revision() -> None:
    """A server that agreed on 2024-11-05 and sends titles and icons is understood."""
    tool = from_wire({**TOOL, "title": "Add", "icons": [{"src": "https://example.com/i.png"}]}, types.Tool)
    assert (tool.title, tool.icons) == ("Add", (types.Icon(src="https://example.com/i.png"),))


def test_open_objects_are_kept_to_the_letter() -> None:
    """A JSON Schema is the server's own: its members, their order, numbers and nulls are not ours to change."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"b": True, "a": {"default": None}},
        "x-y": [1.0, {"z": []}],
    }
    tool = from_wire({"name": "t", "inputSchema": schema}, types.Tool)
    assert tool.input_schema is schema
    assert to_wire(tool, LATEST)["inputSchema"] is schema


# Reading: unions.


def test_fields_of_a_form_are_told_apart() -> None:
    """2025-11-25, client/elicitation, "Requested Schema": five kinds of enum share two types."""
    cases: list[tuple[dict[str, Any], type]] = [
        ({"type": "string"}, types.StringSchema),
        ({"type": "string", "enum": ["a"]}, types.UntitledSingleSelectEnumSchema),
        ({"type": "string", "enum": ["a"], "enumNames": None}, types.UntitledSingleSelectEnumSchema),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, types.LegacyTitledEnumSchema),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, types.TitledSingleSelectEnumSchema),
        ({"type": "number"}, types.NumberSchema),
        ({"type": "integer"}, types.NumberSchema),
        ({"type": "boolean"}, types.BooleanSchema),
        ({"type": "array", "items": {"type": "string", "enum": []}}, types.UntitledMultiSelectEnumSchema),
        ({"type": "array", "items": {"anyOf": []}}, types.TitledMultiSelectEnumSchema),
    ]
    for data, cls in cases:
        assert type(from_wire(data, types.PrimitiveSchemaDefinition)) is cls


def test_other_unions_are_told_apart() -> None:
    """By mode, by what they hold, by what they answer."""
    form: dict[str, Any] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    assert type(from_wire(form, types.ElicitRequestParams)) is types.ElicitRequestFormParams
    assert type(from_wire({**form, "mode": "form"}, types.ElicitRequestParams)) is types.ElicitRequestFormParams
    url = {"mode": "url", "message": "?", "url": "https://example.com"}
    assert type(from_wire(url, types.ElicitRequestParams)) is types.ElicitRequestURLParams
    contents = {"contents": [{"uri": "a:b", "text": ""}, {"uri": "a:b", "blob": ""}]}
    one, other = from_wire(contents, types.ReadResourceResult).contents
    assert (type(one), type(other)) == (types.TextResourceContents, types.BlobResourceContents)
    answers: dict[str, Any] = {
        "a": {"action": "cancel"},
        "b": {"roots": []},
        "c": {"role": "user", "model": "m", "content": []},
    }
    read = from_wire(answers, types.InputResponses)
    assert [type(read[key]) for key in "abc"] == [
        types.ElicitResult,
        types.ListRootsResult,
        types.CreateMessageResult,
    ]


def test_content_of_an_unknown_type_survives() -> None:
    """A newer server must not lose its whole answer over one block."""
    data = {"content": [{"type": "video", "uri": "a:b", "_meta": {"x": 1}}, {"type": "text", "text": "t"}]}
    block, text = from_wire(data, types.CallToolResult).content
    assert block == types.UnknownContent(type="video", members={"uri": "a:b", "_meta": {"x": 1}})
    assert text == types.TextContent(text="t")


def test_what_fits_no_part_of_a_union_is_refused() -> None:
    """The message says what was looked for, and where."""
    cases: list[tuple[Any, object, tuple[str, str]]] = [
        (types.ContentBlock, {"text": "x"}, ("type", "required, but missing")),
        (types.ContentBlock, {"type": 5}, ("type", "expected a string, got 5")),
        (types.ContentBlock, {"type": ["text"]}, ("type", "expected a string, got a list")),
        (types.ContentBlock, {"type": None}, ("type", "expected a string, got null")),
        (types.ContentBlock, "text", ("", "expected an object, got a string")),
        (types.ElicitRequestParams, {"mode": "sms"}, ("mode", 'expected "form" or "url", got "sms"')),
        (
            types.InputRequest,
            {"method": "tools/call", "params": {}},
            ("method", 'expected "sampling/createMessage", "elicitation/create" or "roots/list", got "tools/call"'),
        ),
        (types.PrimitiveSchemaDefinition, {"title": "x"}, ("type", "required, but missing")),
        (
            types.PrimitiveSchemaDefinition,
            {"type": "object"},
            ("type", 'expected "string", "number", "integer", "boolean" or "array", got "object"'),
        ),
        (types.PrimitiveSchemaDefinition, {"type": "array", "items": 5}, ("items", "expected an object, got an integer")),
        (types.InputRequiredResult, {}, ("", "an InputRequiredResult needs inputRequests, requestState or both")),
    ]  # fmt: skip
    for kind, data, expected in cases:
        assert problem(data, kind) == expected


# Reading: hints.

HINTS: list[tuple[type[Any], Member]] = [
    (cls, member)
    for name in sorted(vars(types)["__all__"])
    if attrs.has(cls := getattr(types, name))
    for member in members(cls)
    if member.hint
]


ODD: tuple[Any, ...] = (True, -1, 1.5, "", "odd", [], [5], {}, {"x": 5})


def test_an_odd_hint_costs_nothing_but_itself(subtests: pytest.Subtests) -> None:
    """It is taken as it is where it fits, and counts as missing where it does not."""
    assert len(HINTS) > 100
    for cls, member in HINTS:
        with subtests.test(f"{cls.__name__}.{member.attribute}"):
            needed: dict[str, Any] = {
                other.name: _fitting(other.type) for other in members(cls) if other.default is attrs.NOTHING
            }
            if cls is types.InputRequiredResult:
                needed["requestState"] = "s"  # it needs something
            plain: Any = from_wire(needed, cls)
            for odd in ODD:
                read: Any = from_wire({**needed, member.name: odd}, cls)
                value = getattr(read, member.attribute)
                is_missing = value == getattr(plain, member.attribute) == member.default
                assert is_missing or _fits(value, member.type), odd
                assert attrs.evolve(read, **{member.attribute: member.default}) == plain, odd


def _fitting(kind: Any) -> object:
    """Return something that fits a required member."""
    first = options_of(kind)[0]
    if get_origin(first) is Literal:
        return get_args(first)[0]
    if get_origin(first) is Sequence:
        return []
    if attrs.has(first):
        return {m.name: m.tag or _fitting(m.type) for m in members(first) if m.default is attrs.NOTHING or m.tag}
    return {str: "s", int: 1, float: 1.5}.get(first, {})


def _fits(value: object, kind: Any) -> bool:
    """Whether what was read is what the member is declared to be, as far as its outermost kind goes."""
    for option in options_of(kind):
        outer = get_origin(option)
        if outer is Literal:
            if value in get_args(option):
                return True
        elif outer is Sequence:
            if isinstance(value, tuple):
                return True
        elif type(value) is ({Mapping: dict}.get(outer, option) if outer else option):
            return True
    return False


def test_of_a_list_of_hints_the_odd_ones_are_left_out() -> None:
    """One icon that cannot be used must not hide the others, nor one role that is not known yet."""
    icons = [{"src": 5}, {"src": "a:b", "theme": "grey", "sizes": ["any", 5]}, "c:d"]
    tool = from_wire({**TOOL, "icons": icons, "annotations": {"title": 5, "readOnlyHint": True}}, types.Tool)
    assert tool.icons == (types.Icon(src="a:b", sizes=["any"]),)
    assert tool.annotations == types.ToolAnnotations(read_only_hint=True)
    assert from_wire({"audience": ["robot", "user"]}, types.Annotations).audience == ("user",)
    assert from_wire({"audience": ["robot"]}, types.Annotations).audience is None


# Reading: what is said about what is wrong.


def test_all_that_is_wrong_is_said_in_the_names_of_the_wire() -> None:
    """Readers of the message know the specification, not our classes."""
    data = {
        "tools": [TOOL, {"inputSchema": "x", "outputSchema": 1}, 5],
        "nextCursor": 7,
    }
    assert problems(data, types.ListToolsResult) == (
        ("nextCursor", "expected a string, got an integer"),
        ("tools[1].name", "required, but missing"),
        ("tools[1].inputSchema", "expected an object, got a string"),
        ("tools[1].outputSchema", "expected an object, got an integer"),
        ("tools[2]", "expected an object, got an integer"),
    )
    with pytest.raises(
        ValueError, match=r"^nextCursor: expected a string, got an integer; tools\[1\]\.name: required"
    ):
        from_wire(data, types.ListToolsResult)


def test_keys_are_part_of_the_path() -> None:
    """And are quoted when they could be mistaken for a path."""
    form: dict[str, Any] = {
        "method": "elicitation/create",
        "params": {"message": 1, "requestedSchema": {"properties": {}}},
    }
    data = {"resultType": "input_required", "inputRequests": {"login": form, "a.b c": form, "": form, "é": form}}
    paths = [path for path, _ in problems(data, types.InputRequiredResult)]
    assert paths == [
        "inputRequests.login.params.message",
        'inputRequests["a.b c"].params.message',
        'inputRequests[""].params.message',
        "inputRequests.é.params.message",
    ]


def test_a_million_wrong_items_are_not_a_million_problems() -> None:
    """A hostile peer pays more for its message than we for refusing it."""
    data = {"content": [5] * 1_000_000}
    found = problems(data, types.CallToolResult)
    assert [path for path, _ in found] == [f"content[{n}]" for n in range(10)]
    answers: dict[str, Any] = {str(n): {} for n in range(1000)}
    found = problems({"inputResponses": answers, "name": "x"}, types.CallToolRequestParams)
    assert len(found) == 10


def test_values_are_shown_cut() -> None:
    """A message of a few hundred characters, whatever the peer sends."""
    _, reason = problem({"role": "x" * 10_000, "content": {"type": "text", "text": ""}}, types.PromptMessage)
    assert reason.startswith('expected "user" or "assistant", got "xxxx')
    assert len(reason) < 110
    path, _ = problem({"inputResponses": {"k" * 10_000: 5}, "name": "x"}, types.CallToolRequestParams)
    assert len(path) < 90


# Writing.


def test_a_revision_is_sent_only_what_it_knows() -> None:
    """One object for all peers; each schema is checked in tests/types."""
    tool = types.Tool(
        name="add",
        title="Add",
        input_schema={"type": "object"},
        output_schema={"type": "object"},
        annotations=types.ToolAnnotations(read_only_hint=True),
        execution=types.ToolExecution(task_support="optional"),
        icons=[types.Icon(src="https://example.com/i.png")],
        meta={"example.com/x": 1},
    )
    base = {"name", "inputSchema"}
    assert {revision: set(to_wire(tool, revision)) - base for revision in Revision} == {
        Revision.V2024_11_05: set(),
        Revision.V2025_03_26: {"annotations"},
        Revision.V2025_06_18: {"annotations", "title", "outputSchema", "_meta"},
        Revision.V2025_11_25: {"annotations", "title", "outputSchema", "_meta", "icons", "execution"},
        Revision.V2026_07_28: {"annotations", "title", "outputSchema", "_meta", "icons"},
    }


def test_what_every_result_of_the_modern_era_says_is_said() -> None:
    """2026-07-28: resultType, ttlMs and cacheScope are required; older revisions do not know them."""
    page = types.ListToolsResult(tools=[])
    assert to_wire(page, LATEST) == {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": []}
    for revision in LEGACY:
        assert to_wire(page, revision) == {"tools": []}


def test_absent_is_not_sent_and_null_is() -> None:
    """2026-07-28: null is a structured content like any other."""
    assert "structuredContent" not in to_wire(types.CallToolResult(content=[]), LATEST)
    assert to_wire(types.CallToolResult(content=[], structured_content=None), LATEST)["structuredContent"] is None
    task = types.Task(task_id="t", status="working", created_at="", last_updated_at="")
    assert to_wire(task, V2025_11_25)["ttl"] is None


def test_what_may_not_be_sent_is_refused(subtests: pytest.Subtests) -> None:
    """The caller hears of it before the peer does."""
    cases: list[tuple[object, Revision, str | None]] = [
        (types.CancelledNotificationParams(), LATEST, "2026-07-28 requires CancelledNotificationParams.requestId"),
        (types.PaginatedRequestParams(cursor="c"), LATEST, "2026-07-28 requires PaginatedRequestParams._meta"),
        (types.ElicitRequestURLParams(message="", url=""), V2025_11_25, "requires ElicitRequestURLParams.elicitationId"),
        (types.LoggingMessageNotificationParams(level="info"), V2025_03_26, "requires LoggingMessageNotificationParams.data"),
        (types.SubscriptionsListenResult(), LATEST, "requires SubscriptionsListenResult._meta"),
        (types.ElicitRequestURLParams(message="", url=""), V2025_06_18, "ElicitRequestURLParams does not exist in 2025-06-18, only from 2025-11-25 on"),
        (types.TaskRequestParams(task_id="t"), LATEST, "TaskRequestParams does not exist in 2026-07-28, only in 2025-11-25"),
        (types.Annotations(priority=1.5), LATEST, "Annotations.priority must be at most 1, not 1.5"),
        (types.Annotations(priority=-1), LATEST, "Annotations.priority must be at least 0, not -1"),
        (types.Annotations(priority=float("nan")), LATEST, "Annotations.priority must be at least 0, not nan"),
        (types.ListRootsResult(roots=[]), LATEST, None),
        (types.CancelledNotificationParams(), V2025_11_25, None),
        (types.ListToolsResult(tools=[], ttl_ms=-1), LATEST, "ListToolsResult.ttlMs must be at least 0, not -1"),
        (types.ListToolsResult(tools=[], ttl_ms=-1), V2025_11_25, None),
        (types.Completion(values=["v"] * 101), LATEST, "Completion.values must have at most 100 items, not 101"),
        (types.Completion(values=["v"] * 100), LATEST, None),
        (types.Tool(name="t", input_schema={}), LATEST, "the inputSchema of tool 't' must have the type \"object\""),
    ]  # fmt: skip
    for obj, revision, message in cases:
        with subtests.test(obj=obj, revision=revision):
            if message is None:
                to_wire(obj, revision)
                continue
            with pytest.raises(LocalProtocolError) as caught:
                to_wire(obj, revision)
            assert message in str(caught.value)


def test_bounds_do_not_hold_for_what_is_received() -> None:
    """2026-07-28, server/utilities/caching: a client takes a negative ttlMs for 0. It must be able to read it."""
    assert from_wire({"tools": [], "ttlMs": -5}, types.ListToolsResult).ttl_ms == -5
    assert from_wire({"priority": 7}, types.Annotations).priority == 7


def test_an_object_of_another_class_is_refused() -> None:
    """A mistake in a handler is found where it is made, with the names of what would have fitted."""
    wrong = anything([types.PromptMessage(role="user", content=types.TextContent(text=""))])
    with pytest.raises(TypeError, match=r"CallToolResult\.content takes TextContent or .* not PromptMessage"):
        to_wire(types.CallToolResult(content=wrong), LATEST)
    with pytest.raises(TypeError, match=r"Tool\.annotations takes ToolAnnotations, not dict"):
        to_wire(types.Tool(name="t", input_schema={"type": "object"}, annotations=anything({})), LATEST)
    with pytest.raises(TypeError, match="dict is not a class of the protocol"):
        to_wire({}, LATEST)


def anything(value: object) -> Any:
    return value


def test_an_object_of_a_subclass_is_sent_as_what_is_asked_for() -> None:
    """A `GetTaskResult` is a `Task` with something on top; in a list of tasks it is a task."""
    task = types.GetTaskResult(
        task_id="t", status="failed", created_at="", last_updated_at="", ttl=1, meta={"a": 1}
    )
    (written,) = to_wire(types.ListTasksResult(tasks=[task]), V2025_11_25)["tasks"]
    assert written == {"taskId": "t", "status": "failed", "createdAt": "", "lastUpdatedAt": "", "ttl": 1}


def test_any_mapping_will_do_for_an_open_object() -> None:
    """JSON encoders know dict alone."""
    schema = MappingProxyType({"type": "object"})
    assert type(to_wire(types.Tool(name="t", input_schema=schema), LATEST)["inputSchema"]) is dict


# What is neither data nor an object of the protocol.


def test_a_type_with_no_place_in_the_protocol_is_refused() -> None:
    """A mistake in a wire class is found when it is first used, not read as something else."""
    with pytest.raises(TypeError, match="a member of a wire class cannot have the type <class 'bytes'>"):
        from_wire("", bytes)


def test_a_mistake_of_ours_is_not_blamed_on_the_data() -> None:
    """`InvalidData` becomes an answer to the peer; a bug must become a traceback."""
    with pytest.raises(ZeroDivisionError):
        from_wire({"member": 0}, Mistaken)


def test_extensions_may_have_wire_classes_of_their_own() -> None:
    """They are read and written like those of the specification, and live where they were made."""
    later = Extended(new_name="x")
    assert to_wire(later, LATEST) == {"newName": "x"}
    assert from_wire({"newName": "x"}, Extended) == later
    assert Extended.__module__ == __name__
    with pytest.raises(LocalProtocolError, match="Extended does not exist in 2025-11-25"):
        to_wire(later, V2025_11_25)


@pytest.mark.parametrize("odd", [True, [], ["x"], "yes", 1])
def test_a_capability_that_is_no_object_is_declared_without_settings(odd: object) -> None:
    """Peers that have only a yes to say write it in their own way, and PHP writes ``[]`` for ``{}``."""
    said = {"tools": odd, "logging": odd, "tasks": {"requests": {"tools": {"call": odd}}}}
    assert from_wire({**said, "extensions": {"x/y": odd, "x/z": {"a": 1}}}, types.ServerCapabilities) == (
        types.ServerCapabilities(
            tools=types.ToolsCapability(),
            logging={},
            tasks=types.ServerTasksCapability(
                requests=types.ServerTaskRequests(tools=types.ToolTaskRequests(call={}))
            ),
            extensions={"x/y": {}, "x/z": {"a": 1}},
        )
    )
    assert from_wire({"roots": odd, "elicitation": {"url": odd}}, types.ClientCapabilities) == (
        types.ClientCapabilities(roots=types.RootsCapability(), elicitation=types.ElicitationCapability(url={}))
    )


@pytest.mark.parametrize("odd", [False, None])
def test_a_capability_that_is_said_not_to_be_there_is_not(odd: object) -> None:
    """``false`` is a clear word, if not the protocol's."""
    said: dict[str, Any] = {"tools": odd, "logging": odd, "extensions": {"x/y": odd, "x/z": {}}}
    assert from_wire(said, types.ServerCapabilities) == types.ServerCapabilities(extensions={"x/z": {}})
    assert from_wire({"roots": odd, "sampling": {"tools": odd}}, types.ClientCapabilities) == (
        types.ClientCapabilities(sampling=types.SamplingCapability())
    )


def test_capabilities_that_are_no_object_are_none(subtests: pytest.Subtests) -> None:
    """Nor are extensions by name, and whether a list may change."""
    kinds: list[Any] = [types.InitializeResult, types.DiscoverResult, types.InitializeRequestParams]
    oddities: list[object] = [True, [], "yes", 1, False, None]
    info = {"name": "x", "version": "1"}
    said: dict[str, Any] = {"protocolVersion": "x", "serverInfo": info, "supportedVersions": []}
    shown = {**said, "clientInfo": info, "ttlMs": 0, "cacheScope": "private"}
    for kind in kinds:
        for odd in oddities:
            with subtests.test(kind=kind, odd=odd):
                read = from_wire({**shown, "capabilities": odd}, kind).capabilities
                assert read == type(read)()
                odd_ones = {"extensions": odd, "experimental": odd}
                assert from_wire({**shown, "capabilities": odd_ones}, kind).capabilities == read


@pytest.mark.parametrize("odd", [[], "yes", 1, {}])
def test_an_odd_setting_of_a_capability_is_none(odd: object) -> None:
    """The capability is as good without it."""
    assert from_wire({"listChanged": odd}, types.ToolsCapability) == types.ToolsCapability()
    assert from_wire({"subscribe": odd, "listChanged": True}, types.ResourcesCapability) == (
        types.ResourcesCapability(list_changed=True)
    )
