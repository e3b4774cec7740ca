"""What a page may send its host, what is answered, and what is refused: without a page and without a server."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import AppCsp, AppPage, AppPermissions, AppView, ViewAsk
from trio_mcp.types import Tool

PAGE = AppPage(
    uri="ui://clock",
    html="<!doctype html>",
    csp=AppCsp(connect=("https://a.example",)),
    permissions=AppPermissions(camera=True),
)
OFFERS = ("ui/open-link", "ui/message", "ui/update-model-context", "ui/request-display-mode")


def tool(name: str, *visibility: str) -> Tool:
    meta = {"ui": {"visibility": list(visibility)}} if visibility else None
    return Tool(name=name, input_schema={"type": "object"}, meta=meta)


TOOLS = (tool("both"), tool("shown", "app"), tool("hidden", "model"))


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def notification(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


HELLO = request(
    "ui/initialize", {"appCapabilities": {}, "appInfo": {"name": "x"}, "protocolVersion": "2026-01-26"}, 0
)
READY = notification("ui/notifications/initialized")


def shown(**options: Any) -> AppView:
    """Return a view whose page has begun."""
    view = AppView(page=PAGE, tools=TOOLS, **options)
    view.received(HELLO)
    view.received(READY)
    assert view.is_initialized
    return view


def error_of(view: AppView, message: Any) -> dict[str, Any]:
    outcome = view.received(message)
    assert outcome.ask is None
    assert outcome.problem
    (sent,) = outcome.send
    assert sent["id"] == message["id"]
    error: dict[str, Any] = sent["error"]
    return error


def test_a_page_is_introduced_to_its_host() -> None:
    """SEP-1865, "Host Context in McpUiInitializeResult", "Host Capabilities"."""
    view = AppView(page=PAGE, tool=TOOLS[0], host=("h", "1"), offers=["ui/open-link"], context={"theme": "dark"})
    outcome = view.received(HELLO)
    (answer,) = outcome.send
    result = answer["result"]
    assert answer["id"] == 0
    assert result["protocolVersion"] == "2026-01-26"
    assert result["hostInfo"] == {"name": "h", "version": "1"}
    assert result["hostCapabilities"] == {
        "serverTools": {},
        "serverResources": {},
        "logging": {},
        "openLinks": {},
        "sandbox": {"permissions": {"camera": {}}, "csp": {"connectDomains": ["https://a.example"]}},
    }
    assert result["hostContext"]["theme"] == "dark"
    assert result["hostContext"]["displayMode"] == "inline"
    assert result["hostContext"]["toolInfo"]["tool"]["name"] == "both"
    early = view.is_initialized
    outcome = view.received(READY)
    assert (early, view.is_initialized) == (False, True)
    assert outcome.ask == ViewAsk("ui/notifications/initialized", {})


def test_nothing_is_sent_before_the_page_is_ready() -> None:
    """SEP-1865, "Sandbox proxy", item 6: not before `initialized`; the input comes before the result."""
    view = AppView(page=PAGE)
    assert view.tool_input({"a": 1}, partial=True) == []
    assert view.tool_input({"a": 12}) == []
    assert view.tool_result({"content": [], "resultType": "complete"}) == []
    assert view.received(READY).problem  # not introduced yet
    view.received(HELLO)
    assert view.context_changed({"theme": "dark"}) == []
    assert view.context_changed({"locale": "de"}) == []
    sent = view.received(READY).send
    assert [message["method"].rpartition("/")[2] for message in sent] == [
        "host-context-changed",
        "tool-input",
        "tool-result",
    ]
    assert sent[0]["params"] == {"theme": "dark", "locale": "de"}
    assert sent[1]["params"] == {"arguments": {"a": 12}}
    assert sent[2]["params"] == {"content": []}
    assert view.received(READY).problem
    (changed,) = view.context_changed({"theme": "light"})
    assert changed["params"] == {"theme": "light"}


def test_a_call_has_its_input_once_and_one_end() -> None:
    view = shown()
    with pytest.raises(ValueError, match="comes first"):
        view.tool_result({})
    assert len(view.tool_input({}, partial=True)) == 1
    assert len(view.tool_input({})) == 1
    for again in (True, False):
        with pytest.raises(ValueError, match="once"):
            view.tool_input({}, partial=again)
    (message,) = view.tool_cancelled("the user")
    assert message["params"] == {"reason": "the user"}
    with pytest.raises(ValueError, match="one end"):
        view.tool_result({})


def test_a_page_calls_the_tools_of_its_own_server_that_are_for_apps() -> None:
    """SEP-1865, "Visibility"."""
    view = shown()
    for name in ("both", "shown"):
        outcome = view.received(request("tools/call", {"name": name, "arguments": {"a": 1}}, name))
        assert outcome.ask == ViewAsk("tools/call", {"name": name, "arguments": {"a": 1}}, name)
        assert outcome.send == ()
        assert outcome.ask is not None
        assert view.answer(outcome.ask, {"content": []}) == {
            "jsonrpc": "2.0",
            "id": name,
            "result": {"content": []},
        }
    assert error_of(view, request("tools/call", {"name": "hidden"}))["code"] == -32000
    assert "no tool" in error_of(view, request("tools/call", {"name": "another server's"}))["message"]


def test_what_a_page_may_not_send_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        request("tools/list"),
        request("initialize", {}),
        request("sampling/createMessage", {}),
        request("resources/list"),
        request("ui/notifications/sandbox-resource-ready", {}),
        request("ui/open-link", {"url": "https://a.example"}),  # not offered
        request("tools/call", {}),
        request("tools/call", {"name": 7}),
        request("tools/call", {"name": "both", "arguments": []}),
        request("tools/call", []),
        request("tools/call", "x"),
        request("resources/read", {"uri": None}),
        HELLO,
    ]
    for message in cases:
        with subtests.test(message=message):
            view = shown()
            assert error_of(view, message)["code"] in {-32600, -32601, -32602}
            assert view.received(request("ping")).send == ({"jsonrpc": "2.0", "id": 1, "result": {}},)


def test_what_does_not_fit_is_refused() -> None:
    cases: list[tuple[str, Any]] = [
        ("ui/open-link", {"url": "javascript:alert(1)"}),
        ("ui/open-link", {"url": "file:///etc/passwd"}),
        ("ui/open-link", {"url": "https://user:word@a.example"}),
        ("ui/open-link", {"url": "https://a.example\\@b.example"}),
        ("ui/open-link", {}),
        ("ui/message", {"role": "assistant", "content": {"type": "text", "text": "x"}}),
        ("ui/message", {"role": "user", "content": "x"}),
        ("ui/message", {"role": "user", "content": ["x"]}),
        ("ui/update-model-context", {"content": {}}),
        ("ui/update-model-context", {"structuredContent": []}),
        ("ui/request-display-mode", {"mode": "everywhere"}),
    ]
    for params in cases:
        assert error_of(shown(offers=OFFERS), request(*params))["code"] == -32602


ASKED: list[tuple[str, dict[str, object]]] = [
    ("ui/open-link", {"url": "https://a.example/x"}),
    ("ui/message", {"role": "user", "content": {"type": "text", "text": "x"}}),
    ("ui/message", {"role": "user", "content": [{"type": "text", "text": "x"}]}),
    ("ui/update-model-context", {}),
    ("ui/update-model-context", {"content": [{}], "structuredContent": {"a": 1}}),
    ("resources/read", {"uri": "ui://clock"}),
]


@pytest.mark.parametrize(("method", "params"), ASKED)
def test_what_a_host_offers_it_is_asked_for(method: str, params: Any) -> None:
    view = shown(offers=OFFERS)
    ask = view.received(request(method, params)).ask
    assert ask == ViewAsk(method, params, 1)
    assert ask is not None
    assert view.refuse(ask, "no") == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}}
    with pytest.raises(ValueError, match="answered before"):
        view.answer(ask)


def test_a_mode_is_changed_only_to_what_both_know() -> None:
    """SEP-1865, "Display Modes": the mode that there is now is the answer to others."""
    view = AppView(page=PAGE, offers=OFFERS, context={"availableDisplayModes": ["inline", "fullscreen"]})
    capabilities = {"availableDisplayModes": ["inline", "fullscreen", "pip"]}
    view.received(request("ui/initialize", {"appCapabilities": capabilities}, 0))
    view.received(READY)
    wish = request("ui/request-display-mode", {"mode": "pip"})
    assert view.received(wish).send[0]["result"] == {"mode": "inline"}
    ask = view.received(request("ui/request-display-mode", {"mode": "fullscreen"})).ask
    assert ask is not None
    assert view.answer(ask, {"mode": "fullscreen"})["result"] == {"mode": "fullscreen"}
    assert view.display_mode == "fullscreen"
    ask = view.received(request("ui/request-display-mode", {"mode": "inline"})).ask
    assert ask is not None
    assert view.answer(ask)["result"] == {"mode": "fullscreen"}, "the host has not changed it"


def test_what_is_no_message_is_ignored_with_a_reason(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        b"",
        "{",
        "[]",
        "7",
        '{"jsonrpc":"1.0","method":"ping","id":1}',
        '{"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","method":7,"id":1}',
        '{"jsonrpc":"2.0","method":"ping","id":null}',
        '{"jsonrpc":"2.0","method":"ping","id":true}',
        '{"jsonrpc":"2.0","method":"ping","id":[1]}',
        '{"jsonrpc":"2.0","method":"ping","id":"' + "x" * 200 + '"}',
        '{"jsonrpc":"2.0","id":"teardown","result":{}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}',
        '{"jsonrpc":"2.0","method":"ui/notifications/sandbox-resource-ready","params":{}}',
        "[" * 100_000,
        '{"a":' * 50_000,
        {"jsonrpc": "2.0", "method": "ping", "id": 1, "params": float("nan")},
        {"jsonrpc": "2.0", "method": "ping", "id": 1, "params": object()},
        {"jsonrpc": "2.0", "method": "ping", "id": 10**5_000},
        {"jsonrpc": "2.0", "method": "ping", "id": 1.5},
        "\ud800",
    ]
    for message in cases:
        with subtests.test(message=message):
            outcome = shown().received(message)
            assert outcome.problem
            assert (outcome.send, outcome.ask) == ((), None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
METHODS = [*OFFERS, "tools/call", "resources/read", "ui/initialize", "ping", "ui/notifications/size-changed"]
MEMBERS = ["name", "arguments", "uri", "url", "role", "content", "mode", "appCapabilities", "width"]
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(METHODS) | JSON},
    optional={"id": JSON, "params": JSON | st.dictionaries(st.sampled_from(MEMBERS), JSON)},
)


@given(st.lists(MESSAGES | JSON.filter(lambda value: isinstance(value, dict)), max_size=5), st.booleans())
def test_nothing_that_a_page_sends_breaks_its_host(messages: list[Any], begun: bool) -> None:
    """Each message is answered, asked for, or has a problem; and what is asked for can be answered, once."""
    view = shown(offers=OFFERS) if begun else AppView(page=PAGE, tools=TOOLS, offers=OFFERS)
    for message in messages:
        outcome = view.received(message)
        assert outcome.send or outcome.ask or outcome.problem
        if outcome.ask is not None and outcome.ask.id is not None:
            assert view.answer(outcome.ask)["id"] == message["id"]


def test_requests_before_the_introduction_are_refused() -> None:
    view = AppView(page=PAGE, tools=TOOLS)
    assert error_of(view, request("tools/call", {"name": "both"}))["code"] == -32600
    assert view.received(request("ping")).send[0]["result"] == {}
    assert error_of(view, request("ui/initialize", {}))["code"] == -32602
    assert view.received(notification("ui/notifications/size-changed", {"width": 1})).ask is None


def test_a_page_costs_no_more_than_its_limits() -> None:
    view = shown(max_open_requests=3, max_message_bytes=1_000)
    asks = [view.received(request("tools/call", {"name": "both"}, number)).ask for number in range(3)]
    assert "max_open_requests" in error_of(view, request("tools/call", {"name": "both"}, 3))["message"]
    assert asks[0] is not None
    view.answer(asks[0])
    assert view.received(request("tools/call", {"name": "both"}, 3)).ask is not None
    assert error_of(view, request("tools/call", {"name": "both"}, 3))["message"] == "another request has this id"
    large = request("ping", {"x": "y" * 1_000})
    for message in (large, json.dumps(large), json.dumps(large).encode()):
        assert "max_message_bytes, 1000" in (view.received(message).problem or "")
    for name in ("max_open_requests", "max_message_bytes"):
        with pytest.raises(ValueError, match=name):
            AppView(page=PAGE, **cast("Any", {name: 0}))
    with pytest.raises(ValueError, match="offers takes"):
        AppView(page=PAGE, offers=["tools/list"])


def test_sizes_are_numbers_within_reason() -> None:
    view = shown()
    outcome = view.received(notification("ui/notifications/size-changed", {"width": 1e9, "height": "7"}))
    assert outcome.ask == ViewAsk("ui/notifications/size-changed", {"width": 100_000})
    log = notification("notifications/message", {"level": "info", "data": "x"})
    assert view.received(log).ask == ViewAsk("notifications/message", log["params"])


def test_the_sandbox_gets_the_page_once() -> None:
    """SEP-1865, "Sandbox proxy", item 4."""
    view = AppView(page=PAGE)
    ready = notification("ui/notifications/sandbox-proxy-ready", {})
    (message,) = view.received(ready).send
    assert message["method"] == "ui/notifications/sandbox-resource-ready"
    assert message["params"] == {
        "html": "<!doctype html>",
        "sandbox": "allow-scripts",
        "csp": {"connectDomains": ["https://a.example"]},
        "permissions": {"camera": {}},
    }
    assert view.received(ready).problem
    (message,) = AppView(page=PAGE, sandbox="allow-scripts allow-forms").received(ready).send
    assert message["params"]["sandbox"] == "allow-scripts allow-forms"


def test_a_page_is_told_before_it_goes() -> None:
    """SEP-1865, `ui/resource-teardown`."""
    view = shown()
    (message,) = view.teardown("closed")
    assert (message["method"], message["params"]) == ("ui/resource-teardown", {"reason": "closed"})
    assert view.teardown("again") == []
    early = view.has_ended
    view.received({"jsonrpc": "2.0", "id": message["id"], "result": {}})
    assert (early, view.has_ended) == (False, True)
    assert error_of(view, request("tools/call", {"name": "both"}))["message"] == "the page has ended"
    young = AppView(page=PAGE)
    assert young.teardown("closed") == []
    assert young.has_ended
