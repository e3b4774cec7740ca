"""Python functions read as tools: what they take, what they give, how they are called."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Generic, Literal, NoReturn, Optional, TypeVar

import attrs
import jsonschema_rs
import pytest
import trio
from inside_schema import InvalidValue, bind, inspect_callable, is_unstructured
from schema_models import Circle, Line, Node, Order

from trio_mcp import Field

S = TypeVar("S")


class Context(Generic[S]):
    """Stands for what a server injects."""


class Image:
    """Stands for what a server sends as content."""


def is_context(hint: Any) -> bool:
    return hint is Context or getattr(hint, "__origin__", None) is Context


def call(function: Callable[..., object], arguments: dict[str, object], **injected: object) -> object:
    args, kwargs = bind(inspect_callable(function, injected=is_context), arguments, injected)
    return function(*args, **kwargs)


def reserve(
    title: str, copies: Annotated[int, Field(ge=1)] = 1, *, tags: list[str] | None = None, ctx: Context[int]
) -> Order:
    """Reserve copies of a book.

    Args:
        title: Exact title as printed on the cover.
        copies: How many, at least 1.
        ctx: Never seen by a client.

    Returns:
        What was reserved.
    """
    return Order([Line(title, copies)], tags=tags or [])


async def summarise(text: Annotated[str, "What to summarise."], /, words: int = 100) -> str:
    await trio.lowlevel.checkpoint()
    return f"{text}: {words}"


def test_signature_becomes_an_input_schema() -> None:
    """The whole of it: types, defaults, bounds, docstring; nothing of what is injected."""
    spec = inspect_callable(reserve, injected=is_context)
    assert spec.name == "reserve"
    assert spec.description == "Reserve copies of a book."
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Exact title as printed on the cover."},
            "copies": {"type": "integer", "minimum": 1, "description": "How many, at least 1.", "default": 1},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["title"],
        "additionalProperties": False,
    }
    jsonschema_rs.meta.validate(spec.input_schema)
    assert list(spec.injected) == ["ctx"]
    assert spec.injected["ctx"] == Context[int]
    assert not spec.is_async


def test_return_annotation_becomes_an_output_schema() -> None:
    """As it is: wrapping what is not an object is the server's business."""
    spec = inspect_callable(reserve, injected=is_context)
    assert spec.output_schema is not None
    jsonschema_rs.meta.validate(spec.output_schema)
    assert spec.output_schema["description"] == "What was reserved."
    assert spec.output_schema["required"] == ["lines", "note", "tags", "made"]
    order = call(reserve, {"title": "Dune", "copies": 2.0}, ctx=Context[int]())
    written = spec.encode_result(order)
    assert written["lines"] == [{"sku": "Dune", "copies": 2}]
    assert jsonschema_rs.is_valid(spec.output_schema, written)
    with pytest.raises(InvalidValue, match=r"^expected Order, got null$"):
        spec.encode_result(None)


def test_class_that_contains_itself_keeps_its_type_in_sight() -> None:
    """Before 2026-07-28 an output schema must say ``"type": "object"`` at its root."""

    def tree() -> Node:
        """Grow.

        Returns:
            The root.
        """
        raise NotImplementedError

    schema = inspect_callable(tree).output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert schema["description"] == "The root."
    assert schema["properties"]["children"]["items"] == {"$ref": "#"}


def test_function_without_parameters_has_the_recommended_schema() -> None:
    """2026-07-28, tools, "Tool": ``{"type": "object", "additionalProperties": false}``.

    Some client libraries look for properties without asking whether there are any.
    """

    def nothing() -> None: ...

    spec = inspect_callable(nothing)
    assert spec.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert spec.description is None
    assert bind(spec, {}) == ((), {})
    with pytest.raises(InvalidValue, match=r"^a: is not known; no members are$"):
        bind(spec, {"a": 1})


no_annotation: Callable[..., object] = eval("lambda: None")


def gives(hint: Any) -> Callable[..., object]:
    def function() -> object: ...

    function.__annotations__["return"] = hint
    return function


@pytest.mark.parametrize("hint", [None, str, Any, object, NoReturn, Annotated[str, "Text."]], ids=str)
def test_results_that_promise_nothing_have_no_output_schema(hint: Any) -> None:
    """A text is content, not structure."""
    spec = inspect_callable(gives(hint))
    assert spec.output_schema is None
    with pytest.raises(TypeError, match=r"^function\(\) has no output schema$"):
        spec.encode_result("a")


def test_missing_annotation_promises_nothing() -> None:
    """Most plain functions have none."""
    assert inspect_callable(no_annotation).output_schema is None


def test_server_decides_what_else_is_not_structured() -> None:
    """Content types have a form of their own on the wire."""

    def unstructured(hint: Any) -> bool:
        return hint in {Image, list[Image]} or is_unstructured(hint)

    for hint in (Image, list[Image], Annotated[Image, "A picture."], str):
        assert inspect_callable(gives(hint), unstructured=unstructured).output_schema is None
    assert inspect_callable(gives(int), unstructured=unstructured).output_schema == {"type": "integer"}
    with pytest.raises(
        TypeError,
        match=r"^function\(\): return value: .*Image has no form in JSON; a dataclass, an attrs class or a TypedDict has one$",
    ):
        inspect_callable(gives(Image))


def test_plain_results_keep_their_schema() -> None:
    """2026-07-28 allows any schema for output."""
    spec = inspect_callable(gives(list[int]))
    assert spec.output_schema == {"type": "array", "items": {"type": "integer"}}
    assert spec.encode_result((1, 2)) == [1, 2]


def test_arguments_are_converted_and_defaults_are_left_to_python() -> None:
    """A default that is an object of its own must stay that object."""

    def function(title: str, line: Line, found: list[int] = [7]) -> object:  # noqa: B006 - what is tested
        return title, line, found

    assert call(function, {"title": "a", "line": {"sku": "b"}}) == ("a", Line("b"), [7])
    _, kwargs = bind(inspect_callable(function), {"title": "a", "line": {"sku": "b"}})
    assert "found" not in kwargs
    assert call(function, {"title": "a", "line": {"sku": "b"}, "found": []}) == ("a", Line("b"), [])


def test_problems_begin_with_the_name_of_the_argument() -> None:
    """All at once."""
    spec = inspect_callable(reserve, injected=is_context)
    with pytest.raises(InvalidValue) as caught:
        bind(spec, {"copies": 0, "tags": [1], "ctx": 5})
    assert caught.value.problems == (
        ("title", "is missing"),
        ("copies", "must be at least 1, got 0"),
        ("tags[0]", "expected a string, got 1"),
        ("ctx", "is not known; known are title, copies, tags"),
    )


async def test_positional_parameters_are_passed_by_position() -> None:
    """They cannot be passed otherwise."""
    spec = inspect_callable(summarise)
    assert spec.is_async
    assert bind(spec, {"text": "a"}) == (("a",), {})
    assert bind(spec, {"text": "a", "words": 5}) == (("a",), {"words": 5})
    args, kwargs = bind(spec, {"text": "a"})
    assert await summarise(*args, **kwargs) == "a: 100"


def test_positional_parameter_after_one_left_out_gets_its_place() -> None:
    """The one left out is filled with its default."""

    def function(ctx: Context[int], a: int = 1, b: int = 2, /, c: int = 3) -> object:
        return a, b, c

    assert call(function, {"b": 5}, ctx=None) == (1, 5, 3)
    assert call(function, {"c": 5}, ctx=None) == (1, 2, 5)
    with pytest.raises(KeyError, match="ctx"):
        bind(inspect_callable(function, injected=is_context), {})


def test_any_mapping_can_be_bound() -> None:
    """Frozen wire types hold read-only mappings."""
    from types import MappingProxyType

    assert bind(inspect_callable(summarise), MappingProxyType({"text": "a"})) == (("a",), {})


CONTEXTS: list[Any] = [
    Context,
    Context[str],
    Context[str] | None,
    Annotated[Context[str], "x"],
    Optional[Annotated[Context[str], "x"]],  # noqa: UP045 - `|` needs a class
]


@pytest.mark.parametrize("hint", CONTEXTS, ids=str)
def test_injected_parameters_are_hidden_in_any_form(hint: Any) -> None:
    """Optional contexts are common in code that is also called directly."""

    def function(a: int, ctx: Any = None) -> None: ...

    function.__annotations__["ctx"] = hint
    spec = inspect_callable(function, injected=is_context)
    assert list(spec.injected) == ["ctx"]
    assert list(spec.input_schema["properties"]) == ["a"]
    assert bind(spec, {"a": 1}, {"ctx": 5}) == ((), {"a": 1, "ctx": 5})


def test_open_keyword_parameters_let_unknown_members_in() -> None:
    """Their hint says what the members are."""

    def anything(a: int = 0, **more: Any) -> object:
        return a, more

    def numbers(**more: int) -> object:
        return more

    assert inspect_callable(anything).input_schema["additionalProperties"] is True
    assert call(anything, {"b": "x", "a": 1}) == (1, {"b": "x"})
    assert inspect_callable(numbers).input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": {"type": "integer"},
    }
    assert call(numbers, {"b": 1}) == {"b": 1}
    with pytest.raises(InvalidValue, match=r'^b: expected an integer, got "x"$'):
        call(numbers, {"b": "x"})


def test_open_keyword_parameters_reach_no_other_parameter() -> None:
    """A peer must not choose what is injected, bound beforehand, or renamed."""

    def function(
        a: int, source: Annotated[str, Field(name="from")] = "", *, ctx: Context[int], key: str, **more: Any
    ) -> object:
        return a, source, key, more

    bound = functools.partial(function, 1, key="secret")
    spec = inspect_callable(bound, injected=is_context)
    assert list(spec.input_schema["properties"]) == ["from"]
    for name in ("ctx", "key", "a", "source"):
        with pytest.raises(InvalidValue, match=rf"^{name}: is not known; known are from$"):
            bind(spec, {name: "stolen"}, {"ctx": None})
    args, kwargs = bind(spec, {"from": "b", "other": 1, "return": 2}, {"ctx": None})
    assert bound(*args, **kwargs) == (1, "b", "secret", {"other": 1, "return": 2})


def test_variadic_positional_parameters_are_refused() -> None:
    """JSON objects have names; a decorator without functools.wraps looks the same."""

    def function(*numbers: int) -> None: ...

    with pytest.raises(
        TypeError, match=r"^function\(\): \*numbers has no place in a JSON object; .*functools.wraps$"
    ):
        inspect_callable(function)


class Shop:
    """Sells."""

    def sell(self, title: str) -> int:
        """Sell one."""
        return len(title)

    async def order(self, title: str) -> int:
        await trio.lowlevel.checkpoint()
        return len(title)

    @classmethod
    def open(cls, at: int) -> int:
        return at

    @staticmethod
    def close(at: int) -> int:
        return at

    def __call__(self, title: str, copies: int = 1) -> int:
        return copies


class AsyncShop:
    async def __call__(self, title: str) -> int:
        """Ask."""
        await trio.lowlevel.checkpoint()
        return len(title)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


SHOP = Shop()
KINDS: dict[str, tuple[Callable[..., object], str, str | None, list[str], bool]] = {
    "method": (SHOP.sell, "sell", "Sell one.", ["title"], False),
    "async method": (SHOP.order, "order", None, ["title"], True),
    "class method": (Shop.open, "open", None, ["at"], False),
    "static method": (Shop.close, "close", None, ["at"], False),
    "object": (SHOP, "Shop", "Sells.", ["title", "copies"], False),
    "async object": (AsyncShop(), "AsyncShop", "Ask.", ["title"], True),
    "partial": (functools.partial(SHOP.sell), "sell", "Sell one.", ["title"], False),
    "partial of a partial": (
        functools.partial(functools.partial(reserve, "Dune"), tags=[]),
        "reserve",
        "Reserve copies of a book.",
        ["copies"],
        False,
    ),
    "async partial": (functools.partial(summarise, "a"), "summarise", None, ["words"], True),
    "partial of an object": (functools.partial(SHOP, "a"), "Shop", "Sells.", ["copies"], False),
    "decorated": (decorated(reserve), "reserve", "Reserve copies of a book.", ["title", "copies", "tags"], False),
    "cached": (functools.lru_cache(SHOP.sell), "sell", "Sell one.", ["title"], False),
    "lambda": (eval("lambda a, b: (a, b)"), "<lambda>", None, ["a", "b"], False),
}


@pytest.mark.parametrize(("function", "name", "description", "names", "is_async"), KINDS.values(), ids=KINDS)
def test_every_kind_of_callable_is_read(
    function: Callable[..., object], name: str, description: str | None, names: list[str], is_async: bool
) -> None:
    """Servers register methods and partials as often as functions."""
    spec = inspect_callable(function, injected=is_context)
    assert spec.name == name
    assert spec.description == description
    assert list(spec.input_schema["properties"]) == names
    assert spec.is_async == is_async


def test_partially_bound_keywords_are_fixed() -> None:
    """They may be secrets, or objects without a form in JSON."""
    function = functools.partial(reserve, copies=3, ctx=Context[int]())
    spec = inspect_callable(function)
    assert list(spec.input_schema["properties"]) == ["title", "tags"]
    with pytest.raises(InvalidValue, match=r"^copies: is not known"):
        bind(spec, {"title": "a", "copies": 5})
    args, kwargs = bind(spec, {"title": "a"})
    assert function(*args, **kwargs) == Order([Line("a", 3)])


def test_parameters_without_annotation_take_anything() -> None:
    """Untyped code still makes a tool."""

    function: Callable[..., object] = eval("lambda a, b=1: (a, b)")

    assert inspect_callable(function).input_schema["properties"] == {"a": {}, "b": {"default": 1}}
    assert call(function, {"a": [None]}) == ([None], 1)


def test_defaults_that_json_cannot_show_are_left_out_but_used() -> None:
    """A sentinel is a common default."""
    nothing = object()
    none: Any = None
    line = Line("x")

    def function(a: Any = nothing, b: str = none, c: Line = line) -> object:
        return a, b, c

    assert inspect_callable(function).input_schema["properties"] == {
        "a": {},
        "b": {"type": "string"},
        "c": {
            "type": "object",
            "description": "One line of an order.",
            "properties": {
                "sku": {"type": "string", "description": "The article's number."},
                "copies": {"type": "integer", "minimum": 1, "description": "How many.", "default": 1},
            },
            "required": ["sku"],
            "additionalProperties": False,
            "default": {"sku": "x", "copies": 1},
        },
    }
    assert call(function, {}) == (nothing, None, Line("x"))


def test_annotations_beat_docstrings() -> None:
    """The nearer text was written for this purpose."""

    def function(a: Annotated[int, "From the hint."], b: Annotated[int, Field(ge=1)]) -> None:
        """Do.

        Args:
            a: From the docstring.
            b: From the docstring.
        """

    properties = inspect_callable(function).input_schema["properties"]
    assert properties["a"] == {"type": "integer", "description": "From the hint."}
    assert properties["b"] == {"type": "integer", "minimum": 1, "description": "From the docstring."}


def test_names_in_json_may_differ() -> None:
    """`from` is a fine name everywhere but in Python."""

    def function(from_: Annotated[str, Field(name="from")]) -> object:
        """Do.

        Args:
            from_: Where from.
        """
        return from_

    assert inspect_callable(function).input_schema["properties"] == {
        "from": {"type": "string", "description": "Where from."}
    }
    assert call(function, {"from": "a"}) == "a"


def test_classes_that_are_shared_between_parameters_are_defined_once() -> None:
    """Tool lists are read by models, and paid for by the word."""

    def function(first: Circle, second: Circle | None = None) -> None: ...

    schema = inspect_callable(function).input_schema
    assert schema["properties"] == {
        "first": {"$ref": "#/$defs/Circle"},
        "second": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"type": "null"}], "default": None},
    }
    assert list(schema["$defs"]) == ["Circle"]


def test_classes_with_the_same_name_get_definitions_of_their_own() -> None:
    """Two modules may each have a `Line`."""
    other = attrs.make_class("Line", {"points": attrs.field(type=int)})

    def function(a: Line, b: Line, c: Any, d: Any) -> None: ...

    function.__annotations__.update(c=other, d=other)
    schema = inspect_callable(function).input_schema
    assert [schema["properties"][name]["$ref"] for name in "abcd"] == ["#/$defs/Line"] * 2 + [
        "#/$defs/Line_2"
    ] * 2
    assert list(schema["$defs"]) == ["Line", "Line_2"]
    jsonschema_rs.meta.validate(schema)


def test_specification_example_of_a_header_parameter() -> None:
    """2026-07-28, tools, "x-mcp-header": the schema of the example, apart from being closed."""

    def execute_sql(
        region: Annotated[str, Field("The region to execute the query in", keywords={"x-mcp-header": "Region"})],
        query: Annotated[str, "The SQL query to execute"],
    ) -> None: ...

    assert inspect_callable(execute_sql).input_schema == {
        "type": "object",
        "properties": {
            "region": {
                "type": "string",
                "description": "The region to execute the query in",
                "x-mcp-header": "Region",
            },
            "query": {"type": "string", "description": "The SQL query to execute"},
        },
        "required": ["region", "query"],
        "additionalProperties": False,
    }


def unknown_name(a: Any) -> None: ...


unknown_name.__annotations__["a"] = "Nowhere"


def same_names(a: Annotated[int, Field(name="x")], x: int) -> None: ...


def streams() -> AsyncIterator[str]:
    raise NotImplementedError


def impossible(line: Line, where: list[complex]) -> None: ...


@attrs.frozen
class Growing(Generic[S]):
    inner: Growing[list[S]] | None


def growing(a: Growing[int]) -> None: ...


def untold(**more: complex) -> None: ...


BAD: dict[str, tuple[Callable[..., object], str]] = {
    "unknown name": (
        unknown_name,
        (
            "unknown_name(): a hint names 'Nowhere', which is not defined at run time; is it imported under "
            "TYPE_CHECKING only, or defined inside a function?"
        ),
    ),
    "hint": (impossible, "impossible(): parameter 'where': complex has no form in JSON"),
    "open parameters": (untold, "untold(): parameter 'more': complex has no form in JSON"),
    "ever larger type": (growing, "growing(): a generic type contains itself with ever larger arguments"),
    "result": (streams, "streams(): return value: collections.abc.AsyncIterator[str] has no form in JSON"),
    "names": (same_names, "same_names(): parameter 'x': there is another member named 'x'"),
    "class": (Shop, "Shop(): it is a class; give a function that makes the object"),
    "builtin": (getattr, "getattr(): its signature cannot be read: "),
}


def test_impossible_functions_are_refused_by_name(subtests: pytest.Subtests) -> None:
    """The author of the server must find the line without a debugger."""
    for name, (function, message) in BAD.items():
        with subtests.test(name), pytest.raises(TypeError, match=f"^{re.escape(message)}"):
            inspect_callable(function)


def test_spec_shows_itself_without_its_machinery() -> None:
    """It ends up in logs and debuggers."""
    assert "function" not in repr(inspect_callable(no_annotation)).replace("functions", "")


def test_variables_of_a_uri_are_read_by_the_hint(subtests: pytest.Subtests) -> None:
    """A number or a boolean comes before text: a URI has no quotes."""
    cases: list[tuple[Any, str | list[str], object]] = [
        (str, "5", "5"),
        (int, "5", 5),
        (str | int, "5", 5),
        (str | int, "05", "05"),
        (int | float, "5", 5.0),
        (float, "1e3", 1000.0),
        (bool | str, "true", True),
        (bool | str, "yes", "yes"),
        (Literal["a", 5, True], "5", 5),
        (Literal["a", 5, True], "true", True),
        (list[int], ["1", "2"], [1, 2]),
        (tuple[str, int], ["1", "2"], ("1", 2)),
        (Any, "5", "5"),
        (Any, ["5"], ["5"]),
    ]
    for hint, found, value in cases:
        with subtests.test(hint=hint, found=found):

            def read(x: object) -> None: ...

            read.__annotations__["x"] = hint
            assert inspect_callable(read).decode_variables({"x": found}) == {"x": value}


def test_variables_that_do_not_fit_are_refused() -> None:
    """Texts that are not numbers, unknown names, and lists of another length."""

    def read(x: int, y: tuple[int, int]) -> None: ...

    spec = inspect_callable(read)
    for found in ({"x": "a", "y": ["1", "2"]}, {"x": "1", "y": ["1", "2", "3"]}, {"x": "1", "y": "5", "z": ""}):
        with pytest.raises(InvalidValue):
            spec.decode_variables(found)


def test_a_variable_of_a_class_with_its_own_schema_is_read_by_that() -> None:
    """A pydantic root model is a number if its schema is."""
    pydantic = pytest.importorskip("pydantic")
    number = pydantic.RootModel[int]

    def read(x: object) -> None: ...

    read.__annotations__["x"] = number
    spec = inspect_callable(read)
    assert spec.decode_variables({"x": "5"}) == {"x": number(5)}
    assert spec.arguments_as_strings()[0].kinds == {"integer"}
