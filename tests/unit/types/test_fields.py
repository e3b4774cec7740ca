"""How wire classes are made, and what they say about themselves."""

from __future__ import annotations

import ast
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import attrs
import pytest
from inside_base import METHODS
from inside_wire import Span, members, options_of, span_of, wire
from method_types import METHOD_TYPES

from trio_mcp import Revision, types

CLASSES = [getattr(types, name) for name in vars(types)["__all__"] if attrs.has(getattr(types, name))]

TEXT = types.TextContent(text="hello")


def member(cls: type, attribute: str) -> Any:
    (found,) = (member for member in members(cls) if member.attribute == attribute)
    return found


# The public package.


def test_the_package_exports_what_its_modules_offer_and_no_more() -> None:
    """Adding a name is an API decision."""
    offered = {"evolve", "from_json", "to_json"}
    for module in pkgutil.iter_modules(types.__path__):
        if module.name != "_fields":
            source = importlib.import_module(f"trio_mcp.types.{module.name}").__file__
            assert source is not None
            for node in ast.parse(Path(source).read_text(encoding="utf-8")).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    offered.add(node.name)
                elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                    offered.add(ast.unparse(node.target))
    assert vars(types)["__all__"] == sorted(vars(types)["__all__"])
    assert set(vars(types)["__all__"]) == {name for name in offered if not name.startswith("_")}


def test_classes_live_where_users_find_them() -> None:
    """Tracebacks, documentation, pickles and type hints all follow `__module__`."""
    for cls in CLASSES:
        assert cls.__module__ == "trio_mcp.types"
        assert cls.__doc__, cls
        hints = get_type_hints(cls)
        assert [hints[m.attribute] for m in members(cls)] == [m.type for m in members(cls)], cls


def test_objects_can_be_pickled() -> None:
    """They are found again under their public name."""
    result = types.CallToolResult(content=[TEXT], structured_content=None)
    assert pickle.loads(pickle.dumps(result)) == result
    nothing = types.CallToolResult(content=[])
    assert pickle.loads(pickle.dumps(nothing)) == nothing


def test_every_method_has_types_and_no_other_has() -> None:
    """The table of types keeps step with the table of methods."""
    assert METHOD_TYPES.keys() == METHODS.keys()


def test_the_types_of_a_method_exist_in_its_revisions(subtests: pytest.Subtests) -> None:
    """A method that a revision has must be able to say something there."""
    for method in METHODS:
        with subtests.test(method=method):
            rule, types_of = METHODS[method], METHOD_TYPES[method]
            for kind in (types_of.params, types_of.result):
                for revision in Revision:
                    is_there = rule.since <= revision <= (rule.until or revision)
                    if kind is not None and is_there:
                        assert any(revision in span_of(cls) for cls in options_of(kind)), (kind, revision)


def test_only_requests_have_results() -> None:
    """JSON-RPC 2.0, section 4.1. The result of ``tasks/result`` is that of another request."""
    without = {method for method, types_of in METHOD_TYPES.items() if types_of.result is None}
    assert without == {method for method in METHODS if method.startswith("notifications/")} | {"tasks/result"}


# Objects.


@pytest.mark.parametrize("several", [[TEXT], (TEXT,), iter([TEXT]), {TEXT: None}.keys()])
def test_lists_are_made_of_any_iterable_and_are_tuples(several: Any) -> None:
    """A list that somebody goes on changing is no part of an immutable object."""
    assert types.CallToolResult(content=several).content == (TEXT,)


@pytest.mark.parametrize("wrong", ["abc", b"abc", {"a": 1}, 5, None])
def test_what_is_not_several_values_is_refused(wrong: Any) -> None:
    """A string is an iterable of strings, but nobody ever means that."""
    with pytest.raises(TypeError, match="supported_versions takes several values"):
        types.DiscoverResult(supported_versions=wrong, capabilities=types.ServerCapabilities())


def test_a_list_may_be_left_out_or_be_one_block_where_the_specification_says_so() -> None:
    """`Tool.icons` is optional; the content of a sampling message is one block or several."""
    assert types.Tool(name="t", input_schema={}, icons=None).icons is None
    assert types.SamplingMessage(role="user", content=TEXT).content is TEXT
    assert types.SamplingMessage(role="user", content=[TEXT]).content == (TEXT,)


def test_objects_cannot_be_changed() -> None:
    """An object may be shared between tasks, and kept."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        TEXT.text = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_changed_copy_keeps_to_the_rules() -> None:
    """`evolve` is the way to change an object."""
    result = types.CallToolResult(content=[TEXT], is_error=True)
    copy = types.evolve(result, content=iter([TEXT, TEXT]))
    assert copy == types.CallToolResult(content=(TEXT, TEXT), is_error=True)
    assert result.content == (TEXT,)


def test_objects_show_what_was_said_and_nothing_else() -> None:
    """A tool has ten members; a log that shows eight times None is not read."""
    tool = types.Tool(name="add", input_schema={"type": "object"}, annotations=types.ToolAnnotations(title="A"))
    shown = "Tool(name='add', input_schema={'type': 'object'}, annotations=ToolAnnotations(title='A'))"
    assert repr(tool) == shown
    assert repr(types.CallToolResult(content=(), structured_content=None)) == (
        "CallToolResult(content=(), structured_content=None)"
    )


def test_a_request_for_input_asks_for_something() -> None:
    """2026-07-28, basic/patterns/mrtr: "At least one of inputRequests or requestState"."""
    with pytest.raises(ValueError, match="inputRequests"):
        types.InputRequiredResult()
    assert types.InputRequiredResult(request_state="s").result_type == "input_required"


# What is said beside the members.


@pytest.mark.parametrize(
    ("cls", "attribute", "name"),
    [
        (types.Tool, "meta", "_meta"),
        (types.Tool, "input_schema", "inputSchema"),
        (types.RequestedSchema, "schema", "$schema"),
        (types.CacheableResult, "ttl_ms", "ttlMs"),
        (types.TitledEnumItems, "any_of", "anyOf"),
        (types.Implementation, "website_url", "websiteUrl"),
    ],
)
def test_members_are_called_as_in_the_specification(cls: type, attribute: str, name: str) -> None:
    """The rule is camel case; the exceptions are written down."""
    assert member(cls, attribute).name == name


@pytest.mark.parametrize(
    ("cls", "attribute", "always"),
    [
        (types.TextContent, "text", True),
        (types.TextContent, "type", True),
        (types.TextContent, "annotations", False),
        (types.CallToolResult, "_structured_content", False),
        (types.CallToolResult, "result_type", True),
        (types.ListToolsResult, "ttl_ms", True),
        (types.Task, "ttl", True),
    ],
)
def test_a_member_is_always_sent_unless_its_default_means_nothing(
    cls: type, attribute: str, *, always: bool
) -> None:
    """`None` and `ABSENT` mean "not there"; every other default is worth saying. `Task.ttl` says null."""
    assert member(cls, attribute).always_sent is always


def _revisions(span: Span) -> Iterator[str]:
    return (revision.value for revision in Revision if revision in span)


def test_spans_say_which_revisions_they_hold() -> None:
    """Messages to users quote them."""
    later, once = Span(since=Revision.V2025_11_25), span_of(types.Task)
    between = Span(since=Revision.V2025_03_26, until=Revision.V2025_06_18)
    assert list(_revisions(later)) == ["2025-11-25", "2026-07-28"]
    assert str(later) == "from 2025-11-25 on"
    assert list(_revisions(once)) == ["2025-11-25"]
    assert str(once) == "in 2025-11-25"
    assert list(_revisions(between)) == ["2025-03-26", "2025-06-18"]
    assert str(between) == "from 2025-03-26 to 2025-06-18"


def test_annotations_that_are_text_are_refused() -> None:
    """Lists would silently stay lists, and the codec would have to guess where the names come from."""

    class Late:
        names: list[str]

    with pytest.raises(TypeError, match=r"Late\.names: its module must do without"):
        wire(Late)


def test_what_is_no_wire_class_has_no_span() -> None:
    """The codec refuses it by this."""
    with pytest.raises(KeyError):
        span_of(str)
