"""Ways to log in beside a browser of this machine, clients that are a URL, and servers at a Unix socket."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import trio
import trio.testing
from inside_oauth import (
    AuthorizationServerMetadata,
    check_metadata_document,
    metadata_document,
    open_listener,
    read_device_code,
)
from oauth_script import ORIGIN, ProtectedScript, oauth

from trio_mcp import (
    AuthorizationFailed,
    DeviceCode,
    OAuth,
    PrivateKeyJwt,
    open_client,
)

# Codes to enter elsewhere.


def device(script: ProtectedScript, answers: list[tuple[int, Any]], **changes: Any) -> None:
    """Let a script give a code, and answer so when it is asked whether that was entered."""
    code = {
        "device_code": "d3vice-code-of-a-login",
        "user_code": "ABCD-EFGH",
        "verification_uri": f"{ORIGIN}/device",
        "expires_in": 100,
        "interval": 7,
        **changes,
    }
    script.server["device_authorization_endpoint"] = f"{ORIGIN}/device_authorization"
    script.answers["/device_authorization"] = [(200, code)]
    script.answers["/token"] = answers


PENDING = (400, {"error": "authorization_pending"})
SLOWER = (400, {"error": "slow_down"})
GIVEN = (200, {"access_token": "access-1", "token_type": "Bearer", "refresh_token": "refresh-1"})


async def test_a_person_enters_a_code_at_another_machine(autojump_clock: trio.testing.MockClock) -> None:
    script = ProtectedScript()
    script.tokens["access-1"] = frozenset()
    device(script, [PENDING, SLOWER, (503, {}), PENDING, GIVEN])
    shown: list[DeviceCode] = []
    times: list[float] = []

    async def show(code: DeviceCode) -> None:
        shown.append(code)
        await trio.sleep_forever()  # as a window does that is open for so long

    async def note() -> None:
        await trio.lowlevel.checkpoint()
        times.append(trio.current_time())

    script.before["/token"] = note
    async with open_client(
        script.parameters(), auth=oauth(script, show_code=show), request_timeout=5.0
    ) as client:
        await client.call_tool("one")
    (code,) = shown
    assert str(code) == f"To log in, open {ORIGIN}/device and enter the code ABCD-EFGH"
    assert "d3vice" not in repr(code)
    assert [round(after - before) for before, after in itertools.pairwise(times)] == [7, 12, 24, 24]
    (begun,) = script.at("/device_authorization")
    assert (begun.form["client_id"], begun.form["scope"]) == ("client-1", "mcp")
    assert begun.form["resource"] == script.url
    (registered,) = script.at("/register")
    assert registered.form["grant_types"] == ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]
    assert registered.form["redirect_uris"] == []
    asked = script.at("/token")[-1].form
    assert asked["grant_type"] == "urn:ietf:params:oauth:grant-type:device_code"
    assert asked["device_code"] == "d3vice-code-of-a-login"
    assert not script.pages


async def test_why_a_code_may_be_in_vain(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    rows: list[tuple[list[tuple[int, Any]], dict[str, Any], str]] = [
        ([(400, {"error": "access_denied"})], {}, r"refused a token \(access_denied\)$"),
        ([(400, {"error": "expired_token"})], {}, r"refused a token \(expired_token\)$"),
        ([PENDING] * 99, {}, r"^nobody has entered the code .* in time \(login_timeout: 300 s\)$"),
        (
            [PENDING] * 99,
            {"expires_in": 1e9},
            r"^nobody has entered the code .* in time \(login_timeout: 300 s\)$",
        ),
        ([(200, {"access_token": "x"})], {}, "of the type"),
        ([], {"user_code": "x" * 101}, "no code that a person could enter$"),
        ([], {"user_code": "a\nb"}, "no code that a person could enter$"),
        ([], {"user_code": 7}, "no code that a person could enter$"),
        ([], {"device_code": ""}, "no code that a person could enter$"),
        ([], {"expires_in": None}, "no code that a person could enter$"),
        ([], {"expires_in": -1}, "no code that a person could enter$"),
        ([], {"verification_uri": "javascript:alert(1)"}, "cannot be used"),
        ([], {"verification_uri": "http://login.example/device"}, "not https"),
        ([], {"verification_uri_complete": "http://login.example/device"}, "not https"),
    ]
    for answers, changes, problem in rows:
        with subtests.test(answers=answers, changes=changes, problem=problem):
            script = ProtectedScript()
            device(script, answers, **changes)
            with pytest.raises(AuthorizationFailed, match=problem) as failed:
                async with open_client(
                    script.parameters(), auth=oauth(script, show_code=show_nothing), era="modern"
                ):
                    pass
            assert "d3vice" not in str(failed.value)


async def show_nothing(code: DeviceCode) -> None:
    await trio.lowlevel.checkpoint()
    assert code.user_code


async def test_who_shows_a_code_may_fail(autojump_clock: trio.testing.MockClock) -> None:
    async def fail(code: DeviceCode) -> None:
        raise RuntimeError(str(code))

    script = ProtectedScript()
    device(script, [PENDING] * 99)
    with pytest.raises(AuthorizationFailed, match=r"^show_code raised RuntimeError$"):
        async with open_client(script.parameters(), auth=oauth(script, show_code=fail), era="modern"):
            pass


async def test_an_authorization_server_without_such_codes_is_named() -> None:
    script = ProtectedScript()
    with pytest.raises(AuthorizationFailed) as failed:
        async with open_client(script.parameters(), auth=oauth(script, show_code=show_nothing)):
            pass
    assert str(failed.value) == (
        f"the authorization server {ORIGIN} lets nobody log in by a code (device_authorization_endpoint); without "
        "show_code they do so in a browser"
    )


def test_how_often_it_is_asked_at_most() -> None:
    server = AuthorizationServerMetadata(issuer="i", token_endpoint="t")
    given: dict[str, Any] = {"device_code": "d", "user_code": "u", "verification_uri": "v", "expires_in": 9}
    for interval, seconds in ((None, 5.0), (0, 1.0), (-7, 1.0), ("x", 5.0), (30, 30.0), (True, 5.0)):
        assert read_device_code(200, {**given, "interval": interval}, server).interval == seconds


async def test_where_nothing_can_be_listened_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(port: int, *, host: str) -> Any:
        raise OSError(f"not at {host}")

    monkeypatch.setattr(trio, "open_tcp_listeners", nowhere)
    with pytest.raises(
        AuthorizationFailed, match=r"^cannot listen at 127.0.0.1 for the answer .*: not at 127.0.0.1$"
    ):
        async with open_listener(None):
            pass


# Clients that are a URL.

CLIENT = "https://reader.example/client.json"


def key_for_tests() -> PrivateKeyJwt:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PrivateKeyJwt(key=pem, key_id="k1")


async def test_a_key_goes_to_nobody_who_cannot_use_it() -> None:
    script = ProtectedScript()
    script.server["client_id_metadata_document_supported"] = True
    script.server["token_endpoint_auth_methods_supported"] = ["none", "client_secret_post"]
    with pytest.raises(AuthorizationFailed, match="this client can do private_key_jwt"):
        async with open_client(
            script.parameters(), auth=oauth(script, client_metadata_url=CLIENT, key=key_for_tests())
        ):
            pass
    assert not script.pages


def test_credentials_need_a_client() -> None:
    with pytest.raises(ValueError, match=r"^client_secret belongs to a client_id: give it, too$"):
        OAuth(client_secret="x", client_metadata_url=CLIENT)
    with pytest.raises(
        ValueError, match=r"^key belongs to a client_id, or to a client_metadata_url: give one, too$"
    ):
        OAuth(key=PrivateKeyJwt(key="x"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"client_id": "https://other.example/c"}, "its client_id is 'https://other.example/c', not"),
        ({"client_name": None}, "no client_name, or no redirect_uris"),
        ({"redirect_uris": []}, "no client_name, or no redirect_uris"),
        ({"redirect_uris": "x"}, "no client_name, or no redirect_uris"),
        ({"client_secret": "x"}, "everybody can read it"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "everybody can read it"),
    ],
)
def test_which_documents_no_authorization_server_takes(change: dict[str, Any], problem: str) -> None:
    document = metadata_document(CLIENT, "Reader", ["http://127.0.0.1/callback"])
    check_metadata_document(CLIENT, document)
    with pytest.raises(ValueError, match=problem):
        check_metadata_document(CLIENT, {**document, **change})
    with pytest.raises(ValueError, match="not a JSON object"):
        check_metadata_document(CLIENT, [document])


def test_no_key_is_shown_that_cannot_be_used() -> None:
    for key in ("-----BEGIN s3cret", {"kty": "EC", "d": "s3cret"}):
        with pytest.raises(ValueError, match=r"^the key is none for ES256$") as failed:
            metadata_document(CLIENT, "Reader", ["http://127.0.0.1/callback"], PrivateKeyJwt(key=key))
        assert failed.value.__cause__ is None
        assert failed.value.__suppress_context__
