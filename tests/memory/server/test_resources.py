"""Resources from end to end: registered at a server, listed and read by a client, in every revision."""

from __future__ import annotations

import base64
import enum
import threading
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Final, Literal

import attrs
import pytest
import trio
import trio.testing
from eras import ENDS
from shared.server_resources import listed, many, read

from trio_mcp import Client, Context, Field, RequestError, ResourceNotFound, Revision, Server, open_client
from trio_mcp.types import Annotations, BlobResourceContents, Icon, ReadResourceResult, TextResourceContents

REVISIONS = pytest.mark.parametrize("revision", list(Revision))
PNG: Final = b"\x89PNG\r\n\x1a\n rest"


async def read_one(client: Client, uri: str) -> dict[str, Any]:
    (contents,) = await read(client, uri)
    return contents


async def refusal(client: Client, uri: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await client.request("resources/read", {"uri": uri})
    return caught.value


def not_found(revision: Revision) -> int:
    return -32602 if revision.is_modern else -32002


# What is told.


@REVISIONS
async def test_what_is_registered_is_listed_in_order(revision: Revision) -> None:
    """Server/resources, "Listing Resources", "Resource Templates": every member that the revision has."""
    server = Server("s")
    icon = Icon(src="https://example.com/i.png")

    @server.resource(
        "orders://recent",
        name="latest",
        title="Latest",
        mime_type="text/x-orders",
        annotations=Annotations(audience=["user"], priority=0.5),
        icons=[icon],
        size=12,
        meta={"k": 1},
    )
    async def recent() -> str:
        """List the latest orders."""
        return ""

    @server.resource("orders://{id}{?page}", title="One", annotations=Annotations(priority=1), meta={"k": 2})
    async def order(id: str, page: int = 1) -> str:
        """Show an order."""
        return ""

    server.add_resource("notes://today", "hé", description="Notes.")

    @server.resource("orders://count", description="How many.")
    def count() -> str:
        return ""

    async with open_client(server, revision=revision) as client:
        resources = (await client.request("resources/list"))["resources"]
        templates = (await client.request("resources/templates/list"))["resourceTemplates"]
    has_titles = revision >= Revision.V2025_06_18
    latest = {
        "uri": "orders://recent",
        "name": "latest",
        "description": "List the latest orders.",
        "mimeType": "text/x-orders",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "size": 12,
    }
    if has_titles:
        latest |= {"title": "Latest", "_meta": {"k": 1}}
    if revision >= Revision.V2025_11_25:
        latest |= {"icons": [{"src": "https://example.com/i.png"}]}
    assert resources == [
        latest,
        {"uri": "notes://today", "name": "today", "description": "Notes.", "mimeType": "text/plain", "size": 3},
        {"uri": "orders://count", "name": "count", "description": "How many.", "mimeType": "text/plain"},
    ]
    one = {
        "uriTemplate": "orders://{id}{?page}",
        "name": "order",
        "description": "Show an order.",
        "annotations": {"priority": 1},
    }
    assert templates == [one | ({"title": "One", "_meta": {"k": 2}} if has_titles else {})]


@pytest.mark.parametrize("revision", ENDS)
async def test_the_capability_is_there_when_there_are_resources(revision: Revision) -> None:
    """Server/resources, "Capabilities": declared if supported, and then the lists are served, empty or not."""
    server = Server("s")
    async with open_client(server, revision=revision) as client:
        if not revision.is_modern:
            assert client.server_capabilities is not None
            assert client.server_capabilities.resources is None
        with pytest.raises(RequestError) as caught:
            await client.request("resources/list")
        assert caught.value.code == -32601
    server.add_resource("a:b", "")
    async with open_client(server, revision=revision) as client:
        assert await listed(client) == ["a:b"]
        if not revision.is_modern:
            assert client.server_capabilities is not None
            assert client.server_capabilities.resources is not None
        server.remove_resource("a:b")
        assert await listed(client) == []
        assert (await refusal(client, "a:b")).code == not_found(revision)
        assert (await client.request("resources/templates/list"))["resourceTemplates"] == []


# Reading: what a function returns.


@attrs.frozen
class Order:
    title: str
    copies: int


BLOB: Final = base64.b64encode(PNG).decode()
RETURNED: list[tuple[str, Any, list[dict[str, Any]]]] = [
    ("text", "hi", [{"mimeType": "text/plain", "text": "hi"}]),
    ("page.html", "<p>", [{"mimeType": "text/html", "text": "<p>"}]),
    ("page.md?x=1", "# T", [{"mimeType": "text/markdown", "text": "# T"}]),
    ("raw", b"\0\1", [{"mimeType": "application/octet-stream", "blob": "AAE="}]),
    ("raw2", bytearray(b"\0\1"), [{"mimeType": "application/octet-stream", "blob": "AAE="}]),
    ("raw3", memoryview(b"\0\1"), [{"mimeType": "application/octet-stream", "blob": "AAE="}]),
    ("picture", PNG, [{"mimeType": "image/png", "blob": BLOB}]),
    ("object", Order("Dune", 2), [{"mimeType": "application/json", "text": '{"title":"Dune","copies":2}'}]),
    ("nothing", None, [{"mimeType": "application/json", "text": "null"}]),
    ("texts", ["a", "b"], [{"mimeType": "application/json", "text": '["a","b"]'}]),
    ("empty", [], [{"mimeType": "application/json", "text": "[]"}]),
    ("mixed", [1, b"x"], [{"mimeType": "application/json", "text": '[1,"eA=="]'}]),
    (
        "parts",
        ("a", b"\0"),
        [{"mimeType": "text/plain", "text": "a"}, {"mimeType": "application/octet-stream", "blob": "AA=="}],
    ),
]


@pytest.mark.parametrize("revision", ENDS)
async def test_what_a_function_returns_becomes_contents(revision: Revision) -> None:
    """Server/resources, "Resource Contents": text or base64, with the URI; and never nothing at all."""
    server = Server("s")

    def register(path: str, returned: Any) -> None:
        @server.resource(f"x:/{path}")
        async def give() -> Any:
            return returned

    for path, returned, _ in RETURNED:
        register(path, returned)
    async with open_client(server, revision=revision) as client:
        for path, _, contents in RETURNED:
            uri = f"x:/{path}"
            assert await read(client, uri) == [{"uri": uri, **part} for part in contents]


@REVISIONS
async def test_contents_of_the_protocol_are_sent_as_they_are(revision: Revision) -> None:
    """A directory may give several files, each with its own URI (server/resources, "Reading Resources")."""
    server = Server("s")
    text = TextResourceContents(uri="x:a", text="1", meta={"k": 1})
    blob = BlobResourceContents(uri="x:b", blob="AA==", mime_type="x/y")

    @server.resource("x:one")
    async def one() -> TextResourceContents:
        return text

    @server.resource("x:two")
    async def two() -> list[TextResourceContents | BlobResourceContents]:
        return [text, blob]

    @server.resource("x:whole", ttl=5)
    async def whole() -> ReadResourceResult:
        return ReadResourceResult(contents=[blob], ttl_ms=9)

    async with open_client(server, revision=revision) as client:
        first: dict[str, Any] = {"uri": "x:a", "text": "1"}
        if revision >= Revision.V2025_06_18:
            first["_meta"] = {"k": 1}
        second = {"uri": "x:b", "blob": "AA==", "mimeType": "x/y"}
        assert await read(client, "x:one") == [first]
        assert await read(client, "x:two") == [first, second]
        result = await client.request("resources/read", {"uri": "x:whole"})
        assert result["contents"] == [second]
        assert result.get("ttlMs") == (9 if revision.is_modern else None)


async def test_a_type_that_was_given_wins() -> None:
    """Over the name and over the value."""
    server = Server("s")

    @server.resource("x:a.html", mime_type="text/x-mine")
    def text() -> str:
        return ""

    @server.resource("x:object", mime_type="application/vnd.order+json")
    def value() -> Order:
        return Order("Dune", 1)

    @server.resource("x:items/{id}", mime_type="text/x-item")
    def item(id: str) -> str:
        return id

    @server.resource("x:docs/{+path}")
    def doc(path: str) -> str:
        return path

    server.add_resource("x:b.png", b"no png", mime_type="image/x")
    async with open_client(server) as client:
        for uri, kind in [
            ("x:a.html", "text/x-mine"),
            ("x:object", "application/vnd.order+json"),
            ("x:items/1.html", "text/x-item"),
            ("x:docs/a/b.html", "text/html"),
            ("x:docs/a/b", "text/plain"),
            ("x:b.png", "image/x"),
        ]:
            assert (await read_one(client, uri))["mimeType"] == kind


@pytest.mark.parametrize("revision", ENDS)
async def test_constants(revision: Revision) -> None:
    """Text and bytes that need no function."""
    server = Server("s")
    server.add_resource("x:t.txt", "text", name="T", title="Text")
    server.add_resource("x:p", PNG)
    async with open_client(server, revision=revision) as client:
        assert await read_one(client, "x:t.txt") == {"uri": "x:t.txt", "mimeType": "text/plain", "text": "text"}
        assert await read_one(client, "X:p") == {"uri": "x:p", "mimeType": "image/png", "blob": BLOB}


# Reading: how a function is called.


@REVISIONS
async def test_a_function_is_given_the_context_and_reports(revision: Revision) -> None:
    """Reads run like tools: the context by annotation, `def` in a thread, `async def` in the exchange."""
    server = Server("s")
    main = threading.get_ident()

    @server.resource("x:async")
    async def asynchronous(context: Context[Any]) -> str:
        await context.report_progress(1)
        return f"{context.revision} {threading.get_ident() == main}"

    @server.resource("x:{id}/plain")
    def plain(id: int, ctx: Context[Any]) -> str:
        return f"{id} {ctx.method} {threading.get_ident() == main}"

    @server.resource("x:spot", thread=False)
    def on_the_spot(unused: int = 1) -> str:
        return f"{threading.get_ident() == main}"

    progress: list[float] = []
    async with open_client(server, revision=revision) as client:
        result = await client.request(
            "resources/read", {"uri": "x:async"}, on_progress=lambda p: progress.append(p.progress)
        )
        assert result["contents"][0]["text"] == f"{revision} True"
        assert progress == [1]
        assert (await read_one(client, "x:7/plain"))["text"] == "7 resources/read False"
        assert (await read_one(client, "x:spot"))["text"] == "True"


class Size(enum.Enum):
    SMALL = 1
    LARGE = "large"


SMALL: Final = Annotated[int, Field(ge=1, le=9)]
CONVERTED: list[tuple[Any, str, object]] = [
    (str, "7", "7"),
    (int, "7", 7),
    (int, "-7", -7),
    (int, "07", None),
    (int, "7.0", None),
    (int, "x", None),
    (int, "9" * 200, None),
    (SMALL, "9", 9),
    (SMALL, "10", None),
    (float, "7", 7.0),
    (float, "-1.5e3", -1500.0),
    (float, "nan", None),
    (float, "1e999", None),
    (bool, "true", True),
    (bool, "false", False),
    (bool, "1", None),
    (int | str, "7", 7),
    (int | str, "x", "x"),
    (int | None, "7", 7),
    (Size, "1", Size.SMALL),
    (Size, "large", Size.LARGE),
    (Size, "2", None),
    (Literal["a", 2, True], "2", 2),
    (Literal["a", 2, True], "true", True),
    (Literal["a"], "a", "a"),
    (Literal["a"], "b", None),
    (date, "2026-07-28", date(2026, 7, 28)),
    (date, "yesterday", None),
    (Any, "7", "7"),
    (int | date, "2026-07-28", date(2026, 7, 28)),
]


async def test_variables_are_converted_by_hint(subtests: pytest.Subtests) -> None:
    """What does not fit is no resource, and the answer says which variable it is."""

    async def check(hint: Any, text: str, value: object) -> None:
        server = Server("s")
        seen: list[object] = []

        async def take(value: Any) -> str:
            seen.append(value)
            return ""

        take.__annotations__["value"] = hint
        server.resource("x:{value}")(take)
        async with open_client(server) as client:
            if value is None:
                error = await refusal(client, f"x:{text}")
                assert (error.code, error.data) == (-32602, {"uri": f"x:{text}"})
                assert "value: " in error.message
            else:
                await read(client, f"x:{text}")
                assert seen == [value]
                assert type(seen[0]) is type(value)

    for hint, text, value in CONVERTED:
        with subtests.test(hint=hint, text=text, value=value):
            await check(hint, text, value)


async def test_lists_and_what_is_left_out() -> None:
    """Exploded variables are lists; what the URI lacks has its default."""
    server = Server("s")
    seen: list[object] = []

    @server.resource("x:a{/ids*}{?tags*,page,size}")
    async def take(
        ids: list[int] | None = None,
        tags: tuple[str, ...] = (),
        page: int = 1,
        size: Size = Size.SMALL,
        **rest: str,
    ) -> str:
        seen.append((ids, tags, page, size, rest))
        return ""

    @server.resource("y:{pair*}")
    async def pairs(pair: tuple[int, str]) -> str:
        seen.append(pair)
        return ""

    @server.resource("z:{one}{/more}")
    async def anything(**variables: str) -> str:
        seen.append(variables)
        return ""

    async with open_client(server) as client:
        await read(client, "x:a")
        await read(client, "x:a/1/2?size=large&tags=a&page=3&tags=b")
        await read(client, "y:1,2")
        await read(client, "z:1/2")
        assert "ids[1]" in (await refusal(client, "x:a/1/b")).message
    assert seen == [
        (None, (), 1, Size.SMALL, {}),
        ([1, 2], ("a", "b"), 3, Size.LARGE, {}),
        (1, "2"),
        {"one": "1", "more": "2"},
    ]


async def test_statics_come_before_templates_and_templates_in_order() -> None:
    """One URI has one meaning, whatever was registered last."""
    server = Server("s")

    @server.resource("x:{a}")
    async def first(a: str) -> str:
        return f"first {a}"

    @server.resource("x:{+b}")
    async def second(b: str) -> str:
        return f"second {b}"

    @server.resource("x:fixed")
    async def fixed() -> str:
        return "fixed"

    async with open_client(server) as client:
        assert (await read_one(client, "x:fixed"))["text"] == "fixed"
        assert (await read_one(client, "x:f%69xed"))["text"] == "fixed"
        assert (await read_one(client, "x:other"))["text"] == "first other"
        assert (await read_one(client, "x:a/b"))["text"] == "second a/b"


# Errors.


@pytest.mark.parametrize("revision", ENDS)
async def test_what_does_not_exist_is_an_error_with_its_uri(revision: Revision) -> None:
    """2026-07-28, server/resources, "Error Handling": -32602 with the URI; -32002 in the revisions before."""
    server = Server("s")

    @server.resource("x:{id}")
    async def item(id: str) -> str:
        if id == "other":
            raise ResourceNotFound("There is no such order.", uri="x:9")
        raise ResourceNotFound

    async with open_client(server, revision=revision) as client:
        for uri, message, said in [
            ("y:1", "Resource not found", "y:1"),
            ("x:1", "Resource not found", "x:1"),
            ("x:other", "There is no such order.", "x:9"),
        ]:
            error = await refusal(client, uri)
            assert (error.code, error.message, error.data) == (not_found(revision), message, {"uri": said})


@pytest.mark.parametrize("revision", ENDS)
async def test_what_a_function_raises_is_logged_and_masked(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """Server/resources, "Error Handling": -32603 for internal errors; a `RequestError` is the answer itself."""
    server = Server("s")

    @server.resource("x:secret")
    async def secret() -> str:
        raise ValueError("the password is 1234")

    @server.resource("x:own")
    def own() -> str:
        raise RequestError(-1, "mine", {"k": 1})

    @server.resource("x:odd")
    async def odd() -> object:
        return object()

    async with open_client(server, revision=revision) as client:
        for uri in ("x:secret", "x:odd"):
            error = await refusal(client, uri)
            assert (error.code, error.data) == (-32603, {"uri": uri})
            assert "1234" not in error.message
        error = await refusal(client, "x:own")
        assert (error.code, error.message, error.data) == (-1, "mine", {"k": 1})
    assert "the password is 1234" in caplog.text
    assert "x:secret" in caplog.text


@pytest.mark.parametrize("revision", ENDS)
async def test_what_is_no_uri_is_refused(subtests: pytest.Subtests, revision: Revision) -> None:
    """Server/resources, "Security Considerations": all URIs are validated; the error names the field."""

    async def check(uri: object) -> None:
        server = Server("s")
        server.add_resource("x:y", "")

        @server.resource("x:{+any}")
        async def anything(any: str) -> str:
            return ""

        async with open_client(server, revision=revision) as client:
            error = await refusal(client, uri)
            assert error.code == -32602
            assert "uri" in error.message

    uris: list[object] = ["", "relative/path", "x:a b", "x:é", "x:%zz", "x:a[b", "x:" + "y" * 8_192, 7]
    for uri in uris:
        with subtests.test(uri=uri):
            await check(uri)


async def test_reading_takes_no_longer_than_allowed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A named limit; the function is cancelled, its cleanup runs, and the answer says how long it had."""
    server = Server("s")
    ended: list[float] = []

    @server.resource("x:slow", timeout=3)
    async def slow() -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    @server.resource("x:{id}", timeout=3)
    async def quick(id: str) -> str:
        await trio.sleep(2)
        return id

    async with open_client(server) as client:
        error = await refusal(client, "x:slow")
        assert (error.code, error.data) == (-32603, {"uri": "x:slow"})
        assert "3 s" in error.message
        assert (await read_one(client, "x:a"))["text"] == "a"
    assert ended == [3]
    assert "longer than 3 s" in caplog.text


async def test_a_read_that_is_given_up_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """The cancellation contract holds for resources as it does for tools."""
    server = Server("s")
    ended: list[str] = []

    @server.resource("x:slow")
    async def slow() -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("slow")

    async with open_client(server) as client:
        with trio.move_on_after(1) as scope:
            await read(client, "x:slow")
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert ended == ["slow"]


@pytest.mark.parametrize("revision", ENDS)
async def test_how_long_what_was_read_is_fresh(revision: Revision) -> None:
    """2026-07-28, server/utilities/caching: on complete results of `resources/read`; nothing of it before."""
    server = Server("s")
    server.add_resource("x:a", "", ttl=1.5, scope="public")
    server.add_resource("x:b", "")

    @server.resource("x:c/{id}", ttl=60)
    async def item(id: str) -> str:
        return id

    async with open_client(server, revision=revision) as client:
        found: list[tuple[object, object]] = []
        for uri in ("x:a", "x:b", "x:c/1"):
            result = await client.request("resources/read", {"uri": uri})
            found.append((result.get("ttlMs"), result.get("cacheScope")))
    if revision.is_modern:
        assert found == [(1500, "public"), (0, "private"), (60_000, "private")]
    else:
        assert found == [(None, None)] * 3


# Registering.


def one(id: str) -> str:
    return id


def two(a: str, b: str = "") -> str:
    return a + b


def nothing() -> str:
    return ""


@attrs.frozen
class Tree:
    children: list[Tree]


def of_tree(tree: Tree) -> str:
    return str(tree)


def of_order(order: Order) -> str:
    return order.title


def test_functions_and_uris_must_agree(subtests: pytest.Subtests) -> None:
    """A mistake shows when the program starts, and says what to change."""
    rows: list[tuple[str, Callable[..., str], str]] = [
        ("x:{wrong}", one, "no parameter for the variable 'wrong'"),
        ("x:{a}", one, "no parameter for the variable 'a'"),
        ("x:y{?a}", two, "may lack 'a'"),
        ("x:{b}", two, "no variable gives the parameter 'a'"),
        ("x:y", one, "no variable gives the parameter 'id'"),
        ("x:{ids}", many, r"write \{ids\*\}"),
        ("x:{id*}", one, "is no list"),
        ("x:{tree}", of_tree, "is an object"),
        ("x:{order}", of_order, "is an object"),
        ("x:{order*}", of_order, "is no list"),
        ("x:{a}-{b}", two, "cannot be matched"),
    ]
    for uri, function, reason in rows:
        with subtests.test(uri=uri, function=function, reason=reason), pytest.raises(ValueError, match=reason):
            Server("s").resource(uri)(function)


def test_what_is_no_uri_cannot_be_registered(subtests: pytest.Subtests) -> None:
    """Server/resources, "Custom URI Schemes": in accordance with RFC 3986."""
    uris: list[str] = ["", "relative", "x:a b", "{id", "relative/{id}", "x y:{id}", "x:" + "y" * 9000]
    for uri in uris:
        with subtests.test(uri=uri):
            server = Server("s")
            with pytest.raises(ValueError, match=r".+"):
                server.resource(uri)
            with pytest.raises(ValueError, match=r".+"):
                server.add_resource(uri, "")


def test_a_template_may_be_of_any_scheme() -> None:
    """A server that mirrors other resources knows none beforehand."""
    server = Server("s")

    @server.resource("{+uri}")
    async def mirror(uri: str) -> str:
        return uri

    assert mirror.__name__ == "mirror"


@pytest.mark.parametrize(
    "options",
    [{"ttl": -1}, {"ttl": float("inf")}, {"scope": "shared"}, {"timeout": 0}, {"timeout": -1}],
)
def test_options_out_of_bounds_are_refused(options: dict[str, Any]) -> None:
    """By name."""
    with pytest.raises(ValueError, match=next(iter(options))):
        Server("s").resource("x:y", **options)(nothing)


def test_a_template_has_no_size() -> None:
    """Server/resources: the wire has no place for it."""
    with pytest.raises(ValueError, match="size"):
        Server("s").resource("x:{id}", size=1)


def test_a_uri_is_registered_once() -> None:
    """However it is spelled."""
    server = Server("s")
    server.add_resource("x:a", "")
    server.resource("x:{id}")(one)
    with pytest.raises(ValueError, match="already"):
        server.resource("X:%61")(nothing)
    with pytest.raises(ValueError, match="already"):
        server.resource("x:{id}")(one)


async def test_removing_and_hiding() -> None:
    """What is hidden keeps its place, and is not given by a template behind it."""
    server = Server("s")
    changes: list[str] = []
    server._application.resources.entries.on_change = lambda: changes.append("changed")
    server.add_resource("x:a", "A")
    server.add_resource("x:b", "B")
    server.resource("x:{id}")(one)
    assert changes == ["changed"] * 3
    async with open_client(server) as client:
        server.disable_resource("x:a")
        server.disable_resource("x:a")
        assert len(changes) == 4
        assert await listed(client) == ["x:b"]
        await refusal(client, "x:a")
        server.enable_resource("X:a")
        assert len(changes) == 5
        assert await listed(client) == ["x:a", "x:b"]
        server.disable_resource("x:{id}")
        assert (await client.request("resources/templates/list"))["resourceTemplates"] == []
        await refusal(client, "x:c")
        server.remove_resource("x:{id}")
        assert len(changes) == 6  # nobody has seen it go
        server.remove_resource("x:a")
        assert len(changes) == 7
        server.add_resource("x:a", "again")
        assert await listed(client) == ["x:b", "x:a"]
    for act in (server.remove_resource, server.enable_resource, server.disable_resource):
        with pytest.raises(LookupError, match="x:none"):
            act("x:none")


def test_it_is_known_what_may_be_read() -> None:
    """Who subscribes to a resource names one."""
    server = Server("s")
    server.add_resource("x:a", "")
    server.resource("y:{id}")(one)
    server.add_directory("/nowhere", uri="z:///")
    knows = server._application.resources.knows
    assert knows("x:a")
    assert knows("X:%61")
    assert knows("y:1")
    assert knows("z:///a/b")
    assert not knows("x:b")
    assert not knows("y:1/2")
    assert not knows("z:///../a")
    assert not knows("y:" + "1" * 8_192)
    server.disable_resource("x:a")
    assert not knows("x:a")


async def test_a_handler_of_ones_own_takes_the_place() -> None:
    """The low level is always within reach."""
    server = Server("s")

    @server.request_handler("resources/list")
    async def mine(params: object, context: object) -> dict[str, object]:
        return {"resources": [{"uri": "x:mine", "name": "mine"}]}

    async with open_client(server, revision="2025-11-25") as client:
        assert await listed(client) == ["x:mine"]
        assert client.server_capabilities is not None
        assert client.server_capabilities.resources is not None


async def test_every_page_tells_what_has_changed_meanwhile() -> None:
    """What is listed is kept between pages, but for no longer than it is true."""
    server = Server("s", page_size=2)
    for number in range(4):
        server.add_resource(f"a://{number}", "text")
    async with open_client(server, cache=None) as client:
        first = await client.request("resources/list")
        assert [resource["uri"] for resource in first["resources"]] == ["a://0", "a://1"]
        server.disable_resource("a://2")
        server.remove_resource("a://0")
        server.add_resource("a://4", "text")
        second = await client.request("resources/list", {"cursor": first["nextCursor"]})
        assert [resource["uri"] for resource in second["resources"]] == ["a://3", "a://4"]
        server.enable_resource("a://2")
        assert await listed(client) == ["a://1", "a://2"]
