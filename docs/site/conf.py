"""How Sphinx builds the site, from the pages that `assemble` has put together; see `make docs`."""

from __future__ import annotations

import builtins
import inspect
from typing import TYPE_CHECKING

from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import stringify_annotation

import trio_mcp
from trio_mcp import testing, types

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "trio_mcp"
version = release = trio_mcp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nitpicky = True
# Those of examples lead nowhere.
linkcheck_ignore = [r"https?://([\w-]+\.)*example\.com\b", r"https?://(localhost|127\.0\.0\.1)\b"]
myst_heading_anchors = 4  # headings have the anchors that they have elsewhere, so one link is good for both

html_theme = "furo"
html_title = f"trio_mcp {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c8a", "color-brand-content": "#0b5c8a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4ee", "color-brand-content": "#7cc4ee"},
}
pygments_style = "friendly"
pygments_dark_style = "monokai"

default_role = "py:obj"
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88


PACKAGES = (trio_mcp, types, testing)
NAMES = {name for package in PACKAGES for name in package.__all__}


class Names(PythonDomain):
    """Names of Python. One that several things have is the shortest; a builtin is nobody's attribute."""

    def find_obj(
        self,
        env: BuildEnvironment,
        modname: str,
        classname: str,
        name: str,
        type: str | None,
        searchmode: int = 0,
    ) -> list[tuple[str, ObjectEntry]]:
        """Return what has the name, as Sphinx asks for it."""
        if hasattr(builtins, name):
            return []
        found = super().find_obj(env, modname, classname, name, type, searchmode)
        return sorted(found, key=lambda one: len(one[0]))[:1]


class Written:
    """An annotation as it is written: aliases by their names, and not as what they stand for."""

    def __init__(self, annotation: object) -> None:
        self._text = annotation if isinstance(annotation, str) else stringify_annotation(annotation, "smart")

    def __repr__(self) -> str:
        return self._text


def write_signature(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Return the signature of a class, function or method in the words of its source."""
    if what not in {"class", "exception", "function", "method"} or signature is None:
        return None
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    parameters = list(found.parameters.values())
    if what == "method" and parameters and parameters[0].name in {"self", "cls"}:
        del parameters[0]
    parameters = [
        one.replace(
            annotation=one.empty if one.annotation is one.empty else Written(one.annotation),
            default=Written("...") if "<" in repr(one.default) and one.default is not one.empty else one.default,
        )
        for one in parameters
    ]
    returned = found.return_annotation
    if what in {"class", "exception"} or returned is found.empty:
        returned = None
    else:
        returned = repr(Written(returned))
        if inspect.isasyncgenfunction(inspect.unwrap(value)):  # type: ignore[arg-type]
            returned = returned.replace("AsyncGenerator", "AbstractAsyncContextManager", 1)
    return str(inspect.Signature(parameters)), returned


def link_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """Return a link to one of our names from wherever it is; names of others are shown without one.

    What begins with one of ours and is not found is an error of the page.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    python = env.domains.python_domain
    for package in PACKAGES:
        owner, _, member = target.rpartition(".")
        # An argument of a class that keeps it by this name is described with the class.
        of_class = owner if member in getattr(getattr(package, owner, None), "__annotations__", ()) else target
        for full in (target, f"{package.__name__}.{target}", f"{package.__name__}.{of_class}"):
            if full in python.objects:
                place = python.objects[full]
                return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, shown, full)
    return None if target.removeprefix("trio_mcp.").partition(".")[0] in NAMES - {"types"} else shown


def skip_what_is_described(
    app: Sphinx, what: str, name: str, value: object, skip: object, options: object
) -> bool | None:
    """Leave out a property that the text of its class describes as an attribute."""
    if isinstance(value, property) and value.fget is not None:
        owner = value.fget.__qualname__.rpartition(".")[0]
        for package in PACKAGES:
            if f"\n    {name}:" in inspect.cleandoc(
                getattr(getattr(package, owner, None), "__doc__", None) or ""
            ):
                return True
    return None


def setup(app: Sphinx) -> None:
    """Add what is ours."""
    app.connect("autodoc-skip-member", skip_what_is_described)
    app.add_domain(Names, override=True)
    app.connect("autodoc-process-signature", write_signature)
    app.connect("missing-reference", link_name)
