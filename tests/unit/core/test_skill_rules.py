"""What SKILL.md says, as every host reads it, and what a server may say of a skill. No I/O.

Spec: extension io.modelcontextprotocol/skills; agentskills.io/specification; YAML 1.2.2, section 10.3.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from inside_core import (
    MAX_FRONTMATTER_DEPTH,
    MAX_FRONTMATTER_VALUES,
    InvalidSkill,
    check_skill,
    digest_of,
    read_frontmatter,
    resolve,
    same_json,
    split_skill,
)

from trio_mcp import Skill, SkillApproval, SkillResource

DIGEST = "sha256:" + "0" * 64


def frontmatter(text: str) -> dict[str, Any]:
    read: dict[str, Any] = read_frontmatter(f"---\n{text}\n---\n".encode())
    return read


def test_values_are_those_of_yaml_1_2(subtests: pytest.Subtests) -> None:
    """As readers in other languages have them. Those of YAML 1.1 would be others, and dates no JSON at all."""
    cases: list[tuple[str, object]] = [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("2026-07-28", "2026-07-28"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1.10", 1.1),
        (".5", 0.5),
        ("-1e3", -1000.0),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
        ('"true"', "true"),
        ("'7'", "7"),
        ("!!str 7", "7"),
        ("! 7", "7"),
        ("!!int 7", 7),
        ("!!float 7", 7),
        ("[a, {b: [1]}]", ["a", {"b": [1]}]),
        ("|\n  one\n  two", "one\ntwo\n"),
        (">-\n  one\n  two", "one two"),
        ("&x [1]\ny: *x", [1]),
        ("12345678901234567890", 12345678901234567890.0),
        ("<<", "<<"),
    ]
    for written, value in cases:
        with subtests.test(written=written):
            found = frontmatter(f"x: {written}")["x"]
            assert found == value
            assert type(found) is type(value)


def test_keys_are_what_is_written() -> None:
    assert frontmatter("1: a\ntrue: b\n<<: {c: d}\n'x y': z") == {
        "1": "a",
        "true": "b",
        "<<": {"c": "d"},
        "x y": "z",
    }


def test_frontmatter_that_is_none(subtests: pytest.Subtests) -> None:
    cases: list[tuple[bytes, str]] = [
        (b"", "does not begin with frontmatter"),
        (b"# Title\n---\na: 1\n---\n", "does not begin with frontmatter"),
        (b"---\nname: x\n", "does not begin with frontmatter"),
        (b"----\nname: x\n---\n", "does not begin with frontmatter"),
        (b"---\n---\n", "no mapping"),
        (b"---\n- a\n---\n", "no mapping"),
        (b"---\na: [\n---\n", "no YAML"),
        (b"---\na: 1\na: 2\n---\n", "the key 'a' twice"),
        (b"---\n? [x]\n: 1\n---\n", "a key that is no text"),
        (b"---\na: !!python/object/apply:os.system [x]\n---\n", "the tag"),
        (b"---\na: !!binary aGk=\n---\n", "the tag"),
        (b"---\na: !!timestamp 2026-01-01\n---\n", "the tag"),
        (b"---\na: !!int seven\n---\n", "with the tag"),
        (b"---\na: .inf\n---\n", "the number"),
        (b"---\na: .nan\n---\n", "the number"),
        (b"---\na: 1e999\n---\n", "the number"),
        (b"---\na: *b\n---\n", "without an anchor before it"),
        (b"---\na: &a [*a]\n---\n", "without an anchor before it"),
        (b"---\na: 1\n--- {b: 2}\n---\n", "more than one document"),
        (b"---\na: \xff\n---\n", "not UTF-8"),
        (b"---\na: " + b"x" * 300_000 + b"\n---\n", "more than 262144 bytes"),
        (b"---\na: " + b"[" * 200 + b"]" * 200 + b"\n---\n", "nested deeper"),
        (b"---\na: " + b"[" * 100_000 + b"\n---\n", "nested deeper|nesting depth"),
        (b"---\n" + b"".join(b"%%TAG !%x! b\n" % n for n in range(101)) + b"--- {a: 1}\n---\n", "begin with %"),
        (b"---\na: [" + b"1," * MAX_FRONTMATTER_VALUES + b"]\n---\n", "values"),
    ]
    for data, problem in cases:
        with subtests.test(data=data), pytest.raises(InvalidSkill, match=problem):
            read_frontmatter(data)


def test_aliases_cost_what_they_stand_for() -> None:
    """Ten lines could otherwise stand for a billion values."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(InvalidSkill, match=f"more than {MAX_FRONTMATTER_VALUES} values"):
        frontmatter("\n".join(lines))


def test_as_deep_as_is_allowed() -> None:
    inner = MAX_FRONTMATTER_DEPTH - 1
    assert frontmatter("a: " + "[" * inner + "]" * inner)
    with pytest.raises(InvalidSkill):
        frontmatter("a: " + "[" * (inner + 1) + "]" * (inner + 1))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_body_follows_the_frontmatter(end: str, mark: str) -> None:
    """A rule in the body is no end of it."""
    text = end.join([f"{mark}---", "name: a", "description: b", "---  ", "Body", "---", "more"])
    yaml, body = split_skill(text.encode())
    assert yaml == end.join(["name: a", "description: b", ""])
    assert body == end.join(["Body", "---", "more"])
    assert read_frontmatter(text.encode()) == {"name": "a", "description": "b"}


def test_without_the_compiled_parser_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.delattr(yaml, "CSafeLoader")
    assert frontmatter("a: [no, 010, {b: c}]") == {"a": ["no", 10, {"b": "c"}]}
    with pytest.raises(InvalidSkill, match=r"no YAML|nested deeper"):
        frontmatter("a: " + "[" * 2_000)


def test_without_pyyaml_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "yaml", None)
    with pytest.raises(RuntimeError, match=r"pip install 'trio-mcp\[skills\]'"):
        frontmatter("a: 1")


def test_the_same_json(subtests: pytest.Subtests) -> None:
    cases: list[tuple[object, object, bool]] = [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ("1", 1, False),
        ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([], {}, False),
        ("a", "a", True),
    ]
    for one, other, same in cases:
        with subtests.test(one=one, other=other):
            assert same_json(one, other) is same
            assert same_json(other, one) is same


def test_numbers_that_no_float_can_hold_are_compared_all_the_same() -> None:
    large = 10**400
    assert same_json({"a": large}, {"a": large})
    for other in (1, -large, 1.5, "1", True):
        assert not same_json({"a": large}, {"a": other})
        assert not same_json([other], [large])


# What a server says.


def skill(**changed: Any) -> Skill:
    files = [SkillResource(uri=f"skill://acme/refunds/{name}", digest=DIGEST, size=5) for name in FILES]
    said: dict[str, Any] = {
        "uri": "skill://acme/refunds/SKILL.md",
        "frontmatter": FRONTMATTER,
        "resources": files,
    }
    return Skill(**{**said, **changed})


FILES = ("SKILL.md", "references/a%20b.md", "x/SKILL.md")
FRONTMATTER = {"name": "refunds", "description": "Give money back."}


def file(uri: str = "skill://acme/refunds/SKILL.md", digest: str = DIGEST, size: int = 5) -> SkillResource:
    return SkillResource(uri=uri, digest=digest, size=size)


def test_a_skill_that_breaks_no_rule() -> None:
    check_skill(skill())
    check_skill(skill(resources="dynamic"))
    check_skill(skill(uri="github://me/it/refunds/SKILL.md", resources="dynamic"))
    assert (skill().name, skill().description) == ("refunds", "Give money back.")
    assert skill(frontmatter={}).description == ""


def test_a_skill_that_breaks_a_rule(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"uri": "skill://acme/refunds/skill.md"}, "no URI of a SKILL.md"),
        ({"uri": "skill:///SKILL.md"}, "no URI of a SKILL.md"),
        ({"uri": "skill://SKILL.md"}, "no URI of a SKILL.md"),
        ({"uri": "SKILL.md"}, "no URI of a SKILL.md"),
        ({"uri": "skill://refunds//SKILL.md"}, "no URI of a SKILL.md"),
        ({"frontmatter": {**FRONTMATTER, "name": "other"}}, "its name is 'other'"),
        (
            {"frontmatter": {"description": "x"}},
            "its frontmatter has no name, and its directory is called 'refunds'",
        ),
        ({"frontmatter": {"name": "refunds"}}, "its description"),
        ({"frontmatter": {"name": "refunds", "description": " "}}, "its description"),
        ({"frontmatter": {"name": "refunds", "description": "x" * 1_025}}, "its description"),
        (
            {"uri": "skill://a--b/SKILL.md", "frontmatter": {"name": "a--b", "description": "x"}},
            "no name of a skill",
        ),
        ({"resources": []}, "not each listed once"),
        ({"resources": [file(), file()]}, "not each listed once"),
        ({"resources": [file("skill://acme/refunds/other.md")]}, "not each listed once"),
        ({"resources": [file(), file("skill://acme/other/x")]}, "not in its directory"),
        ({"resources": [file(), file("skill://acme/refunds/../x")]}, "not in its directory"),
        ({"resources": [file(), file("skill://acme/refunds/%2e%2e/x")]}, "not in its directory"),
        ({"resources": [file(), file("skill://acme/refunds/")]}, "not in its directory"),
        ({"resources": [file(digest="sha256:" + "A" * 64)]}, "no valid digest"),
        ({"resources": [file(digest="md5:" + "0" * 64)]}, "no valid digest"),
        ({"resources": [file(size=-1)]}, "no valid digest"),
        ({"resources": [file(size=(16 << 20) + 1)]}, "16777217 bytes"),
        ({"resources": [file(), *(file(f"skill://acme/refunds/{n}") for n in range(512))]}, "513 files"),
    ]
    for changed, problem in cases:
        with subtests.test(changed=changed), pytest.raises(InvalidSkill, match=problem):
            check_skill(skill(**changed))


def test_the_limits_themselves_are_allowed() -> None:
    """Hosts must take skills up to and including them ("Limits")."""
    check_skill(skill(resources=[file(size=16 << 20)]))
    check_skill(skill(resources=[file(), *(file(f"skill://acme/refunds/{n}", size=0) for n in range(511))]))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("SKILL.md", "SKILL.md"),
        ("./references/a b.md", "references/a%20b.md"),
        ("references/a%20b.md", "references/a%20b.md"),
        ("references/../x//SKILL.md", "x/SKILL.md"),
        ("new one.md", "new%20one.md"),
        ("é", "%C3%A9"),
        ("a?b#c", "a%3Fb%23c"),
    ],
)
def test_paths_are_those_from_the_skills_own_directory(path: str, found: str) -> None:
    """ "Relative References"."""
    assert resolve(skill(), path) == f"skill://acme/refunds/{found}"
    if "%20" not in path:
        assert resolve(skill(resources="dynamic"), path) == f"skill://acme/refunds/{found}"


def test_no_path_leads_out(subtests: pytest.Subtests) -> None:
    for path in ("", ".", "..", "../x", "a/../../x", "/etc/passwd", "a\\b", "a/.."):
        with subtests.test(path=path), pytest.raises(ValueError, match=r"leads out|no path of a file"):
            resolve(skill(), path)


def test_an_approval_holds_for_a_server_a_skill_and_its_files() -> None:
    """ "Content-bound approval": whatever changes among the files ends it."""
    approval = SkillApproval.of("docs", skill())
    assert approval.covers("docs", skill(frontmatter={}))
    assert approval == SkillApproval("docs", approval.uri, [list(pair) for pair in approval.files])
    assert not approval.covers("other", skill())
    assert not approval.covers("docs", skill(uri="skill://refunds/SKILL.md"))
    for files in ([file()], [*skill().resources, file("skill://acme/refunds/new")], "dynamic"):
        assert not approval.covers("docs", skill(resources=files))
    assert not approval.covers("docs", skill(resources=[file(digest=digest_of(b"")), *skill().resources[1:]]))
    with pytest.raises(ValueError, match="cannot be approved beforehand"):
        SkillApproval.of("docs", skill(resources="dynamic"))
