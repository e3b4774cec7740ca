"""Puts the pages of the site together for Sphinx: those of docs/, the examples, the changelog, the API reference.

The pages are written for readers of the repository. What differs on the site is made here: links to what is
elsewhere in the repository, menus, and the descriptions of the names that the pages of docs/reference/ list.

    python docs/site/assemble.py build/docs/source
"""

from __future__ import annotations

import ast
import inspect
import itertools
import posixpath
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Final

import trio_mcp
from trio_mcp import testing, types

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PACKAGES: Final = {"trio_mcp": trio_mcp, "trio_mcp.types": types, "trio_mcp.testing": testing}

_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ITEM: Final = re.compile(r"^\* \[[^\]]*\]\(([\w./-]+\.md)\)", re.MULTILINE)
_NAME: Final = re.compile(r"^\* `([\w.]+)`$", re.MULTILINE)
_NAMES: Final = re.compile(r"(?:^\* `[\w.]+`\n)+", re.MULTILINE)


def pages() -> dict[Path, str]:
    """Return the files that become pages, with their places on the site."""
    found = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    found |= {path: f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))}
    found[ROOT / "examples" / "README.md"] = "examples.md"
    found[ROOT / "CHANGELOG.md"] = "changelog.md"
    found[ROOT / "CONTRIBUTING.md"] = "contributing.md"
    return found


def assemble(target: Path, *, changes: str = "") -> None:
    """Write the sources of the site.

    Args:
        target: The folder; what else is in it is removed.
        changes: What has changed since the last release, in Markdown.
    """
    places = pages()
    wanted: dict[Path, bytes] = {}
    for path, place in places.items():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            text = f"# {path.name}\n\n```python\n{text}```\n"
        elif path.name == "CHANGELOG.md":
            text = text.replace("<!-- fragments are collected below -->\n", changes)
        page = Page(path, place, places)
        text = page.with_links(text)
        wanted |= {target / name: image.read_bytes() for name, image in page.images.items()}
        if place == "index.md":
            text = with_menus(text)
        elif place == "examples.md":
            text += menu("", [place for place in places.values() if place.startswith("examples/")])
        elif place.startswith("reference/"):
            text = _NAMES.sub(lambda found: described(names_on(found[0])), text)
        wanted[target / place] = text.encode()
    for old in [path for path in target.rglob("*") if path.is_file() and path not in wanted]:
        old.unlink()
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:  # what is newer is read again by Sphinx
            path.write_bytes(content)


class Page:
    """One page, and where it leads to.

    Attributes:
        images: The images on it: their places on the site, and their files.
    """

    def __init__(self, path: Path, place: str, places: Mapping[Path, str]) -> None:
        self.images: dict[str, Path] = {}
        self._path = path
        self._folder = PurePosixPath(place).parent
        self._places = places

    def with_links(self, text: str) -> str:
        """Return its text with the links of the site; code is left alone."""
        return "".join(
            part if part.startswith("```") else _LINK.sub(self._link, part) for part in _FENCED.split(text)
        )

    def _link(self, found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        name, sharp, heading = target.partition("#")
        if "://" in target or not name:
            return found[0]
        file = (self._path.parent / name).resolve()
        if mark:
            place = f"images/{file.name}"
            self.images[place] = file
        elif file in self._places:
            place = self._places[file]
        else:
            return text if text.startswith("`") else f"`{file.relative_to(ROOT)}`" if text == target else text
        return f"{mark}[{text}]({posixpath.relpath(place, self._folder)}{sharp}{heading})"


def menu(caption: str, places: Iterable[str]) -> str:
    """Return the directive that puts pages into the menu of the site."""
    head = f":caption: {caption}\n" if caption else ""
    return "\n```{toctree}\n:hidden:\n" + head + "\n" + "\n".join(places) + "\n```\n"


def with_menus(text: str) -> str:
    """Return the front page with a menu below each heading, of the pages that are listed there."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    result = parts[0]
    for caption, part in zip(parts[1::2], parts[2::2], strict=True):
        places = _ITEM.findall(part)
        result += f"## {caption}\n{part}" + (menu(caption, places) if places else "")
    return result


def names_on(text: str) -> list[str]:
    """Return the public names that a page lists."""
    return [name for part in _NAMES.findall(text) for name in _NAME.findall(part)]


def described(names: Iterable[str]) -> str:
    """Return what Sphinx makes the descriptions of public names of."""
    return "```{eval-rst}\n" + "\n".join(map(_described, names)) + "\n```\n"


def place_of(name: str) -> tuple[str, str]:
    """Return the package that a public name is imported from, and the name there."""
    module, _, short = name.rpartition(".")
    return f"trio_mcp.{module}".removesuffix("."), short


def _described(name: str) -> str:
    package, short = place_of(name)
    value = getattr(PACKAGES[package], short)
    if inspect.isclass(value):
        inherits = any(base.__module__.startswith("trio_mcp._") for base in value.__mro__[1:])
        options = ["members", "inherited-members: object, Exception" if inherits else ""]
        if issubclass(value, Exception):
            options += ["show-inheritance"]
        return f".. autoclass:: {package}.{short}\n" + "".join(f"   :{option}:\n" for option in options if option)
    if inspect.isroutine(value):
        return f".. autofunction:: {package}.{short}\n"
    meaning, text = _alias(package, short)
    body = textwrap.indent(text, "   ")
    return f".. py:data:: {package}.{short}\n   :value: {meaning}\n\n{body}\n"


def _alias(package: str, name: str) -> tuple[str, str]:
    """Return what an alias or a constant stands for, and its docstring."""
    (home,) = re.findall(rf"^from \.(\S+) import {name} as {name}$", _public(package), re.MULTILINE)
    body = ast.parse(inspect.getsource(import_module(f".{home}", package))).body
    for statement, after in itertools.pairwise(body):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value), ast.Expr(
                ast.Constant(str(text))
            ):
                if found == name:
                    return ast.unparse(value), inspect.cleandoc(text)
            case _:
                pass
    raise LookupError(f"{package}.{name} has no docstring")


@cache
def _public(package: str) -> str:
    return inspect.getsource(import_module(f"{package}._public"))


def fragments() -> list[Path]:
    """Return the files with the changes that no release has collected yet."""
    return sorted(path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md")


def unreleased() -> str:
    """Return what has changed since the changelog was written, in Markdown; nothing if that is nothing."""
    if not fragments():
        return ""
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "Latest", "--date", "changes"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    return done.stdout.replace("## Latest (changes)", "## Latest changes, not released yet", 1)


if __name__ == "__main__":
    assemble(Path(sys.argv[1]), changes=unreleased())
