"""The documentation as a site: nothing public is missing on it, and nothing that is on it is made up.

How the pages look, and whether all links of the site lead somewhere, `make docs` shows.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import tomllib
from typing import Final

import assemble
import attrs
import error_texts
import pytest
from places import ROOT
from shared.site import shown

import trio_mcp

DOCS: Final = ROOT / "docs"
REFERENCE: Final = sorted(DOCS.glob("reference/*.md"))


def test_every_public_name_is_in_the_reference_once() -> None:
    """On a page about what it is for."""
    listed = [
        assemble.place_of(name)
        for page in REFERENCE
        for name in assemble.names_on(page.read_text(encoding="utf-8"))
    ]
    public = {
        (package, name)
        for package, module in assemble.PACKAGES.items()
        for name in module.__all__
        if name not in {"__version__", "types"}
    }
    assert sorted(listed) == sorted(public)


def test_every_page_of_the_reference_has_an_example() -> None:
    """It is run by `test_documents`; so every public name is on a page that has one."""
    for page in REFERENCE:
        assert "\n```python\n" in page.read_text(encoding="utf-8"), page.name


def test_everything_in_the_reference_can_be_described() -> None:
    """An alias and a constant need a docstring, for Sphinx finds none for them."""
    for page in REFERENCE:
        for name in assemble.names_on(page.read_text(encoding="utf-8")):
            assert name.rpartition(".")[2] in assemble.described([name])


def test_what_a_property_is_comes_without_a_colon() -> None:
    """Sphinx takes what is before a colon in its first line for its type, and shows it below the rest."""
    for module in assemble.PACKAGES.values():
        for name in module.__all__:
            members = inspect.getmembers(getattr(module, name), lambda each: isinstance(each, property))
            for member, value in members:
                first = "" if member[0] == "_" else (value.__doc__ or "").partition("\n")[0]
                assert not re.search(r":.", re.sub(r"`[^`]*`", "", first)), f"{name}.{member}"


def test_every_page_is_on_the_front_page() -> None:
    """Of which the menus are made. The page of an example is listed with the examples."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    front = assemble.with_menus(assemble.Page(DOCS / "index.md", "index.md", assemble.pages()).with_links(text))
    listed = {
        line
        for menu in re.findall(r"```{toctree}\n(.*?)```", front, re.DOTALL)
        for line in menu.split("\n")
        if ".md" in line
    }
    places = {place for place in assemble.pages().values() if not place.startswith("examples/")}
    assert listed == places - {"index.md"}


def test_links_become_those_of_the_site() -> None:
    """What is no page is named, and not linked."""
    page = assemble.Page(DOCS / "reference" / "types.md", "reference/types.md", assemble.pages())
    assert page.with_links("[a](../client.md#opening) [b](#c) [d](https://e.f)") == (
        "[a](../client.md#opening) [b](#c) [d](https://e.f)"
    )
    assert page.with_links("[`x.py`](../../examples/demo.py) [log](../../CHANGELOG.md)") == (
        "[`x.py`](../examples/demo.md) [log](../changelog.md)"
    )
    assert page.with_links("[the table](../../Makefile)\n```\n[no](../../Makefile)\n```\n") == (
        "the table\n```\n[no](../../Makefile)\n```\n"
    )
    assert page.with_links("![plot](../../benchmarks/plots/soak.svg)") == "![plot](../images/soak.svg)"
    assert list(page.images) == ["images/soak.svg"]


# The changelog.


def test_every_fragment_is_collected() -> None:
    """One of a kind that is not known would be left out without a word, and one that is long is not read."""
    towncrier = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in towncrier["type"]}
    assert "fixed" in kinds
    for fragment in assemble.fragments():
        assert re.fullmatch(rf"\+[\w-]+\.({'|'.join(kinds)})\.md", fragment.name), fragment.name
        assert 0 < len(fragment.read_text(encoding="utf-8").split()) <= 150, fragment.name


def test_the_changelog_takes_fragments_and_is_grouped_by_subject() -> None:
    """Above the newest release. The first one was not collected, and is read at one go."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    before, mark, after = text.partition("<!-- fragments are collected below -->\n")
    assert mark
    assert "\n## " not in before
    first = after[after.index("\n## 0.1.0") :]
    assert len(re.findall(r"^### ", first, re.MULTILINE)) > 8
    assert len(first.splitlines()) <= 120


# Errors.


def test_every_text_of_an_error_is_explained() -> None:
    """`make errors` puts the texts into the section that takes them; for others, write a section."""
    page = error_texts.PAGE.read_text(encoding="utf-8")
    new, homeless = error_texts.filled(page)
    assert homeless == set()
    assert new == page, "make errors"
    sections = re.split(r"^##+ ", page, flags=re.MULTILINE)
    explained = [section for section in sections if "<!-- texts of" in section]
    assert len(explained) > 20
    for section in explained:
        assert "**Why.**" in section, section
        assert "**What to do.**" in section, section


OF_OTHERS: Final = frozenset(
    {
        "unable to get local issuer certificate",
        "self-signed certificate",
        "Hostname mismatch, certificate is not valid for",
        "Connection refused",
        "Address already in use",
        "Request Entity Too Large",
        "no running event loop",
        "trio.run received unrecognized yield message",
    }
)
"""Words of the system, of OpenSSL, nginx, asyncio and Trio, that stand in the texts of ours or in place of them."""


def test_what_is_met_first_is_said_like_that() -> None:
    """The table at the top of the page is written by hand."""
    page = error_texts.PAGE.read_text(encoding="utf-8")
    table = page[page.index("## Met first") : page.index("## It hangs")]
    cells = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[2:]
    met = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell) if " " in text]
    assert len(met) > 30
    said = "\n".join(set[str]().union(*error_texts.found_texts().values()))
    parts = {part.strip(" :;'") for text in met for part in re.split(r"…|\d+(?:/minute)?|SIGKILL|: ", text)}
    assert {part for part in parts if " " in part and part not in said} == OF_OTHERS


async def test_asyncio_in_a_handler_is_said_like_that(caplog: pytest.LogCaptureFixture) -> None:
    """In the log of the server: the client gets a masked error."""
    server: trio_mcp.Server[None] = trio_mcp.Server("asyncio")

    @server.tool
    async def sleep() -> None:
        await asyncio.sleep(1)

    @server.tool
    async def yield_once() -> None:
        await asyncio.sleep(0)

    page = error_texts.PAGE.read_text(encoding="utf-8")
    row = next(line for line in page.split("\n") if "no running event loop" in line)
    texts = [text.rstrip(" …") for text in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(texts) == 2
    async with trio_mcp.open_client(server) as client:
        for name, text in zip(("sleep", "yield_once"), texts, strict=True):
            result = await client.call_tool(name)
            assert result.text == f"{name} failed. The server's log says why."
            assert text in caplog.text


def test_texts_are_found_wherever_an_error_is_made() -> None:
    """By its class, by one of its subclasses, by a function that returns one; with what varies left out."""
    found = error_texts.found_texts()
    assert "there are … servers" in " ".join(found["_client/_group:ValueError"])
    assert "McpASGI runs already" in found["_hosts/_asgi:RuntimeError"]
    assert "KeyringTokenStore needs keyring: pip install keyring" in found["_auth/_stores:RuntimeError"]
    assert sum(map(len, found.values())) > 1_300


FORMS: Final = (
    ("raise ValueError('the moon is away')", "ValueError"),
    ("problem = 'the moon is away'\n    raise ValueError(problem)", "ValueError"),
    ("problem = 'the moon is away' if it else ''\n    raise ValueError(problem)", "ValueError"),
    ("text = 'moon: '\n    text += 'the moon is away'\n    raise ValueError(text)", "ValueError"),
    ('raise ValueError(f\'moon{", the moon is away" if it else ", perhaps far"}\')', "ValueError"),
    ("raise ConfigError('mcp.json', ['the moon is away'])", "ConfigError"),
    ("raise KeyError('the moon is away')", "KeyError"),
    ("raise AttributeError('the moon is away')", "AttributeError"),
    ("raise OSError(98, 'the moon is away', 'path')", "OSError"),
    ("raise trio.ClosedResourceError('the moon is away')", "ClosedResourceError"),
    ("raise TokenRefused('the moon is away')", "TokenRefused"),
    ("raise ProofRefused('the moon is away')", "ProofRefused"),
    ("raise AskRefused('sampling/createMessage', 'the moon is away')", "AskRefused"),
    ("raise made('the moon is away')", "ToolError"),
    ("raise self._made('the moon is away')", "ToolError"),
    ("given('the moon is away')", "TypeError"),
    ("problems.append('the moon is away')\n    raise ConfigError('mcp.json', problems)", "text"),
    ("self.problem = 'the moon is away'", "text"),
    ("return 'the moon is away'", "text"),
    ("yield 'the moon is away'", "text"),
    ("return {'moon': 'the moon is away'}[it]", "text"),
    ("look(moon='the moon is away')", "text"),
    ("log.warning('the sun shines')\n    raise look('the moon is away')", "text"),
    ("scope.cancel(reason='the sun shines')\n    return 'the moon is away'", "text"),
    ("nursery.start_soon(look, name='the sun shines')\n    return 'the moon is away'", "text"),
)


NEW_MODULE: Final = """
class Made(ToolError):
    def __str__(self) -> str:
        return repr(self)

def made(why: str) -> Made:
    return Made(why)

def given(why: str) -> None:
    raise TypeError(why)

class Moon:
    def _made(self, why: str) -> Made | None:
        return Made(why)

def f(it):
    "The sun shines."
    {}
"""


def test_a_new_text_is_found_in_each_form() -> None:
    """Also one that is first kept somewhere, or goes through another function; and nothing that is no error."""
    modules = {f"_client/_moon_{number}": NEW_MODULE.format(body) for number, (body, _) in enumerate(FORMS)}
    found = error_texts.found_texts(modules)
    new = {origin: texts for origin, texts in found.items() if "moon" in origin}
    assert list(new) == [f"_client/_moon_{number}:{kind}" for number, (_, kind) in enumerate(FORMS)]
    for texts in new.values():
        assert any("the moon is away" in text for text in texts)
        assert not any("sun" in text for text in texts)


def test_a_new_module_needs_a_section_for_its_texts() -> None:
    """Where the class of an error is not seen, no section takes a text by accident."""
    page = error_texts.PAGE.read_text(encoding="utf-8")
    sections = re.findall(r"<!-- texts of (.*?) -->", page)
    assert not any("*:text" in section.split() for section in sections)


def test_what_is_left_out_of_the_texts_is_there() -> None:
    """A name that is gone could leave out something else one day."""
    for module, names in error_texts.ELSEWHERE.items():
        source = (error_texts.PACKAGE / f"{module}.py").read_text(encoding="utf-8")
        for name in names.split():
            assert re.search(rf"(def|class) {name}\b|\b{name}(: [^=]+|, \w+)? \+?= ", source), f"{module}: {name}"


# Limits.


SETTINGS: Final = (
    "Limits",
    "HttpServerSettings",
    "SocketServerSettings",
    "HttpSettings",
    "HttpServerParameters",
    "WebSocketServerParameters",
    "RestartPolicy",
)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_limit_is_on_the_page_with_its_default(name: str) -> None:
    """And what one sees of it when it is reached."""
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    parts = [part for part in text.split("\n## ") if f"\n\nFields of `{name}`.\n" in part]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", "\n".join(parts), re.MULTILINE)
    fields: dict[str, object] = {field.name: field.default for field in attrs.fields(getattr(trio_mcp, name))}
    limits = {
        field: shown(field, default)
        for field, default in fields.items()
        if isinstance(default, (int, float)) and not isinstance(default, bool)
    }
    assert {field: default for field, default, _ in rows} == limits
    assert len(rows) == len(limits)


def test_the_readme_says_how_to_install_before_anything_is_used() -> None:
    """In the words of the page about that: from a clone, as long as there is no release."""
    before, _, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python")
    page = (DOCS / "install.md").read_text(encoding="utf-8")
    for words in ("There is no release on PyPI yet", "cd trio_mcp ", "pip install .", "uv add /path/to/trio_mcp"):
        assert words in before
        assert words in page


def test_every_extra_is_on_the_page_about_installing() -> None:
    """With what it is for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (DOCS / "install.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == sorted(project["optional-dependencies"])
