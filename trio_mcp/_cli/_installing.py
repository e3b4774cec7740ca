"""``install`` and ``config``: the configurations of hosts, changed and listed."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .._codec._json import is_array, is_object
from ._arguments import check_sendable
from ._configured import places, read_json, servers_in, without_secrets
from ._console import Console, is_terminal
from ._hosts import HOSTS, Host, entry_for, user_file
from ._layout import columns, json_text
from ._parser import Exit, Failure, Options, pairs_of
from ._serving import as_program, load_server, split_file

_OF_URLS: Final = frozenset({"url", "httpUrl", "serverUrl", "headers", "type"})
"""Members of the entry of a server at a URL, which a server that is started cannot keep."""


def install(options: Options) -> int:
    """Add a server to a host's configuration, after the user has seen what is written and has agreed.

    Everything else in the file stays, and of an entry of the same name what is not mentioned.
    The file is replaced as a whole, so no host ever reads half of it. A copy is kept.

    Raises:
        Failure: There is no such server; or the file is not plain JSON, cannot be written, or has changed
            meanwhile. Then it is as it was.
    """
    console = Console()
    host = HOSTS[options.to]
    path = _place(options, host)
    env = dict(pairs_of(options.env, "=", "--env must be NAME=VALUE"))
    with as_program(options, env):
        load_server(options.file)  # a host would only say that the server does not start
    file, name = split_file(options.file)
    spec = f"{file.resolve()}:{name}" if name is not None else str(file.resolve())
    entry = entry_for(host, spec, options.file_arguments, env)
    check_sendable(entry)
    name = options.name or file.stem
    before = _read(path)
    try:
        value: Any = json.loads(before) if before.strip() else {}
    except (ValueError, RecursionError) as error:
        console.note(f"to be added to {host.member!r} in {path}:\n{json_text({name: entry})}")
        loss = "If it has comments, writing it would lose them; add this yourself"
        raise Failure(Exit.USAGE, f"{path} is not plain JSON: {error}. {loss}") from None
    if not is_object(value) or not is_object(value.setdefault(host.member, {})):
        raise Failure(Exit.USAGE, f"{path} must hold a JSON object, and {host.member!r} in it another")
    servers = value[host.member]
    console.note(f"{host.title}: {'change' if before else 'make'} {path}")
    seen = entry
    if name in servers and is_object(servers[name]):
        old = servers[name]
        console.note(f"replace {json_text({name: without_secrets(old)})}\nby")
        entry, seen = _merged(old, entry), _merged(without_secrets(old), entry)
    console.note(json_text({name: seen}))
    if not options.yes and not _agrees(console):
        console.note("nothing was written")
        return Exit.FAILED
    servers[name] = entry
    if before:
        console.note(f"as it was, it is in {_keep(path, before)}")
    _replace(path, before, json.dumps(value, indent=_indent_of(before), ensure_ascii=False) + "\n")
    console.note(f"written; start {host.title} again to use it" if host.title != "mcp.json" else "written")
    return Exit.DONE


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry that keeps of an old one what the new one does not mention, such as its variables."""
    kept = {name: value for name, value in old.items() if name not in _OF_URLS}
    if is_object(kept.get("env")):
        kept["env"] = {**kept["env"], **new.get("env", {})}
        new = {name: value for name, value in new.items() if name != "env"}
    return {**kept, **new}


def _place(options: Options, host: Host) -> Path:
    if options.scope == "project":
        if host.project is None:
            raise Failure(Exit.USAGE, f"{host.title} has no configuration of a project")
        return Path(host.project).absolute()
    return user_file(host)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(Exit.USAGE, f"{path} cannot be read: {error}") from None


def _indent_of(text: str) -> int | str:
    """Return by what the first member of a JSON object is indented."""
    found = re.match(r"\s*\{\r?\n([ \t]+)", text)
    return 2 if found is None else found[1]


def _agrees(console: Console) -> bool:
    if not is_terminal(sys.stdin):
        raise Failure(Exit.USAGE, "there is no terminal to ask at; --yes writes it without asking")
    console.prompt("Write this? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _keep(path: Path, text: str) -> Path:
    """Write what is in a file to one beside it, with ``.bak`` behind its name, and return that."""
    path = path.resolve()
    copy = path.with_name(f"{path.name}.bak")
    _write(copy, text, like=path)
    return copy


def _replace(path: Path, before: str, after: str) -> None:
    """Replace a file, or the one that it is a link to, at once.

    Raises:
        Failure: It cannot be written, or has changed since it was read.
    """
    path = path.resolve()
    if _read(path) != before:
        raise Failure(Exit.USAGE, f"{path} was changed by somebody else meanwhile; try again")
    _write(path, after, like=path)


def _write(path: Path, text: str, *, like: Path) -> None:
    """Write a file at once, with the mode of another one."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # As all that may hold secrets: for its owner alone, unless it was otherwise.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            Path(temporary).chmod(like.stat().st_mode & 0o7777)
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise Failure(Exit.USAGE, f"{path} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def config(options: Options) -> int:
    """Print which servers are configured where. What may be a secret is not shown."""
    console = Console()
    found: list[dict[str, Any]] = []
    for title, path in _files(options.config):
        try:
            value = read_json(path)
        except Failure as failure:
            console.note(f"trio-mcp: {failure.message}")
            continue
        if value is None:
            continue
        servers = {name: without_secrets(entry) for name, entry in servers_in(value).items()}
        if servers or options.config is not None:
            found.append({"for": title, "path": str(path), "servers": servers})
    if options.json:
        console.say_json_sync(found)
        return Exit.DONE
    if not found:
        console.note("no server is configured in any of the known places")
    for number, each in enumerate(found):
        console.say_sync(*([""] if number else []), f"{each['for']}: {each['path']}")
        rows = ((name, _in_words(entry)) for name, entry in each["servers"].items())
        console.say_sync(*columns(rows, console.width, folded=False))
    return Exit.DONE


def _files(config: str | None) -> Iterator[tuple[str, Path]]:
    """Yield every place where servers may be configured, each once."""
    seen: set[Path] = set()
    files = [("trio-mcp", path) for path in places(config)]
    if config is None:
        for host in HOSTS.values():
            files.append((host.title, user_file(host)))
            if host.project is not None:
                files.append((f"{host.title}, this project", Path(host.project)))
    for title, path in files:
        if path.absolute() not in seen:
            seen.add(path.absolute())
            yield title, path


def _in_words(entry: dict[str, Any]) -> str:
    """Return a server, without its secrets, as a line."""
    words = [
        str(entry.get("command") or entry.get("url") or entry.get("httpUrl") or entry.get("serverUrl") or "?")
    ]
    if is_array(entry.get("args")):
        words += [str(argument) for argument in entry["args"]]
    for member in ("env", "headers"):
        if is_object(entry.get(member)) and entry[member]:
            words.append(f"({member}: {', '.join(entry[member])})")
    if entry.get("disabled") is True:
        words.append("(disabled)")
    return " ".join(words)
