"""Logging in from a terminal: the browser, the file of tokens, and what later commands make of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio
from commands import Run
from shared.cli_login import browser as browser


def test_only_servers_at_urls_have_logins(run: Run) -> None:
    done = run("login", "--", "some-server")
    assert done.status == 2
    assert "over HTTP" in done.err


def test_addresses_that_answers_cannot_come_to_are_refused(run: Run) -> None:
    """Before anything is asked of anybody."""
    url = "http://127.0.0.1:1/mcp"
    for words, problem in (
        (
            ["--redirect-uri", "http://example.com/callback"],
            "redirect_uri must be https, or lead to this machine",
        ),
        (["--redirect-uri", "callback"], "redirect_uri must be a URL"),
        (["--redirect-uri", "http://127.0.0.1:3000/x", "--device"], "--device has none"),
    ):
        done = run("login", url, *words)
        assert (done.status, problem in done.err) == (2, True), done.err


# Clients that are a URL.

CLIENT = "https://reader.example/client.json"


def test_the_document_of_a_client_is_written(run: Run, tmp_path: Path) -> None:
    done = run("cimd", CLIENT, "--name", "Reader", "--device")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out) == {
        "client_id": CLIENT,
        "client_name": "Reader",
        "redirect_uris": ["http://127.0.0.1/callback", "http://[::1]/callback"],
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    done = run("cimd", CLIENT, "--redirect-uri", "https://reader.example/back", "--key", tmp_path / "key.pem")
    written = json.loads(done.out)
    assert (written["client_name"], written["redirect_uris"]) == ("trio-mcp", ["https://reader.example/back"])
    assert written["token_endpoint_auth_method"] == "private_key_jwt"
    assert written["jwks"]["keys"][0].keys() == {"kty", "crv", "x", "y", "alg", "use"}


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (["http://reader.example/c"], 2, "URL must be an https URL with a path, not 'http://reader.example/c'"),
        (
            [CLIENT, "--key", "no-such-file"],
            2,
            "the key in no-such-file cannot be read: No such file or directory",
        ),
        ([CLIENT, "--key", os.devnull], 2, "the key is none for ES256"),
        ([CLIENT, "--check"], 4, f"{CLIENT} cannot be fetched: "),
        ([], 2, "the following arguments are required: URL"),
    ],
)
def test_why_a_document_cannot_be_written(run: Run, words: list[str], status: int, problem: str) -> None:
    done = run("cimd", *words)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"trio-mcp: {problem}")


def test_a_document_that_was_published_is_looked_at(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(run("cimd", CLIENT).out)
    answers: list[tuple[int, bytes]] = []

    async def fetch(url: str) -> Any:
        await trio.lowlevel.checkpoint()
        assert url == CLIENT
        return answers.pop(0)

    monkeypatch.setattr("trio_mcp._cli._login.fetch_document", fetch)
    for status, body, said in (
        (200, json.dumps(document).encode(), ""),
        (404, b"", f"{CLIENT} answers with HTTP status 404, and has to with 200"),
        (200, b"<html>", f"the document at {CLIENT} is not in order: "),
        (200, b"{}", f"the document at {CLIENT} is not in order: its client_id is None, not '{CLIENT}'"),
    ):
        answers.append((status, body))
        done = run("cimd", CLIENT, "--check")
        if said:
            assert done.status == 1
            assert done.err.startswith(f"trio-mcp: {said}")
        else:
            assert (done.status, done.out) == (0, f"the document at {CLIENT} is in order\n")
