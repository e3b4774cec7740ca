"""The floors of the package, read from the picture in its docstring, and what each of them may know."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest
from places import TESTS
from statements import statements_in

import trio_mcp

PACKAGE: Final = Path(trio_mcp.__file__).parent
FACE: Final = "this module"

# Which part may not know which library, itself or through what it imports.
TRIO_FREE: Final = (
    "_absent",
    "_version",
    "_errors",
    "_limits",
    "_revisions",
    "types",
    "_codec",
    "_core",
    "_oauth",
    "_schema",
)
FORBIDDEN_EVERYWHERE: Final = {"asyncio", "anyio", "sniffio", "curio"}


def read_floors() -> dict[str, int]:
    """Return the height of each part, as the package's docstring draws it."""
    rows = [
        re.split(r" {2,}", line.strip())[0]
        for line in (trio_mcp.__doc__ or "").splitlines()
        if line.startswith("    ")
    ]
    return {name: height for height, row in enumerate(rows) for name in row.split(", ")}


FLOORS: Final = read_floors()
FILES: Final = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the dotted name of a file, beginning with the package's."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: Final = {module_name(path): path for path in FILES}


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to, as the picture calls it."""
    return module.split(".")[1] if "." in module else FACE


def imported_names(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield what a module imports, absolute and with what is taken from it, wherever in the file that is written.

    An import inside a function and one for type checkers only count like every other.
    """
    for node in statements_in(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base]) if base else ".".join(above)
            yield from (f"{base}.{alias.name}" for alias in node.names)


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@functools.cache
def imports_of(module: str) -> set[str]:
    is_package = MODULES[module].name == "__init__.py"
    return set(imported_names(tree_of(module), module, is_package=is_package))


def own(name: str) -> str | None:
    """Return the module of ours that an imported name is, or lies in."""
    while name and name.split(".")[0] == "trio_mcp":
        if name in MODULES:
            return name
        name = name.rpartition(".")[0]
    return None


@functools.cache
def graph() -> dict[str, set[str]]:
    """Return which modules each module imports. It takes a second, which those need not spend that run other tests."""
    return {module: {own(name) or "" for name in imports_of(module)} - {""} for module in MODULES}


def reachable(module: str) -> set[str]:
    found: set[str] = set()
    ahead = {module}
    while ahead:
        module = ahead.pop()
        found.add(module)
        ahead |= graph()[module] - found
    return found


def test_the_reading_of_imports_misses_none(subtests: pytest.Subtests) -> None:
    """A rule that is kept by a blind test is not kept. A package's own file and the modules in it see the same."""
    cases: list[tuple[str, set[str]]] = [
        ("import a.b, c as d", {"a.b", "c"}),
        ("from a import b as c, d", {"a.b", "a.d"}),
        ("from . import x", {"trio_mcp._here.x"}),
        ("from .x import y", {"trio_mcp._here.x.y"}),
        ("from .. import _there", {"trio_mcp._there"}),
        ("from .._there._x import y", {"trio_mcp._there._x.y"}),
        ("if TYPE_CHECKING:\n    from .._up import X", {"trio_mcp._up.X"}),
        ("def f():\n    def g():\n        from .._up import X", {"trio_mcp._up.X"}),
        ("class C:\n    try:\n        import a\n    except ImportError:\n        import b", {"a", "b"}),
        (
            "match x:\n    case 1:\n        import a\nelse_ = 1\nfor y in x:\n    pass\nelse:\n    import b",
            {"a", "b"},
        ),
        ("try:\n    pass\nfinally:\n    with x:\n        import a", {"a"}),
        ("x: 'trio_mcp._up.X'  # import a", set[str]()),
    ]
    for source, names in cases:
        with subtests.test(source=source):
            tree = ast.parse(source)
            assert set(imported_names(tree, "trio_mcp._here._module", is_package=False)) == names
            assert set(imported_names(tree, "trio_mcp._here", is_package=True)) == names


def test_every_part_is_in_the_picture() -> None:
    """The order is written where it is seen, whole: `trio_mcp/__init__.py`."""
    assert set(FLOORS) == {part_of(module) for module in MODULES}
    assert FLOORS[FACE] == max(FLOORS.values())


def test_imports_point_down() -> None:
    """A reader of a floor need not know those above it."""
    up = [
        f"{module} reaches up to {imported}"
        for module in MODULES
        for imported in graph()[module]
        if FLOORS[part_of(imported)] > FLOORS[part_of(module)]
    ]
    assert not up


def test_client_and_server_do_not_know_each_other() -> None:
    """A program that needs one of them does not load the other's rules."""
    for module in MODULES:
        for here, there in (("_client", "_server"), ("_server", "_client")):
            if part_of(module) == here:
                known = {part_of(other) for other in reachable(module)}
                assert there not in known, f"{module} knows of {there}"


def test_no_modules_need_each_other() -> None:
    """Two that do are one; nor is a circle dodged by importing in a function or for type checkers only."""
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" needs ".join(error.args[1][::-1]))


def test_the_protocol_knows_no_trio() -> None:
    """What does no I/O can be read, tested and used without an event loop."""
    with_io = {"trio", "outcome", "socket", "ssl", "select", "subprocess", "threading"}
    for part in TRIO_FREE:
        modules = [module for module in MODULES if part_of(module) == part]
        assert modules, part
        for module in modules:
            for known in reachable(module):
                libraries = {name.split(".")[0] for name in imports_of(known)}
                assert not libraries & with_io, f"{module} knows {known}, which does I/O"


def test_the_protocol_waits_for_nothing_and_reads_no_clock() -> None:
    """Plain functions over data; time is an argument."""
    for module in MODULES:
        if part_of(module) in TRIO_FREE:
            nodes = ast.walk(tree_of(module))
            waiting = [node for node in nodes if isinstance(node, (ast.AsyncFunctionDef, ast.Await))]
            assert not waiting, f"{module}, line {waiting[0].lineno}"
            assert not {name.split(".")[0] for name in imports_of(module)} & {"time", "sched"}, module


def test_there_is_one_event_loop() -> None:
    """The library is Trio's, all of it."""
    for module in MODULES:
        assert not {name.split(".")[0] for name in imports_of(module)} & FORBIDDEN_EVERYWHERE, module


def test_own_modules_are_imported_relatively() -> None:
    """The dots tell how far an import reaches; a package that imports itself by name hides it."""
    for module in MODULES:
        for node in statements_in(tree_of(module)):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert "trio_mcp" not in {name.split(".")[0] for name in names}, module


def test_one_module_names_a_compiled_json_library() -> None:
    """Everything else goes through it, so that both ways of reading and writing obey the same rules."""
    users = {
        module for module in MODULES for name in imports_of(module) if name.split(".")[0] in {"msgspec", "orjson"}
    }
    assert users == {"trio_mcp._codec._json"}


def test_tests_know_private_modules_through_their_doors() -> None:
    """So a move changes one file: ``tests/support/inside_*.py``. Programs that tests start have a path of their own."""
    tests = TESTS
    ours = re.compile(
        r"\bfrom\s+trio_mcp[\w.]*\s+import\s*(?:\([^)]*\)|[^\n]*)|\bimport\b[^\n]*\btrio_mcp\b[^\n]*"
    )
    for path in tests.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        # Parsing them all takes seconds; most have no name with an underscore anywhere near an import of ours.
        is_suspect = any(re.search(r"\b_\w", written) for written in ours.findall(source))
        if is_suspect and not path.name.startswith("inside_"):
            for name in imported_names(ast.parse(source), "tests", is_package=False):
                parts = name.split(".")
                private = [part for part in parts[1:] if part.startswith("_") and part != "__version__"]
                assert parts[0] != "trio_mcp" or not private, f"{path.relative_to(tests)} imports {name}"
