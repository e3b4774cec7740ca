"""What a URL says, and which URLs are refused."""

from __future__ import annotations

import traceback

import pytest
from inside_http import HttpRequest, open_http_client, parse_target
from inside_parsers import shown_url

from trio_mcp import ConnectionLost, HttpServerParameters, HttpSettings, open_client


def test_a_url_is_taken_apart(subtests: pytest.Subtests) -> None:
    """RFC 3986, and what `Host` wants of it (RFC 9110, section 7.2)."""
    rows: list[tuple[str, str, str, str]] = [
        ("http://localhost:8000/mcp", "localhost:8000", "/mcp", "http://localhost:8000"),
        ("http://example.com", "example.com", "/", "http://example.com"),
        ("https://example.com:443/", "example.com", "/", "https://example.com"),
        ("http://example.com:443/", "example.com:443", "/", "http://example.com:443"),
        ("HTTPS://EXAMPLE.com/A?b=C#d", "example.com", "/A?b=C", "https://example.com"),
        ("http://example.com?x=1", "example.com", "/?x=1", "http://example.com"),
        ("http://[::1]:8000/mcp", "[::1]:8000", "/mcp", "http://[::1]:8000"),
        ("http://[2001:DB8:0:0::1]/", "[2001:db8::1]", "/", "http://[2001:db8::1]"),
        ("http://[fe80::1%25eth0]/", "[fe80::1]", "/", "http://[fe80::1%25eth0]"),
        ("http://[fe80::1%2510]:81/", "[fe80::1]:81", "/", "http://[fe80::1%2510]:81"),
        (
            "http://bücher.example/ü?q=ß",
            "xn--bcher-kva.example",
            "/%C3%BC?q=%C3%9F",
            "http://xn--bcher-kva.example",
        ),
        ("http://example.com/a%20b/%C3%BC?x=%2F", "example.com", "/a%20b/%C3%BC?x=%2F", "http://example.com"),
        ("http://my_host.internal./x", "my_host.internal.", "/x", "http://my_host.internal."),
        ("http+unix://%2Frun%2Fmcp.sock/mcp?x", "localhost", "/mcp?x", "http+unix://%2Frun%2Fmcp.sock"),
    ]
    for url, authority, path, origin in rows:
        with subtests.test(url=url):
            target = parse_target(url)
            assert (target.authority, target.path, target.address) == (authority, path, origin)
            assert target.is_secure == url.lower().startswith("https")
            assert parse_target(target.url) == target


def test_a_unix_socket_is_found_by_its_path() -> None:
    assert parse_target("http+unix://%2Ftmp%2FMy%20Dir%2Fa.sock/").socket_path == "/tmp/My Dir/a.sock"
    assert parse_target("http://example.com/").socket_path is None


def test_a_url_that_cannot_be_asked_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "", "example.com/mcp", "/mcp", "ftp://example.com/", "ws://example.com/", "http://", "http:///mcp",
        "http://user@example.com/", "http://user:hunter2@example.com/", "http://@example.com/",
        "http://example.com:0/", "http://example.com:65536/", "http://example.com:x/",
        "http://exa mple.com/", "http://example.com/a b", "http://example.com/\r\nX: y", "http://example.com\\@evil/",
        "http://[::1/", "http://[::g]/", "http://[127.0.0.1]/", "http://ex%61mple.com/", "http://a..b/",
        "http://" + "a" * 64 + "ü.example/", "http://" + "a." * 130 + "b/", "http+unix:///mcp", "http+unix://%00/",
        "http://例え。..テスト/", "http://" + "a" * 64 + "/mcp", "http://a." + "b" * 64 + ".c/", "http://a/\ud800",
    ]  # fmt: skip
    for url in rows:
        with subtests.test(url=url):
            with pytest.raises(ValueError, match=r"\S") as caught:
                parse_target(url)
            assert "hunter2" not in str(caught.value)


def test_no_secret_of_a_url_is_repeated(subtests: pytest.Subtests) -> None:
    """Errors go to logs; a password may hold the characters that end a host, and queries hold keys and tokens."""
    rows: list[str] = [
        "http://user:hunter2@example.com/", "http://user:se#hunter2@example.com/", "http://user:se/hunter2@example.com",
        "http://user:se?hunter2@example.com/", "http://[hunter2@example.com/", "ftp://user:hunter2@example.com/",
        "http://user:hunter2@example.com:x/", "http://example.com:x/?token=hunter2", "http://e x/?token=hunter2",
        "http://exa..mple.com/#hunter2", "http://[::g]/?hunter2", "ftp://example.com/?token=hunter2",
        "http+unix:///mcp?token=hunter2", "http://\u2100hunter2@example.com/", "hunter2@example.com",
    ]  # fmt: skip
    for url in rows:
        with subtests.test(url=url):
            with pytest.raises(ValueError, match=r"\S") as caught:
                HttpServerParameters(url)
            assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_what_is_shown_of_a_server_has_no_secrets() -> None:
    """A configuration that is logged must not put its keys there."""
    parameters = HttpServerParameters("https://example.com/mcp?key=hunter2", headers={"Authorization": "hunter2"})
    assert repr(parameters).startswith("HttpServerParameters(url='https://example.com/mcp?…'")
    request = HttpRequest(method="POST", target=parameters.target, headers=((b"x", b"hunter2"),), body=b"hunter2")
    for shown in (parameters, parameters.target, request, HttpSettings(proxy="http://user:hunter2@proxy:1")):
        assert "hunter2" not in repr(shown)
    assert parameters.url.endswith("?key=hunter2")


# As in `http_proxy`, where people write their passwords as they are.
async def test_a_proxys_password_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """A `#`, `?` or `/` in it ended the host for us, and the rest was shown as the host's port."""
    rows: list[str] = [
        "http://user:se#hunter2@proxy:3128", "http://user:se/hunter2@proxy:3128", "http://user:se?hunter2@proxy:3128",
        "user:se#hunter2@proxy:3128", "user:hunter2", "http://user:hunter2", "http://user:hunter2@", "hunter2@proxy:x",
        "http://user:[hunter2@proxy:3128", "http://user:]hunter2@proxy:3128", "socks5://user:hunter2@proxy:3128",
        "http://user:hunter2@pro xy", "http://user:hunter2@proxy:3128x", "http://\u2100hunter2@proxy:3128",
        "http://user:hunter2@[::g]:3128", "http://user:hun@ter2/x@proxy",
    ]  # fmt: skip
    for url in rows:
        with subtests.test(url=url):
            await look_for_the_password(url, monkeypatch)


async def look_for_the_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this for the proxy, in both ways, and look at what is said of it."""
    with pytest.raises(ValueError, match=r"\S") as refused:
        HttpSettings(proxy=url)
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.delenv("no_proxy", raising=False)
    async with open_http_client() as client:
        with pytest.raises(ConnectionLost) as lost:
            await client.send(HttpRequest(method="GET", target=parse_target("http://example.invalid/")))
    for error in (refused.value, lost.value):
        told = "".join(traceback.format_exception(error))
        for part in ("hunter2", "se#", "se?", "hun@", "ter2"):
            assert part not in told, told


def test_references_are_resolved(subtests: pytest.Subtests) -> None:
    """RFC 3986, section 5."""
    rows: list[tuple[str, str]] = [
        ("/mcp/", "http://example.com:8000/mcp/"),
        ("mcp/?a=b", "http://example.com:8000/v1/mcp/?a=b"),
        ("?a", "http://example.com:8000/v1/x?a"),
        ("//other.example/x", "http://other.example/x"),
        ("https://example.com:8000/", "https://example.com:8000/"),
    ]
    for reference, url in rows:
        with subtests.test(reference=reference, url=url):
            assert parse_target("http://example.com:8000/v1/x?y").join(reference).url == url


def test_references_are_resolved_on_a_unix_socket() -> None:
    """The socket stays; a whole URL elsewhere is elsewhere."""
    target = parse_target("http+unix://%2Fa.sock/v1/x")
    assert target.join("/y?z").url == "http+unix://%2Fa.sock/y?z"
    assert target.join("y").path == "/v1/y"
    assert target.join("http://example.com/y").address == "http://example.com"


def test_a_reference_that_is_no_url_is_refused() -> None:
    for reference in ("http://user@example.com/", "javascript:x", "http://[::/"):
        with pytest.raises(ValueError, match=r"\S"):
            parse_target("http://example.com/").join(reference)


async def test_a_host_that_no_name_can_have_is_named(subtests: pytest.Subtests) -> None:
    """Before anybody is asked for its address; and what was given is quoted, not what it is read as."""
    for scheme in ("http", "wss", "tcp", "TLS"):
        with subtests.test(scheme=scheme):
            url = f"{scheme}://{'a' * 64}.example:8000"
            with pytest.raises(ValueError, match="at most 63 characters, not 64") as caught:
                async with open_client(url):
                    pass
            assert url in str(caught.value)


async def test_half_a_character_is_in_no_url(subtests: pytest.Subtests) -> None:
    """What cannot be written in UTF-8 is told by the error that all other URLs have."""
    rows: list[str] = ["unix:///\ud800", "http+unix://%2Fa/\ud800", "tcp://\ud800:80", "ws://a/\ud800"]
    for url in rows:
        with subtests.test(url=url):
            with pytest.raises(ValueError, match=r"ud800") as caught:
                async with open_client(url):
                    pass
            assert not isinstance(caught.value, UnicodeError)


async def test_an_unknown_scheme_is_told_with_all_that_are_known() -> None:
    """And of a long URL only the beginning is quoted."""
    with pytest.raises(
        ValueError, match=r"http, https, http\+unix, ws, wss, ws\+unix, tcp, tls or unix"
    ) as caught:
        async with open_client("gopher://example.com/" + "x" * 5_000):
            pass
    assert len(str(caught.value)) < 1_000


def test_no_password_is_shown() -> None:
    """Also where a URL has no scheme, and another URL in it has one."""
    rows: list[tuple[str, str]] = [
        ("https://me:hunter2@example.com/a", "https://…"),
        ("me:hunter2@example.com/back?to=https://example.com/", "…"),
        ("me:hunter2@://", "…"),
        ("https://example.com/a?key=hunter2#b", "https://example.com/a?…"),
    ]
    for url, shown in rows:
        assert shown_url(url) == shown
