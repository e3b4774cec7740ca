"""Docstrings of all styles, tidy and untidy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_schema import Docstring, parse_docstring

SAID = {
    "title": "Exact title as printed on the cover.",
    "copies": "How many, at least 1.",
    "tags": "Words to find it by.",
    "options": "Whatever else.",
}

GOOGLE = """Reserve copies of a book.

    The shelf is asked first.

    Args:
        title: Exact title as printed
            on the cover.
        copies (int, optional): How many, at least 1.
        *tags: Words to find it by.
        **options (Mapping[str, Callable[[int], str]]):
            Whatever else.

    Returns:
        Reservation: What was reserved.

    Raises:
        OutOfStock: There is none: try later.
    """

NUMPY = """
    Reserve copies of a book.

    The shelf is asked first.

    Parameters
    ----------
    title : str
        Exact title as printed
        on the cover.
    copies : int, optional
        How many, at least 1.
    *tags
        Words to find it by.
    **options : dict of str to object
        Whatever else.

    Returns
    -------
    Reservation
        What was reserved.

    Raises
    ------
    OutOfStock
        There is none.

    See Also
    --------
    order : Something else.
    """

REST = """Reserve copies of a book.

    The shelf is asked first.

    :param str title: Exact title as printed
        on the cover.
    :param copies: How many, at least 1.
    :type copies: int
    :param tags: Words to find it by.
    :keyword options:
        Whatever else.
    :returns: What was
        reserved.
    :rtype: Reservation
    :raises OutOfStock: There is none.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["Google", "NumPy", "reST"])
def test_three_styles_say_the_same(text: str) -> None:
    """A tool's author keeps the style of their project."""
    said = parse_docstring(text)
    assert said.summary == "Reserve copies of a book.\n\nThe shelf is asked first."
    assert said.first_paragraph == "Reserve copies of a book."
    assert dict(said.arguments) == SAID
    assert said.returns == "What was reserved."


CASES: dict[str, tuple[str | None, str, dict[str, str], str | None]] = {
    "nothing": (None, "", {}, None),
    "empty": ("  \n\t\n ", "", {}, None),
    "one line": ("Add two numbers.", "Add two numbers.", {}, None),
    "only sections": ("Args:\n    a: First.\n", "", {"a": "First."}, None),
    "tabs": ("Add.\n\n\tArgs:\n\t\ta: First.\n\t\tb: Second.\n", "Add.", {"a": "First.", "b": "Second."}, None),
    "wrong indentation": (
        "Add.\n\n  Args:\n      a: First\n       and more.\n     b: Second.\n",
        "Add.",
        {"a": "First and more.", "b": "Second."},
        None,
    ),
    "unindented entries": (
        "Add.\n\nArgs:\na: First.\nb (int): Second.\n\nMore text.",
        "Add.\n\nMore text.",
        {"a": "First.", "b": "Second."},
        None,
    ),
    "unindented entries up to the next section": (
        "Add.\n\nArgs:\na: First.\nReturns:\n    The sum.",
        "Add.",
        {"a": "First."},
        "The sum.",
    ),
    "a header with nothing below": ("Add.\n\nArgs:\n\nReturns:", "Add.\n\nArgs:\n\nReturns:", {}, None),
    "a header with prose below": ("Add.\n\nArgs:\nnone at all", "Add.\n\nArgs:\nnone at all", {}, None),
    "text after the sections": (
        "Add.\n\nArgs:\n    a: First.\n\nThe order does not matter.\n",
        "Add.\n\nThe order does not matter.",
        {"a": "First."},
        None,
    ),
    "text after NumPy's sections": (
        "Add.\n\nParameters\n----------\na : int\n    First.\n\nThe order, by the way, is free.\n",
        "Add.\n\nThe order, by the way, is free.",
        {"a": "First."},
        None,
    ),
    "text after fields": (
        "Add.\n\n:param a: First.\n:param b: Second,\nwrapped badly.\n\nThe order is free.",
        "Add.\n\nThe order is free.",
        {"a": "First.", "b": "Second, wrapped badly."},
        None,
    ),
    "paragraphs and lists": (
        "Add.\n\nArgs:\n    a: First.\n\n        Not the second:\n        - nor the\n          third,\n        2. nor this.\n    b: Second.\n",
        "Add.",
        {"a": "First.\n\nNot the second:\n- nor the third,\n2. nor this.", "b": "Second."},
        None,
    ),
    "colons in texts": (
        'Add.\n\nArgs:\n    a: One of: "x", "y" (default: "x").\n    url: Such as http://a: a link.\n',
        "Add.",
        {"a": 'One of: "x", "y" (default: "x").', "url": "Such as http://a: a link."},
        None,
    ),
    "text before the first entry": (
        "Add.\n\nArgs:\n    These are taken\n    a: First.",
        "Add.",
        {"a": "First."},
        None,
    ),
    "attributes": (
        "A line.\n\nAttributes:\n    sku: Article.\n\nArgs:\n    sku: Again.\n    n: Count.",
        "A line.",
        {"sku": "Article.", "n": "Count."},
        None,
    ),
    "several names": (
        "Add.\n\nParameters\n----------\na, b : int\n    Numbers.\n\nOther Parameters\n================\nc\n    Third.\n",
        "Add.",
        {"a": "Numbers.", "b": "Numbers.", "c": "Third."},
        None,
    ),
    "NumPy returns prose": ("Add.\n\nReturns\n-------\nThe sum of\nboth.\n", "Add.", {}, "The sum of both."),
    "NumPy returns a complicated type": (
        "Add.\n\nReturns\n-------\nlist[dict[str, int]]\n    The sums.\n",
        "Add.",
        {},
        "The sums.",
    ),
    "a NumPy section with a gap": (
        "Add.\n\nParameters\n----------\n\na : int\n    First.",
        "Add.",
        {"a": "First."},
        None,
    ),
    "an empty NumPy section": ("Add.\n\nParameters\n----------\n", "Add.", {}, None),
    "returns without a type": (
        "Add.\n\nReturns:\n    The sum, note: rounded.",
        "Add.",
        {},
        "The sum, note: rounded.",
    ),
    "returns with a union": ("Add.\n\nReturns:\n    list[int] | None: The sums.", "Add.", {}, "The sums."),
    "returns twice": ("Add.\n\n:return: One.\n:returns: Two.", "Add.", {}, "One."),
    "returns inline": ("Add.\n\nReturns: the sum.", "Add.\n\nReturns: the sum.", {}, None),
    "prose sections stay": (
        "Add.\n\nNote:\n    Slow.\n\nExample:\n    >>> add(1, 2)\n\nYields:\n    Numbers.",
        "Add.\n\nNote:\n    Slow.\n\nExample:\n    >>> add(1, 2)",
        {},
        None,
    ),
    "unknown fields stay": ("Add.\n\n:note: Slow.\n:param: Nameless.", "Add.\n\n:note: Slow.", {}, None),
    "parameters without text": (
        "Add.\n\nArgs:\n    a:\n    b: Second.\n\n:param c:",
        "Add.",
        {"b": "Second."},
        None,
    ),
}


def test_untidy_docstrings_are_read_as_meant(subtests: pytest.Subtests) -> None:
    """People do not run a linter over the docstrings of their tools."""
    for name, case in CASES.items():
        with subtests.test(name):
            text, summary, arguments, returns = case
            assert parse_docstring(text) == Docstring(summary, arguments, returns)


def test_a_type_before_the_text_is_left_out() -> None:
    for kind in ("int", "a.B", "list[str]", "dict[str, list[int]] | None", "int|str", "a[b] | c[d | e[f]] | g"):
        assert parse_docstring(f"Do.\n\nReturns:\n    {kind}: what: ever").returns == "what: ever"
    for text in ("a b: c", "int:c", "[a]: c", "a[b]c: d", "a|: b", "5: c"):
        assert parse_docstring(f"Do.\n\nReturns:\n    {text}").returns == text


LINES = st.lists(
    st.sampled_from(
        [
            "",
            "Args:",
            "Returns:",
            "Parameters",
            "---",
            "====",
            ":param a: x",
            ":returns:",
            "a: b",
            "a (int): b",
            "*b : int",
            "text",
            "- item",
            ":",
            "()",
        ]
    ).flatmap(lambda line: st.sampled_from(["", " ", "    ", "\t"]).map(lambda indent: indent + line))
)


@given(st.one_of(st.text(), LINES.map("\n".join)))
def test_odd_text_is_never_an_error(text: str) -> None:
    """A docstring must not keep a server from starting."""
    said = parse_docstring(text)
    assert all(said.arguments.values())
    assert said.returns != ""
