"""What the authorization pages demand, rule by rule: whose duty each is, and which tests show it.

The rules are in ``tests/data/protocol/authorization_rules.toml``, and where their sentences are, in
``authorization_sentences.json`` beside it (`keyword_sentences`). `make protocol` writes both into docs/protocol.md.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import Final, final

import attrs
from keyword_sentences import EXTENSION, REVISIONS, Where
from places import DATA

__all__ = ["Rule", "Rules", "modules_of_rules"]

_HERE: Final = DATA / "protocol"
_LEVELS: Final = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "REQUIRED", "RECOMMENDED"}
_PARTIES: Final = {"client", "server", "authorization server", "identity provider", "deployment", "all"}

_HEAD: Final = """\
## Authorization, rule by rule

Every sentence of the authorization pages with one of the keywords MUST, SHOULD, REQUIRED and RECOMMENDED, in few words:
whose duty it is, and the tests that show it. Sentences that demand the same are one row. There are
{counts}.
What an authorization server must do is shown by the one for tests, `trio_mcp.testing.AuthorizationServer`, and what servers
of others may do wrong by what clients then do. In the place of tests a row may have the name of a reason: these are below.
"""


@final
@attrs.frozen(kw_only=True)
class Rule:
    """One row.

    Attributes:
        says: The rule in few words. With a level that ends in NOT, what is forbidden.
        level: Its keyword; the strongest, if sentences differ.
        whose: Whose duty it is, separated by commas.
        sentences: The digests of its sentences.
        tests: The tests that show it, below tests/.
        reason: The name of the reason why it has none.
        note: What is not as it reads.
    """

    says: str
    level: str
    whose: str
    sentences: list[str]
    tests: list[str] = attrs.field(factory=list[str])
    reason: str | None = None
    note: str | None = None


@cache
def modules_of_rules() -> frozenset[str]:
    """Return the modules of the rules' tests, below tests/."""
    return frozenset(test.partition("::")[0] for rule in Rules().rules for test in rule.tests)


@final
class Rules:
    """All rules, and where their sentences are."""

    def __init__(self) -> None:
        data = tomllib.loads((_HERE / "authorization_rules.toml").read_text(encoding="utf-8"))
        self.reasons: dict[str, str] = data["reasons"]
        self.rules = [Rule(**rule) for rule in data["rules"]]
        self.where: Where = json.loads((_HERE / "authorization_sentences.json").read_text(encoding="utf-8"))

    def problems(self, collected: Collection[str] | None = None) -> Iterator[str]:
        """Say what is wrong with the rules.

        Args:
            collected: The tests that there are, without their parameters; `None` if that is not known.
        """
        used = Counter(digest for rule in self.rules for digest in rule.sentences)
        known = {digest for digest, *_ in self._places()}
        for digest, revision, page, section in self._places():
            if digest not in used:
                yield f"{digest} ({revision}, {page}, {section!r}): no rule has this sentence"
        yield from (f"{digest}: no page has this sentence" for digest in used if digest not in known)
        yield from (f"{digest}: several rules have this sentence" for digest, n in used.items() if n > 1)
        for rule in self.rules:
            if bool(rule.tests) is (rule.reason is not None):
                yield f"{rule.says!r} must have either tests or a reason"
            if rule.level not in _LEVELS or not set(rule.whose.split(", ")) <= _PARTIES:
                yield f"{rule.says!r}: {rule.level} or {rule.whose} is not one of those that are known"
            for test in rule.tests:
                if collected is not None and f"tests/{test}" not in collected:
                    yield f"{rule.says!r}: there is no test {test}"
        given = {rule.reason for rule in self.rules if rule.reason is not None}
        yield from (f"{name!r} is no reason, or none that a rule has" for name in given ^ set(self.reasons))

    def markdown(self, links: Callable[[Iterable[str]], str]) -> Iterator[str]:
        """Yield the lines of the section in the document.

        Args:
            links: Writes tests with links to their modules.
        """
        counts = [f"{self._count(revision)} in {revision}" for revision in REVISIONS]
        yield _HEAD.format(counts=", ".join([*counts, f"and {self._count(EXTENSION)} in the two extensions"]))
        for title, rules in groupby(self.rules, self._title):
            yield from (
                f"### {title}",
                "",
                "| revisions | section | level | rule | whose | tests |",
                "| --- " * 6 + "|",
            )
            for rule in rules:
                shown = links(f"tests/{test}" for test in rule.tests) if rule.tests else f"*{rule.reason}*"
                noted = f"{shown}. {rule.note}" if rule.note else shown
                revisions, sections = self._revisions(rule), ", ".join(self._sections(rule))
                yield f"| {revisions} | {sections} | {rule.level} | {rule.says} | {rule.whose} | {noted} |"
            yield ""
        yield from (f"* *{name}*: {reason}" for name, reason in self.reasons.items())
        yield ""

    def _places(self) -> Iterator[tuple[str, str, str, str]]:
        for revision, pages in self.where.items():
            for page, sections in pages.items():
                for section, digests in sections.items():
                    for digest in digests:
                        yield digest, revision, page, section

    def _count(self, revision: str) -> int:
        return sum(each == revision for _, each, *_ in self._places())

    def _title(self, rule: Rule) -> str:
        pages = [page for digest, _, page, _ in self._places() if digest in rule.sentences]
        return pages[0] if pages and pages[0].startswith("ext-auth/") else "basic/authorization"

    def _sections(self, rule: Rule) -> list[str]:
        return list(dict.fromkeys(section for digest, *_, section in self._places() if digest in rule.sentences))

    def _revisions(self, rule: Rule) -> str:
        """Return them as few words: nearly always they follow one another."""
        found = {revision for digest, revision, *_ in self._places() if digest in rule.sentences}
        has = [revision for revision in REVISIONS if revision in found]
        if EXTENSION in found:
            return EXTENSION
        if len(has) == 1:
            return has[0]
        first, last = REVISIONS.index(has[0]), REVISIONS.index(has[-1])
        if last - first + 1 != len(has):
            return ", ".join(has)
        return f"since {has[0]}" if has[-1] == REVISIONS[-1] else f"{has[0]} to {has[-1]}"
