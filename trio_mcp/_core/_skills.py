"""The rules of skills, for both sides: what SKILL.md says, digests, names, URIs, and what is approved.

Decisions only: no I/O, no Trio, no clock. PyYAML reads frontmatter, and is imported when the first is read.

Spec: extension io.modelcontextprotocol/skills (SEP-2640); the format of skills, agentskills.io/specification.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final
from urllib.parse import unquote

import attrs

from .._codec._json import is_array, is_object
from .._limits import check_given
from .._printable import kind_shown
from ._skill_entries import Skill
from ._uri_template import pct_encoded

IDENTIFIER: Final = "io.modelcontextprotocol/skills"
SKILL_FILE: Final = "SKILL.md"
DIRECTORY_TYPE: Final = "inode/directory"

MAX_SKILL_FILES: Final = 512
MAX_SKILL_BYTES: Final = 16 << 20
"""What every host takes ("Limits")."""

MAX_FRONTMATTER_BYTES: Final = 256 << 10
MAX_FRONTMATTER_VALUES: Final = 10_000
MAX_FRONTMATTER_DEPTH: Final = 32
MAX_FRONTMATTER_DIRECTIVES: Final = 100
"""Ours. Far more than people write; what is beyond takes time and memory for nothing."""

MAX_DESCRIPTION: Final = 1_024
"""Characters (agentskills.io/specification, "description")."""

_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class InvalidSkill(ValueError):
    """SKILL.md, or what a server says of a skill, breaks a rule."""


# Frontmatter. Whoever verifies a skill reads its YAML, too, and must find the same values, so they are those of
# YAML 1.2 (core schema), as in JavaScript: PyYAML by itself would make `no` false, `12:30` 750 and `2026-01-02` a
# date. Only its parser is used, which goes through a text once and makes nothing of it.


def split_skill(data: bytes) -> tuple[str, str]:
    """Return the frontmatter of a SKILL.md, as YAML, and what follows it.

    Raises:
        InvalidSkill: It has none.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSkill("it is not UTF-8") from error
    begin = re.match(r"---[ \t]*\r?\n", text)
    end = None if begin is None else re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE).search(text, begin.end())
    if begin is None or end is None:
        raise InvalidSkill("it does not begin with frontmatter, which is YAML between two lines ---")
    return text[begin.end() : end.start()], text[end.end() :]


def read_frontmatter(data: bytes) -> dict[str, Any]:
    """Return the frontmatter of a SKILL.md, as JSON.

    Raises:
        InvalidSkill: It has none, or one that cannot be read, or that has no form in JSON.
        RuntimeError: PyYAML is not installed.
    """
    text, _ = split_skill(data)
    if len(text.encode()) > MAX_FRONTMATTER_BYTES:
        raise InvalidSkill(f"its frontmatter has more than {MAX_FRONTMATTER_BYTES} bytes")
    if len(re.findall(r"^%", text, re.MULTILINE)) > MAX_FRONTMATTER_DIRECTIVES:  # compared with each other
        raise InvalidSkill(f"its frontmatter has more than {MAX_FRONTMATTER_DIRECTIVES} lines that begin with %")
    value = _read_yaml(text)
    if not is_object(value):
        raise InvalidSkill("its frontmatter is no mapping")
    return value


def check_frontmatter(frontmatter: Mapping[str, Any], name: str) -> None:
    """Check what every frontmatter must have.

    Args:
        frontmatter: The frontmatter.
        name: What the directory is called.

    Raises:
        InvalidSkill: It does not.
    """
    given = frontmatter.get("name")
    if given is None:
        raise InvalidSkill(f"its frontmatter has no name, and its directory is called {name!r:.80}")
    if given != name:
        raise InvalidSkill(f"its name is {given!r:.80}, and its directory is called {name!r:.80}")
    if _NAME.fullmatch(name) is None:
        raise InvalidSkill(
            f"{name!r:.80} is no name of a skill: 1 to 64 of a-z, 0-9 and -, none at the ends and no two together"
        )
    description = frontmatter.get("description")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= MAX_DESCRIPTION:
        found = f"of {len(description)}" if isinstance(description, str) else kind_shown(description)
        raise InvalidSkill(f"its description must be a text of 1 to {MAX_DESCRIPTION} characters, not {found}")


def _events(text: str) -> Iterator[Any]:
    try:
        import yaml
    except ImportError as error:
        raise RuntimeError("skills need PyYAML: pip install 'trio-mcp[skills]'") from error
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    parse: Callable[..., Iterator[Any]] = yaml.parse
    try:
        yield from parse(text, Loader=loader)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        if mark is None:
            raise InvalidSkill(f"its frontmatter is no YAML: {' '.join(str(error).split())}") from error
        problem = str(getattr(error, "problem", ""))
        hint = "; a text with ': ' in it needs quotes" if "mapping values" in problem else ""
        line = mark.line + 2  # the first one of the file is ---
        raise InvalidSkill(f"its frontmatter is no YAML: line {line}: {problem}{hint}") from error


def _read_yaml(text: str) -> Any:
    """Read a document of YAML as JSON, without recursion, in the order of its events."""
    reader = _Reader()
    for event in _events(text):
        reader.take(type(event).__name__, event)
    return reader.root


_NOTHING: Final = object()


@final
class _Open:
    """A mapping or a sequence that has not ended."""

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = _NOTHING


@final
class _Reader:
    """Makes a value of the events of one document."""

    def __init__(self) -> None:
        self.root: Any = _NOTHING
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def take(self, kind: str, event: Any) -> None:
        match kind:
            case "ScalarEvent":
                self._scalar(event)
            case "MappingStartEvent" | "SequenceStartEvent":
                if event.tag not in {None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}:
                    raise InvalidSkill(f"its frontmatter has the tag {event.tag:.80}, which JSON has not")
                if len(self._open) >= MAX_FRONTMATTER_DEPTH:
                    raise InvalidSkill(f"its frontmatter is nested deeper than {MAX_FRONTMATTER_DEPTH}")
                self._weigh(1)
                value: Any = {} if kind == "MappingStartEvent" else []
                self._open.append(_Open(value, event.anchor))
            case "MappingEndEvent" | "SequenceEndEvent":
                ended = self._open.pop()
                self._add(ended.value, ended.anchor)
            case "AliasEvent":
                if event.anchor not in self._anchors:
                    raise InvalidSkill(
                        f"its frontmatter has the alias {event.anchor:.80} without an anchor before it"
                    )
                value, count = self._anchors[event.anchor]
                self._weigh(count)
                self._add(value, None)
            case "DocumentStartEvent":
                if self.root is not _NOTHING:
                    raise InvalidSkill("its frontmatter is more than one document")
            case _:
                pass  # the stream, and the end of the document

    def _weigh(self, count: int) -> None:
        self._count += count
        if self._count > MAX_FRONTMATTER_VALUES:
            raise InvalidSkill(f"its frontmatter has more than {MAX_FRONTMATTER_VALUES} values")

    def _scalar(self, event: Any) -> None:
        self._weigh(1)
        is_key = bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is _NOTHING
        # Keys are strings in JSON, so they are what is written there.
        self._add(event.value if is_key else _plain(event), event.anchor)

    def _add(self, value: Any, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, _count(value)
        if not self._open:
            self.root = value
            return
        at = self._open[-1]
        if isinstance(at.value, list):
            at.value.append(value)
        elif at.key is _NOTHING:
            if not isinstance(value, str):
                raise InvalidSkill("its frontmatter has a key that is no text")
            if value in at.value:
                raise InvalidSkill(f"its frontmatter has the key {value!r:.80} twice")
            at.key = value
        else:
            at.value[at.key] = value
            at.key = _NOTHING


def _count(value: Any) -> int:
    """Return how many values there are in a value, itself included. It is nested no deeper than is allowed."""
    if is_object(value):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if is_array(value) else 1


_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: Final[Sequence[tuple[re.Pattern[str], Callable[[str], Any]]]] = (
    (re.compile(r"[-+]?[0-9]{1,300}"), int),
    (re.compile(r"0o[0-7]{1,300}"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]{1,300}"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda _: math.nan),
)
_TAGS: Final[Mapping[str, tuple[type, ...]]] = {
    "tag:yaml.org,2002:null": (type(None),),
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (float, int),
}


def _plain(event: Any) -> Any:
    """Return what a scalar means (YAML 1.2.2, section 10.3.2)."""
    tag, text = event.tag, event.value
    if tag in {"!", "tag:yaml.org,2002:str"} or (tag is None and not event.implicit[0]):
        return text
    if tag is not None and tag not in _TAGS:
        raise InvalidSkill(f"its frontmatter has the tag {tag:.80}, which JSON has not")
    value = _WORDS[text] if text in _WORDS else _number(text)
    if tag is not None and type(value) not in _TAGS[tag]:
        raise InvalidSkill(f"its frontmatter has {text!r:.80} with the tag {tag}")
    return value


def _number(text: str) -> Any:
    read = next((read for pattern, read in _NUMBERS if pattern.fullmatch(text)), None)
    if read is None:
        return text
    value = read(text)
    if isinstance(value, int) and abs(value) >= 1 << 63:
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSkill(f"its frontmatter has the number {text!r:.80}, which JSON has not")
    return value


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, nested no deeper than frontmatter may be: 1 is 1.0, and not true."""
    waiting = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if is_object(a) and is_object(b):
            if a.keys() != b.keys():
                return False
            waiting += ((value, b[name]) for name, value in a.items())
        elif is_array(a) and is_array(b):
            if len(a) != len(b):
                return False
            waiting += zip(a, b, strict=True)
        elif isinstance(a, (int, float)) and isinstance(b, (int, float)):
            if isinstance(a, bool) is not isinstance(b, bool) or _as_read(a) != _as_read(b):
                return False
        elif type(a) is not type(b) or a != b:
            return False
    return True


def _as_read(number: float) -> float:
    """Return a number as JavaScript reads it; one that no float can hold is infinite there."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# Digests, URIs, entries.


def digest_of(data: bytes) -> str:
    """Return the digest of a file."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def root_of(uri: str) -> str:
    """Return the directory of a skill, with a slash at the end.

    Raises:
        InvalidSkill: The URI is not that of a SKILL.md in a directory.
    """
    root = uri.removesuffix(SKILL_FILE)
    if root == uri or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^?#]*[^/?#]/", root) is None:
        raise InvalidSkill(f"{uri!r:.200} is no URI of a {SKILL_FILE} in a directory")
    return root


def check_skill(skill: Skill) -> None:
    """Check what a server says of a skill, before anything of it is read.

    Raises:
        InvalidSkill: It breaks a rule of the extension, or the skill is larger than skills may be.
    """
    root = root_of(skill.uri)
    check_frontmatter(skill.frontmatter, unquote(root[:-1].rpartition("/")[2]))
    resources = skill.resources
    if isinstance(resources, str):
        return
    if len(resources) > MAX_SKILL_FILES:
        raise InvalidSkill(f"it has {len(resources)} files; a skill may have {MAX_SKILL_FILES}")
    listed = {resource.uri for resource in resources}
    if len(listed) != len(resources) or skill.uri not in listed:
        raise InvalidSkill(f"its files are not each listed once, {SKILL_FILE} among them")
    for resource in resources:
        inner = resource.uri.removeprefix(root)
        if inner == resource.uri or not inner or {".", "..", ""} & set(unquote(inner).split("/")):
            raise InvalidSkill(f"it lists {resource.uri!r:.200}, which is not in its directory")
        if _DIGEST.fullmatch(resource.digest) is None or resource.size < 0:
            raise InvalidSkill(f"{resource.uri!r:.200} has no valid digest and size")
    size = sum(resource.size for resource in resources)
    if size > MAX_SKILL_BYTES:
        raise InvalidSkill(f"its files have {size} bytes; those of a skill may have {MAX_SKILL_BYTES}")


def resolve(skill: Skill, relative: str) -> str:
    """Return the URI of a file of a skill, by its path from the skill's directory, as a text there has it.

    Args:
        skill: The skill.
        relative: The path, with ``/``. ``..`` may be in it, if it does not lead out.

    Raises:
        ValueError: It leads out of the directory, or is no such path.
    """
    root = root_of(skill.uri)
    if "://" in relative:
        path = relative.removeprefix(root)
        instead = "" if path == relative or not path else f": write {path!r:.200}"
        raise ValueError(f"a path from the skill's directory is needed, not the URI {relative!r:.200}{instead}")
    names: list[str] = []
    for name in relative.split("/"):
        if name == "..":
            if not names:
                raise ValueError(f"{relative!r:.200} leads out of the skill")
            names.pop()
        elif name not in {"", "."}:
            names.append(name)
    if not names or relative.startswith("/") or "\\" in relative:
        raise ValueError(f"{relative!r:.200} is no path of a file in the skill, such as references/GUIDE.md")
    if not isinstance(skill.resources, str):
        wanted = "/".join(names)
        for resource in skill.resources:
            inner = resource.uri.removeprefix(root)
            if wanted in {inner, unquote(inner)}:
                return resource.uri
    return root + "/".join(map(pct_encoded, names))


def _files(given: Iterable[Sequence[str]]) -> frozenset[tuple[str, str]]:
    return frozenset((uri, digest) for uri, digest in given)


@final
@attrs.frozen
class SkillApproval:
    """That somebody has approved a skill: of one server, and with exactly these files.

    Attributes:
        server: What the host calls the server; not what the server calls itself.
        uri: The skill.
        files: The URI and the digest of each of its files.

    Spec: SEP-2640, "Security Considerations", "Content-bound approval".
    """

    server: str
    uri: str
    files: frozenset[tuple[str, str]] = attrs.field(converter=_files)

    @classmethod
    def of(cls, server: str, skill: Skill) -> SkillApproval:
        """Return the approval of a skill as it is.

        Raises:
            TypeError: It is none.
            ValueError: Its files are made when they are read (``"dynamic"``), so nothing can be bound to them.
        """
        check_given(SkillApproval.of, {"server": server, "skill": skill})
        if isinstance(skill.resources, str):
            raise ValueError(f"{skill.uri:.200} is dynamic: what it will contain cannot be approved beforehand")
        return cls(server, skill.uri, ((resource.uri, resource.digest) for resource in skill.resources))

    def covers(self, server: str, skill: Skill) -> bool:
        """Whether it holds for a skill of a server. If not, somebody must be asked again."""
        check_given(SkillApproval.covers, {"server": server, "skill": skill})
        if (server, skill.uri) != (self.server, self.uri) or isinstance(skill.resources, str):
            return False
        return self.files == frozenset((resource.uri, resource.digest) for resource in skill.resources)
