"""Every sentence of the authorization pages that demands something has a rule, and every rule tests or a reason.

That the tests are there is seen where they are collected: `test_table`.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from authorization_rules import Rules
from keyword_sentences import EXTENSION, REVISIONS, keyword_sentences, sentences_of_pages

PAGE = """\
---
title: It MUST not be read
---

It **MUST** be read. This need not be; but
it _SHOULD_, where
[a link](https://example.com/MUST) is.

## One: section

- An item **MUST** be one: Another
  is not.
- **SHOULD NOT** be left out

```text
It MUST be left out.
```

### Two

| a | REQUIRED |
| b | not |

A [paragraph](#x)
that MUST be one. MUSTARD.
"""


def test_every_sentence_has_a_rule_and_every_rule_a_test_or_a_reason() -> None:
    assert list(Rules().problems()) == []


def test_every_revision_with_authorization_is_there() -> None:
    assert list(Rules().where) == [*REVISIONS, EXTENSION]


def test_what_is_missing_is_found() -> None:
    rules = Rules()
    collected = {f"tests/{test}" for rule in rules.rules for test in rule.tests}
    assert list(rules.problems(collected)) == []
    first = rules.rules[0]
    (gone,) = first.tests
    assert f"there is no test {gone}" in "\n".join(rules.problems(collected - {f"tests/{gone}"}))
    for changed in (
        attrs.evolve(first, sentences=first.sentences[1:]),
        attrs.evolve(first, sentences=[*first.sentences, "00000000"]),
        attrs.evolve(first, sentences=[*first.sentences, *rules.rules[1].sentences]),
        attrs.evolve(first, tests=[]),
        attrs.evolve(first, reason="heading"),
        attrs.evolve(first, tests=[], reason="other"),
        attrs.evolve(first, level="MAY"),
        attrs.evolve(first, whose="nobody"),
    ):
        rules.rules[0] = changed
        assert list(rules.problems(collected)), changed


def test_which_sentences_of_a_page_demand_something() -> None:
    found = list(keyword_sentences(PAGE))
    assert [(section, text) for section, _, text in found] == [
        ("(top)", "It MUST be read."),
        ("(top)", "This need not be; but it _SHOULD_, where a link is."),
        ("One: section", "An item MUST be one:"),
        ("One: section", "SHOULD NOT be left out"),
        ("Two", "| a | REQUIRED |"),
        ("Two", "A paragraph that MUST be one."),
    ]
    assert len({digest for _, digest, _ in found}) == len(found)
    again = PAGE.replace("**", "").replace("https://example.com", "/elsewhere").replace("but\nit", "but it")
    assert [each[:2] for each in keyword_sentences(again)] == [each[:2] for each in found]


def test_pages_are_found_where_the_specification_has_them(tmp_path: Path) -> None:
    """One page, or a folder of them, for each revision; other pages are left out."""
    page = "## S\n\nThis MUST be."
    places = {
        "docs/specification/2025-06-18/basic/authorization.mdx": ("2025-06-18", "basic/authorization"),
        "docs/specification/2026-07-28/basic/authorization/index.mdx": (
            "2026-07-28",
            "basic/authorization/index",
        ),
        "docs/specification/2026-07-28/basic/lifecycle.mdx": None,
        "docs/specification/draft/basic/authorization/index.mdx": None,
        "specification/draft/one.mdx": (EXTENSION, "ext-auth/one"),
    }
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(page)
    found = sentences_of_pages(tmp_path, tmp_path)
    (digest,) = (digest for _, digest, _ in keyword_sentences(page))
    assert {(revision, name) for revision, pages in found.items() for name in pages} == {
        known for known in places.values() if known is not None
    }
    assert all(sections == {"S": [digest]} for pages in found.values() for sections in pages.values())
