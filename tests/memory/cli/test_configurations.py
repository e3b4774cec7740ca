"""``install`` and ``config``: hosts' configurations, changed without losing anything, listed without secrets."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from commands import SHOP, Run
from inside_cli import without_secrets


def home() -> Path:
    """Return the home of the user in a test."""
    return Path(os.environ["HOME"])


@pytest.mark.parametrize(("host", "file"), [("vscode", ".vscode/mcp.json"), ("claude-code", ".mcp.json")])
def test_a_project_has_a_file_of_its_own(run: Run, host: str, file: str) -> None:
    """In the current directory."""
    assert run("install", SHOP, "--to", host, "--scope", "project", "--yes").status == 0
    assert "shop" in next(iter(json.loads(Path(file).read_text()).values()))


def test_a_host_without_projects_says_so(run: Run) -> None:
    """Nothing is written anywhere else."""
    done = run("install", SHOP, "--to", "claude-desktop", "--scope", "project", "--yes")
    assert (done.status, done.err) == (2, "trio-mcp: Claude Desktop has no configuration of a project\n")


BEFORE: dict[str, Any] = {
    "theme": "dark",
    "mcpServers": {"other": {"command": "x", "env": {"KEY": "hush"}}, "shop": {"url": "u"}},
}


def test_everything_else_stays(run: Run) -> None:
    """Members, their order, the indentation, the mode of the file, and what it is a link to."""
    real = Path("dotfiles") / "cursor.json"
    real.parent.mkdir()
    real.write_text(json.dumps(BEFORE, indent="\t"))
    real.chmod(0o644)
    link = home() / ".cursor" / "mcp.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(real.absolute())
    done = run("install", f"{SHOP}:server", "--to", "cursor", "--yes")
    assert done.status == 0
    assert link.is_symlink()
    after = json.loads(real.read_text())
    assert list(after) == ["theme", "mcpServers"]
    assert after["mcpServers"]["other"] == BEFORE["mcpServers"]["other"]
    assert after["mcpServers"]["shop"]["args"][-1] == f"{SHOP.resolve()}:server"
    assert '\n\t"theme"' in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o644
    assert sorted(path.name for path in real.parent.iterdir()) == ["cursor.json", "cursor.json.bak"]
    assert json.loads((real.parent / "cursor.json.bak").read_text()) == BEFORE
    assert "url" not in after["mcpServers"]["shop"]
    assert "hush" not in done.err


def test_an_entry_keeps_what_is_not_mentioned(run: Run) -> None:
    """Its variables above all; those that are given count."""
    path = home() / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": {"shop": {"command": "x", "env": {"KEY": "hush"}, "note": 1}}}))
    path.chmod(0o600)
    assert run("install", SHOP, "--to", "cursor", "--yes").status == 0
    done = run("install", SHOP, "--to", "cursor", "--yes", "--env", "LEVEL=5")
    assert (done.status, "hush" in done.err) == (0, False)
    entry = json.loads(path.read_text())["mcpServers"]["shop"]
    assert (entry["env"], entry["note"]) == ({"KEY": "hush", "LEVEL": "5"}, 1)
    assert entry["args"][-1] == str(SHOP.resolve())
    assert stat.S_IMODE(path.with_name("mcp.json.bak").stat().st_mode) == 0o600


def test_nothing_is_written_without_a_yes(run: Run) -> None:
    """Without a terminal nobody can be asked."""
    done = run("install", SHOP, "--to", "cursor")
    assert done.status == 2
    assert '"shop": {' in done.err
    assert "there is no terminal to ask at; --yes writes it without asking" in done.err
    assert not (home() / ".cursor").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{\n  // mine\n  "mcpServers": {}\n}',
            "If it has comments, writing it would lose them; add this yourself",
        ),
        ("[]", "must hold a JSON object"),
        ('{"mcpServers": []}', "must hold a JSON object, and 'mcpServers' in it another"),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(run: Run, text: str, message: str) -> None:
    """What to add is shown."""
    path = home() / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = run("install", SHOP, "--to", "cursor", "--yes")
    assert (done.status, message in done.err) == (2, True)
    assert path.read_text() == text


@pytest.mark.parametrize(("words", "place"), [(("--env", "A=\udcff"), "env.A"), (("--", "b\udcff"), "args[6]")])
def test_what_is_no_text_is_not_written(run: Run, words: tuple[str, ...], place: str) -> None:
    """Python keeps a byte of a command line that is not UTF-8 as half a surrogate pair."""
    done = run("install", SHOP, "--to", "mcp-json", "--yes", *words)
    assert done.status == 2
    assert done.err == f"trio-mcp: {place}: has half a surrogate pair, which is no text in UTF-8\n"
    assert not (home() / ".config").exists()


def test_a_file_without_a_server_is_not_installed(run: Run) -> None:
    """A host would only say that it does not start."""
    Path("none.py").write_text("a = 1")
    done = run("install", "none.py", "--to", "cursor", "--yes")
    assert (done.status, "none.py has no server" in done.err) == (2, True)
    assert not (home() / ".cursor").exists()
    assert run("install", SHOP, "--to", "cursor", "--yes", "--env", "sesame").err == (
        "trio-mcp: --env must be NAME=VALUE\n"
    )


def test_secrets_are_not_shown(subtests: pytest.Subtests) -> None:
    """Neither values of variables and headers, nor what follows a word such as ``--token``."""
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"command": "x", "env": {"A": "hush"}}, {"command": "x", "env": {"A": "…"}}),
        (
            {"url": "https://u:hush@h/p?key=hush", "headers": {"X": "hush"}},
            {"url": "https://…", "headers": {"X": "…"}},
        ),
        ({"url": "https://h/p?key=hush"}, {"url": "https://h/p?…"}),
        ({"args": ["--api-key", "hush", "--port", "5"]}, {"args": ["--api-key", "…", "--port", "5"]}),
        ({"args": ["--token=hush", "-v"]}, {"args": ["--token=…", "-v"]}),
        ({"args": ["Authorization: Bearer hush"]}, {"args": ["Authorization: …"]}),
        ({"args": ["sk-hushhushhushhush"]}, {"args": ["…"]}),
        ({"args": ["https://h/?a=1&token=hush"]}, {"args": ["https://h/?…"]}),
        ({"args": ["--bearer", "hush", "Bearer hush", "-v"]}, {"args": ["--bearer", "…", "Bearer …", "-v"]}),
        ({"args": ["--db", "postgres://me:hush@db/x"]}, {"args": ["--db", "postgres://…"]}),
        (
            {"command": "sh -c 'x --token hush'", "args": "--api-key hush --port 5"},
            {"command": "sh -c 'x --token …", "args": "--api-key … --port 5"},
        ),
        (
            {"args": ["-c", "curl -H 'Authorization: Bearer hush' --url=https://h/?k=hush -v"]},
            {"args": ["-c", "curl -H 'Authorization: … --url=https://h/?… -v"]},
        ),
        ({"headers": ["X-Api-Key: hush"]}, {"headers": ["X-Api-Key: …"]}),
        ({"args": ["/opt/desktop_assistant_server"]}, {"args": ["/opt/desktop_assistant_server"]}),
        ({"apiKey": "hush", "disabled": True}, {"apiKey": "…", "disabled": True}),
        ({"args": ["--pw", "hush", "-p", "hush", "-k", "hush"]}, {"args": ["--pw", "…", "-p", "…", "-k", "…"]}),
        ({"args": ["--pass=hush", "-p=hush", "--pw=hush"]}, {"args": ["--pass=…", "-p=…", "--pw=…"]}),
        ({"args": ["--passphrase", "hush hush", "--otp", "hush"]}, {"args": ["--passphrase", "…", "--otp", "…"]}),
        ({"args": ["--pat", "hush", "GH_PAT=hush"]}, {"args": ["--pat", "…", "GH_PAT=…"]}),
        ({"args": ["/password", "hush", "/token:hush"]}, {"args": ["/password", "…", "/token: …"]}),
        ({"args": ["-u", "me:hush", "--user=me:hush", "-v"]}, {"args": ["-u", "me:…", "--user=…", "-v"]}),
        ({"args": ["-c", "curl --user me:hush -v"]}, {"args": ["-c", "curl --user me:… -v"]}),
        ({"args": ['{"headers": {"Authorization": "Basic hush"}}', "-v"]}, {"args": ["…", "-v"]}),
        ({"args": ['--config={"a": "hush hush"}']}, {"args": ["--config=…"]}),
        ({"args": ["Server=h;User Id=sa;Password=hush;"]}, {"args": ["Server=h;User Id=sa;Password=…"]}),
        ({"args": ["Password=hush hush;Server=h"]}, {"args": ["Password=…"]}),
        (
            {"args": ["--private-key", "-----BEGIN KEY-----\nhush\n-----END KEY-----", "-v"]},
            {"args": ["--private-key", "…", "-v"]},
        ),
        ({"args": ["-----BEGIN KEY-----\nhush\n-----END KEY-----"]}, {"args": ["…"]}),
        ({"args": ["Authorization:${H:-Bearer hush}"]}, {"args": ["Authorization: …"]}),
        ({"args": ["X-Api-Key: ${H:-hush hush}"]}, {"args": ["X-Api-Key: …"]}),
        ({"url": "https://h/s/hush0123456789abcdEF/mcp"}, {"url": "https://h/s/…/mcp"}),
        ({"args": ["--url=https://h/hush-0123456789-abcdEF"]}, {"args": ["--url=https://h/…"]}),
        ({"args": ["-y", "@scope/server", "/home/me/dir"]}, {"args": ["-y", "@scope/server", "/home/me/dir"]}),
        ({"args": ["-u", "-P", "server.py", "-v"]}, {"args": ["-u", "-P", "server.py", "-v"]}),
        ({"url": "https://h/v1/some-long-name-of-a-server"}, {"url": "https://h/v1/some-long-name-of-a-server"}),
    ]
    for entry, shown in rows:
        with subtests.test(entry=entry, shown=shown):
            found = without_secrets(entry)
            assert "hush" not in json.dumps(found)
            assert {name: value for name, value in found.items() if name != "url"} == {
                name: value for name, value in shown.items() if name != "url"
            }


def test_config_lists_what_is_configured_where(run: Run) -> None:
    """For people and for programs; a file that cannot be read is named, and costs nothing else."""
    assert run("config").err == "no server is configured in any of the known places\n"
    Path("mcp.json").write_text(json.dumps(BEFORE))
    (home() / ".cursor").mkdir(parents=True)
    (home() / ".cursor" / "mcp.json").write_text("{")
    (home() / ".claude.json").write_text('{"mcpServers": {"evil\\u001b": {"command": "run", "args": ["-x"]}}}')
    done = run("config")
    assert done.status == 0
    assert done.out == (
        "trio-mcp: mcp.json\n  other  x (env: KEY)\n  shop   u\n"
        f"\nClaude Code: {home() / '.claude.json'}\n  evil\\x1b  run -x\n"
    )
    assert "mcp.json is not JSON" in done.err
    plain = json.loads(run("config", "--json").out)
    assert [each["for"] for each in plain] == ["trio-mcp", "Claude Code"]
    assert plain[0]["servers"]["other"] == {"command": "x", "env": {"KEY": "…"}}
    only = run("config", "--config", "mcp.json")
    assert only.out.startswith("trio-mcp: mcp.json\n")
    assert only.err == ""


def test_config_shows_what_is_odd_without_failing(run: Run) -> None:
    """Somebody else may have written it: a file so deep that it cannot be read, and arguments that are none."""
    Path("mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "run", "args": 5}, "b": {"url": 7, "args": {"x": 1}}}}'
    )
    Path(".mcp.json").write_text("[" * 100_000)
    done = run("config")
    assert (done.status, done.out) == (0, "trio-mcp: mcp.json\n  a  run\n  b  7\n")
    assert ".mcp.json is not JSON" in done.err


def test_a_file_that_is_too_deep_is_left_alone(run: Run) -> None:
    path = home() / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"a":' * 50_000)
    done = run("install", SHOP, "--to", "cursor", "--yes")
    assert (done.status, "is not plain JSON" in done.err) == (2, True)
