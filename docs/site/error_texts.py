"""Finds the texts of errors in the package, and keeps docs/errors.md complete.

A text is one of an error unless the place where it stands says otherwise. So what is first kept in a variable,
returned by a helper, put into a list of problems or given as a reason is found like what stands in a `raise`.
`NO_ERROR`, `NO_ERROR_KEYWORDS` and `ELSEWHERE` say in which places texts are not those of errors.

The page has a section for each cause, written by hand. A comment in it says whose texts it lists, by folder or
module and class of the error, such as ``_server:TypeError`` or ``_http/_connection:ConnectionLost``. The class is
``text`` where it cannot be seen beside the text; ``*`` stands for every module, or for every class. The longest
folder that fits has the text. What stands in the block below the comment is found here.

    python docs/site/error_texts.py          # what is missing, and what no section takes
    python docs/site/error_texts.py --fill   # writes the blocks
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import trio

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "trio_mcp"
PAGE: Final = ROOT / "docs" / "errors.md"

ROOTS: Final = {"McpError", "HttpRefused", "Failure", "FrameRefused"} | {
    name
    for module in (builtins, trio)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Exception) and value is not Exception
}
"""What users meet: errors of ours, of Trio and of Python; refusals over HTTP, over WebSockets, at a terminal."""

TEXT: Final = "text"
"""Stands for the class of an error that is made elsewhere of a text."""

NOTHING: Final = ""
"""Stands for the class where no error is made of a text."""

NO_ERROR: Final = re.compile(
    r"""
    # Records of logs.
    (.*\.)? ( _?log\.\w+ | log_failure | _wire\.\w+ | sink\.\w+ | _?audit | _warn\w* | Formatter )
    # What is said at a terminal, and its help.
    | (.*\.)? ( add_argument\w* | _add_pairs | Command | note | say | quote | stderr | prompt | write )
    | (.*\.)? ( _say | _agrees )
    # Names of tasks, and why they were ended.
    | .*\. ( start | start_soon | start_own | start_shielded | waiting | cancel | _cancel | end | stop )
    | .*\. ( stop_reading | give_up | _give_up | \w+_parked )
    | open_background | Background | ConnectionInfo | Resynced
    # Other languages, and other programs.
    | .*\. ( startswith | replace | execute\w* | compile | create_histogram ) | cast | page_of | _Gauge
    """,
    re.VERBOSE,
)
"""What is called with texts of which no error is made. An error among the arguments is one nevertheless."""

NO_ERROR_KEYWORDS: Final = frozenset({"description", "epilog", "help", "name", "prog", "task_name", "usage"})

ELSEWHERE: Final = MappingProxyType(
    {
        "_auth/_grants": "name",
        "_auth/_listener": "_PAGE _DONE _REFUSED _PENDING _STRANGE fields",
        "_auth/_stores": "_FORMAT _HEAD default_directory",
        "_bindings/_http_client": "_fail",
        "_bindings/_memory": "memory_channel_pair",
        "_bindings/_stream": "__init__",
        "_cli/_calls": "_told",
        "_cli/_configured": "settings_folder",
        "_cli/_hosts": "HOSTS",
        "_cli/_installing": "_files",
        "_cli/_layout": "_type_name",
        "_cli/_offers": "_described _members discover",
        "_cli/_parser": "TARGETS LISTENERS STATUSES epilog",
        "_cli/_questions": "_ask_field _kind_of",
        "_client/_connection": "_STALE",
        "_client/_dispatch": "result_types",
        "_client/_group": "list_resource_templates",
        "_client/_listen": "_interruption",
        "_codec/_unstructure": "_text_of",
        "_core/_frames": "canonical_handshake",
        "_endpoint/_routes": "_PROTOCOLS _SENT _READ",
        "_endpoint/_sqlite_events": "_SCHEMA _BY_TIME",
        "_endpoint/_session": "_channel",
        "_hosts/_asgi": "_ANSWERED _CUT",
        "_hosts/_connections": "_NAME",
        "_hosts/_listening": "limits",
        "_hosts/_serve_sockets": "principal_of who",
        "_http/_messages": "where",
        "_limits": "rule",
        "_logs": "_write",
        "_peer/_exchange": "not_begun when",
        "_peer/_frame_record": "_TOO_DEEP",
        "_peer/_notifications": "ALL_PROGRESS _Line pop",
        "_peer/_sender": "_reason",
        "_printable": "shown printable_lines",
        "_schema/_docstrings": "_MEMBER_SECTIONS _DROPPED_SECTIONS",
        "_schema/_members": "_MSGSPEC_PLACE",
        "_server/_access": "PARKED LONG_LIVED outcome",
        "_server/_functions": "_enter _kind_of _MANAGERS",
        "_server/_input_required": "_PARAMS Question _places loans",
        "_server/_prompts": "_VALUE form",
        "_server/_redis_scripts": "_COMMON GREET RENEW MOURN LEAVE ADD REPLACE REMOVE FIND VERSIONS CLAIM "
        "UNCLAIM SEND RECEIVE DONE",
        "_server/_restarts": "surroundings",
        "_server/_sqlite_tasks": "_SCHEMA query found",
        "_trio": "run_now",
        "_workers/_members": "secret",
        "_workers/_redis_store_scripts": "_COMMON GREET RENEW LEAVE GONE ANNOUNCE OTHERS ADDRESS KEEP FIND TAKE "
        "RELEASE FORGET APPEND READ FORGET_EVENTS",
        "_workers/_sqlite_store": "_SCHEMA query",
        "testing/_answers": "page_of",
        "testing/_authorization_server": "serving warning buttons _consent_page",
        "testing/_channel_tests": "odd _server",
        "testing/pytest_plugin": "says",
    }
)
"""The classes, functions, constants and variables with texts of which no error is made, by module."""

_SECTION: Final = re.compile(r"<!-- texts of (.*?) -->\n\n```text\n(.*?)```\n", re.DOTALL)
_SENTENCE: Final = re.compile("[A-Za-z]{2}.*[^A-Za-z][A-Za-z]{2}|[A-Za-z]{4} …:")
"""Two words, or one before what varies."""
_NOUN: Final = re.compile("(an?|the) (authorization )?[a-zA-Z-]+( …)?( (at|in|of|with|for|to) …+)?")
"""What something is called in a text."""


def found_texts(others: Mapping[str, str] = MappingProxyType({})) -> dict[str, set[str]]:
    """Return the texts by module and class, as in ``_server/_tools:TypeError``; ``…`` is what varies.

    Args:
        others: The sources of further modules, by name.
    """
    trees = {**_package(), **{module: ast.parse(source) for module, source in others.items()}}
    errors = Errors(trees)
    found: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for kind, text in Reader(module, tree, errors).texts():
            found[f"{module}:{kind}"].add(text)
    return dict(found)


@cache
def _package() -> Mapping[str, ast.Module]:
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


class Errors:
    """Which errors are made by what is called: by classes, by functions that return one or make one of a text."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._public = ROOTS | {node.name for node in trees["_errors"].body if isinstance(node, ast.ClassDef)}
        self._bases = {
            node.name: _last(node.bases[0])
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and node.bases
        }
        self._functions: dict[str, dict[str, str]] = {module: {} for module in trees}
        self._given: dict[ast.AST, list[tuple[ast.expr, set[str]]]] = {}  # what is called with which names
        functions = [
            (module, node)
            for module, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        for module, node in functions:
            returned = "" if node.returns is None else ast.unparse(node.returns).removesuffix(" | None")
            if kind := self.of_class(returned.rpartition(".")[2]):
                self._functions[module][node.name] = kind
        self._returning = {module: dict(names) for module, names in self._functions.items()}
        for _ in range(3):  # one gives a text to another
            for module, node in functions:
                names = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
                given = self.of_names(module, node)
                if kind := next((given[name] for name in sorted(names & given.keys())), None):
                    self._functions[module].setdefault(node.name, kind)

    def of_class(self, name: str) -> str | None:
        """Return the public class that a class belongs to, or its own name; `None` if it is no error."""
        chain = [name]
        while chain[-1] not in self._public and chain[-1] in self._bases and self._bases[chain[-1]] not in chain:
            chain.append(self._bases[chain[-1]])
        if chain[-1] == "Exception" and len(chain) > 1:
            return chain[-2]
        return chain[-1] if chain[-1] in self._public else None

    def of_call(self, module: str, called: ast.expr) -> str | None:
        """Return the class of the error that is made of what something is called with."""
        name = _last(called)
        if kind := self.of_class(name) or self._functions[module].get(name):
            return kind
        if isinstance(called, ast.Attribute) and _last(called.value) == "self":
            return None
        others = self._functions if isinstance(called, ast.Name) else self._returning
        kinds = {names[name] for names in others.values() if name in names}
        return kinds.pop() if len(kinds) == 1 else None

    def of_names(self, module: str, node: ast.AST) -> dict[str, str]:
        """Return the classes of the errors that are made of names somewhere in this node."""
        if node not in self._given:
            self._given[node] = [
                (call.func, names)
                for call in ast.walk(node)
                if isinstance(call, ast.Call)
                and (names := {*chain.from_iterable(map(_names_shown, _given_to(call)))})
            ]
        return {
            name: kind
            for called, names in self._given[node]
            if (kind := self.of_call(module, called))
            for name in names
        }


MEASURING: Final = "_bench/"
"""Where texts are those of tables and plots, unless they are seen to become errors."""


class Reader:
    """Reads one module."""

    def __init__(self, module: str, tree: ast.Module, errors: Errors) -> None:
        self._module = module
        self._tree = tree
        self._errors = errors
        self._constants = _constants(tree)
        self._elsewhere = ELSEWHERE.get(module, "").split()
        self._kind = NOTHING if module.startswith(MEASURING) else TEXT

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each text with the class of its error."""
        names = self._errors.of_names(self._module, self._tree)
        yield from self._within(self._tree, self._kind, {name: names[name] for name in names if name.isupper()})

    def _within(self, node: ast.AST, kind: str, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for field, value in ast.iter_fields(node):
            if field not in {"annotation", "returns", "slice", "keys", "pattern"}:
                for child in cast("list[object]", value) if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from self._texts(child, kind, names)

    def _texts(self, node: ast.AST, kind: str, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the texts in a node.

        Args:
            node: The node.
            kind: The class of what is made of a text here.
            names: The classes of what is made of the values of names.
        """
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Compare():
                return
            case ast.Assert() if not self._module.startswith("testing/"):
                return
            case ast.AnnAssign(annotation=annotation) if _last(annotation) == "TypeAlias":
                return
            case ast.ClassDef(bases=bases) if any(_last(base).endswith("Enum") for base in bases):
                kind = NOTHING
            case ast.ClassDef(name=name):
                if name in self._elsewhere:
                    return
                kind = self._errors.of_class(name) or kind
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name == "__repr__" or name in self._elsewhere:
                    return
                kind = kind or self._kind
                names = {**names, **self._errors.of_names(self._module, node)}
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                if _last(target) in self._elsewhere:
                    return
                kind = names.get(_last(target), kind)
            case ast.Call(func=called) if NO_ERROR.fullmatch(ast.unparse(called)):
                kind = NOTHING
            case ast.Call(func=called):
                kind = self._errors.of_call(self._module, called) or kind
            case ast.keyword(arg=name) if name in NO_ERROR_KEYWORDS:
                kind = NOTHING
            case ast.expr() if _is_text(node):
                text = re.sub("…+", "…", " ".join(_text(node, self._constants).split()))
                if kind != NOTHING and " " in text and _SENTENCE.search(text) and not _NOUN.fullmatch(text):
                    yield kind, f"…{text}" if text[0] in ",;:" else text
                for inner in _not_shown(node):
                    yield from self._texts(inner, kind, names)
                return
            case _:
                pass
        yield from self._within(node, kind, names)


def _last(node: ast.expr) -> str:
    """Return the last of the names that a dotted one consists of; of several, of the first."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Tuple(elts=[first, *_]):
            return _last(first)
        case _:
            return ""


def _given_to(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _names_shown(node: ast.expr) -> Iterator[str]:
    """Yield the names whose values are shown as they are: alone, in a text, or in a list."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Call() | ast.Attribute() | ast.Subscript():
            pass
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _names_shown(child)


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_text(left) or _is_text(right)
        case _:
            return False


def _text(node: ast.expr, names: Mapping[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text.replace("{}", "…")
        case ast.JoinedStr(values=values):
            return "".join(_text(value, names) for value in values)
        case ast.BinOp(left=left, right=right):
            return _text(left, names) + _text(right, names)
        case ast.IfExp(body=body, orelse=orelse):
            longer = max(_text(body, names), _text(orelse, names), key=len)
            return longer if " " in longer else "…"
        case ast.FormattedValue(value=value) | ast.Call(func=ast.Attribute(value=value, attr="rstrip" | "strip")):
            return _text(value, names)
        case ast.Name(id=name) if name in names:
            return _text(names[name], {})
        case _:
            return "…"


def _not_shown(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of a text that `_text` does not show."""
    match node:
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _not_shown(value)
        case ast.BinOp(left=left, right=right):
            yield from _not_shown(left)
            yield from _not_shown(right)
        case ast.FormattedValue(value=value) | ast.Call(func=ast.Attribute(value=value, attr="rstrip" | "strip")):
            yield from _not_shown(value)
        case ast.IfExp(body=body, orelse=orelse):
            longer, shorter = sorted((body, orelse), key=lambda part: len(_text(part, {})), reverse=True)
            yield from _not_shown(longer)
            yield shorter
        case ast.Constant():
            pass
        case _:
            yield node


def _constants(tree: ast.Module) -> Mapping[str, ast.expr]:
    """Return what the names of a module stand for, of those that it binds once, to a text."""
    return {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(node.value, (ast.Constant, ast.JoinedStr))
    }


def filled(page: str) -> tuple[str, set[str]]:
    """Return the page with all texts, and where the texts are from that no section takes."""
    wanted = {name: section[1] for section in _SECTION.finditer(page) for name in section[1].split()}
    lists: dict[str, set[str]] = {heads: set() for heads in wanted.values()}
    homeless: set[str] = set()
    for origin, texts in found_texts().items():
        takers = [name for name in wanted if _takes(name, origin)]
        if takers:
            lists[wanted[max(takers, key=_exactness)]].update(texts)
        else:
            homeless.add(origin)
    blocks = {heads: "".join(f"{text}\n" for text in sorted(texts, key=_order)) for heads, texts in lists.items()}
    return (
        _SECTION.sub(
            lambda section: f"<!-- texts of {section[1]} -->\n\n```text\n{blocks[section[1]]}```\n", page
        ),
        homeless,
    )


def _takes(name: str, origin: str) -> bool:
    folder, _, kind = name.partition(":")
    module, _, found = origin.partition(":")
    return kind in {"*", found} and (folder in {"*", module} or module.startswith(f"{folder}/"))


def _exactness(name: str) -> tuple[int, bool]:
    folder, _, kind = name.partition(":")
    return len(folder.strip("*")), kind != "*"


def _order(text: str) -> tuple[str, str]:
    return re.sub(r"\W", "", text).lower(), text


def main(words: list[str]) -> Iterator[str]:
    """Do what the words of the command line say, and yield what is to be printed."""
    page = PAGE.read_text(encoding="utf-8")
    new, homeless = filled(page)
    yield from (f"no section takes the texts of {origin}" for origin in sorted(homeless))
    if "--fill" in words:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        yield "docs/errors.md does not have all texts: make errors"


if __name__ == "__main__":
    sys.exit("\n".join(main(sys.argv[1:])) or None)
