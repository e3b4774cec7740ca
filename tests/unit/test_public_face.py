"""What `import trio_mcp` gives, and what it leaves alone."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import trio_mcp
from trio_mcp import testing, types

# The names.


def written_names(package: ModuleType) -> list[tuple[str, str]]:
    """Return the names in a package's `_public`, in their order, and where they live.

    Anything there but lines ``from ._x import Y as Y`` is an error.
    """
    names: list[tuple[str, str]] = []
    _, *statements = ast.parse(
        Path(str(package.__file__)).with_name("_public.py").read_text(encoding="utf-8")
    ).body
    for statement in statements:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.level == 1
        (alias,) = statement.names
        assert alias.asname == alias.name
        names.append((alias.name, statement.module or alias.name))
    return names


PUBLIC: list[str] = vars(trio_mcp)["__all__"]


@pytest.mark.parametrize("package", [trio_mcp, types, testing])
def test_what_is_written_for_type_checkers_is_what_there_is(package: ModuleType) -> None:
    """The names are written once. Adding one is a decision about the API."""
    written = dict(written_names(package))
    assert len(written) == len(written_names(package))
    assert set(package.__all__) - {"__version__"} == set(written)
    assert len(package.__all__) == len(set(package.__all__))
    for name, home in written.items():
        value = getattr(package, name)
        assert value is vars(package)[name]
        module = sys.modules[f"{package.__name__}.{home}"]
        assert value is module or value is vars(module)[name]
    assert (
        vars(import_module(f"{package.__name__}._public")).items()
        >= {name: getattr(package, name) for name in written}.items()
    )


def test_nothing_else_is_there() -> None:
    """What an import leaves behind does not look public."""
    for name in PUBLIC:
        getattr(trio_mcp, name)
    visible = {
        name
        for name, value in vars(trio_mcp).items()
        if not name.startswith("_") and (value is types or not isinstance(value, ModuleType))
    }
    assert visible - {"TYPE_CHECKING"} == set(PUBLIC) - {"__version__"}


@pytest.mark.parametrize("package", [trio_mcp, types, testing])
def test_names_can_be_looked_up_and_missing_ones_are_missing(package: ModuleType) -> None:
    """As with any module."""
    assert set(package.__all__) <= set(dir(package))
    assert not hasattr(package, "Nothing")
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018 - it is what raises
    with pytest.raises(ImportError):
        exec(f"from {package.__name__} import Nothing")


def test_every_wire_type_is_public() -> None:
    """`from trio_mcp.types import *` gives every class there is."""
    names = set(vars(types)["__all__"])
    for name in names:
        getattr(types, name)
    classes = {name for name, value in vars(types).items() if inspect.isclass(value) and not name.startswith("_")}
    assert classes <= names <= set(vars(types))


def is_ours(value: object) -> bool:
    return (getattr(value, "__module__", None) or "").split(".")[0] == "trio_mcp"


def public_objects() -> Iterator[tuple[str, object]]:
    """Yield the classes and functions of the API, and their public methods and properties."""
    packages = ((trio_mcp, PUBLIC), (types, vars(types)["__all__"]), (testing, vars(testing)["__all__"]))
    for module, names in packages:
        for name in names:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)) or not is_ours(value):
                continue
            yield f"{module.__name__}.{name}", value
            for member_name, member in vars(value).items() if inspect.isclass(value) else ():
                if member_name.startswith("_"):
                    continue
                if isinstance(member, (classmethod, staticmethod, property)) or inspect.isroutine(member):
                    yield f"{module.__name__}.{name}.{member_name}", member


DOCUMENTED = dict(public_objects())


def test_everything_public_is_described() -> None:
    """Of its own, in a sentence at least."""
    assert len(DOCUMENTED) > 300
    begins = {name: (value.__doc__ or "").strip().split("\n\n")[0].rstrip() for name, value in DOCUMENTED.items()}
    assert {name: begin for name, begin in begins.items() if not begin.endswith((".", ":"))} == {}


SHOWN = {
    "Server": (
        "activity add_app add_directory add_file add_resource add_skill add_skills completion disable_prompt "
        "disable_resource disable_tool dropped_notifications enable_prompt enable_resource enable_tool "
        "find_tool info instructions limits "
        "list_changed middleware notification_handler notify open prompt remove_prompt remove_resource remove_tool "
        "request_handler resource resource_updated revisions run serve_channel statistics tool"
    ),
    "Proxy": "activity limits middleware open revisions run serve_channel statistics",
    "Client": (
        "aclose answer_input call_tool complete discover get_prompt get_skill instructions list_directory "
        "list_prompts list_resource_templates list_resources list_skills list_tools listen load_skill notify "
        "ping read_app read_resource read_skill_file request request_many resume_task revision roots_changed "
        "server_capabilities server_info set_log_level set_roots start_task statistics"
    ),
    "Context": (
        "alert begin_task client_apps client_capabilities client_extensions client_info critical deadline debug elicit "
        "elicit_url elicitation_complete emergency error headers info input_responses is_task list_roots log log_nowait "
        "meta method "
        "notice notify principal progress release_connection report_progress request request_id request_state "
        "revision sample start_soon state wants_log warning within_roots"
    ),
}


async def test_autocompletion_shows_what_users_use() -> None:
    """What hosts and connections use of the same objects would only be in the way."""
    server = trio_mcp.Server("shelf")
    seen: list[object] = [server, trio_mcp.Proxy(server)]

    @server.tool
    async def look(ctx: trio_mcp.Context) -> None:
        seen.append(ctx)
        await ctx.info("looked")

    async with trio_mcp.open_client(server) as client:
        seen.append(client)
        await client.call_tool("look")
    shown = {type(one).__name__: [name for name in dir(one) if not name.startswith("__")] for one in seen}
    assert {name: " ".join(names) for name, names in shown.items()} == SHOWN
    assert all("__class__" in dir(one) for one in seen)


def class_of(name: str) -> ast.ClassDef:
    """Return where the package writes a class."""
    mark = re.compile(rf"^class {name}\b", re.MULTILINE)
    sources = (path.read_text(encoding="utf-8") for path in Path(trio_mcp.__file__).parent.rglob("*.py"))
    (source,) = (source for source in sources if mark.search(source))
    (found,) = (one for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == name)
    return found


def written_members(cls: type) -> str:
    """Return the public members of a class, those of its bases included, that its source has.

    Editors offer these: they run nothing, and so know of no `__dir__`.
    """
    names: set[str] = set()
    for written in [class_of(part.__name__) for part in cls.__mro__ if is_ours(part)]:
        for node in ast.walk(written):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if node in written.body:
                    names.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)) if node in written.body:
                    names.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    names.add(name)
                case _:
                    pass
    return " ".join(sorted(name for name in names if not name.startswith("_")))


FURTHER = {
    "RunningServer": "serve_channel state statistics",
    "Events": "acknowledged waiting",
    "GroupEvents": "refusals",
    "Pages": "pages",
    "ProgressReporter": "advance report value",
    "McpASGI": "running well_known",
    "ClientGroup": (
        "call_tool changes clients complete get_prompt list_prompts list_resource_templates list_resources list_tools "
        "listen read_resource restart states wait_ready wait_settled"
    ),
}


def test_editors_and_the_reference_show_what_users_use(subtests: pytest.Subtests) -> None:
    """Both go by the members of the class, of which the reference describes each that has a docstring."""
    for name, members in (SHOWN | FURTHER).items():
        with subtests.test(name):
            assert written_members(getattr(trio_mcp, name)) == " ".join(sorted(members.split()))


CLASSES = [value for value in DOCUMENTED.values() if inspect.isclass(value)]


def test_hints_of_everything_public_can_be_evaluated() -> None:
    """By `typing.get_type_hints`, as frameworks do: classes name another module as theirs than where they are written."""
    assert len(CLASSES) > 250
    for cls in CLASSES:
        assert not any(isinstance(hint, str) for hint in get_type_hints(cls, include_extras=True).values())
    for name in vars(types)["__all__"]:
        if inspect.isclass(cls := getattr(types, name)):
            get_type_hints(cls.__init__)
    for value in DOCUMENTED.values():
        made = inspect.isclass(value) and inspect.isfunction(value.__init__)
        if made or inspect.isfunction(value):
            function: Any = vars(value).get("__init__", value) if made else value
            hints = get_type_hints(function, include_extras=True)
            assert not any(isinstance(hint, str) for hint in hints.values())
    assert get_type_hints(trio_mcp.OAuth.__init__)["scopes"] == Collection[str] | str | None
    assert get_type_hints(trio_mcp.Principal)["claims"] == Mapping[str, Any]
    assert get_type_hints(types.ListToolsResult.__init__)["tools"] == Sequence[types.Tool]
