"""Skills of a server: directories with a SKILL.md, their files as resources, and the methods of the extension.

What SKILL.md must say, and what digests are, is in `_core/_skills`; how files are opened, in `_files`. Imported
when the first skill is added.

Spec: extension io.modelcontextprotocol/skills (SEP-2640).
"""

from __future__ import annotations

import os
import stat
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import attrs

from .. import types
from .._codec import _json
from .._core._skill_entries import (
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsResult,
    ReadDirectoryRequestParams,
    ReadDirectoryResult,
    Skill,
    SkillResource,
)
from .._core._skills import (
    DIRECTORY_TYPE,
    IDENTIFIER,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    InvalidSkill,
    check_frontmatter,
    digest_of,
    read_frontmatter,
)
from .._core._uri_matching import Found
from .._core._uri_template import VariableRule, check_uri, normalised
from .._errors import INVALID_PARAMS, RequestError
from .._limits import Limits
from .._logs import Log
from .._printable import printable
from ..types._fields import evolve
from ._context import Context
from ._extensions import ServerExtension
from ._files import (
    MAX_SCANNED,
    FileTooLarge,
    described_file,
    encoded_name,
    entries_below,
    file_contents,
    is_plain_name,
    open_below,
    read_in_thread,
    read_open_file,
)
from ._listing import Entry, Listing, PageMembers, Registry, check_scope, check_ttl, read_params
from ._reading import Reading, ResourceSource, guess_type
from ._resources import RegisteredResource
from ._threads import Threads

_log: Final = Log("trio_mcp.server")

SCHEME: Final = "skill://"

RECENT_NS: Final = 2_000_000_000
"""How long after it was changed a file may change again without a new time: clocks of file systems are coarse."""

_PATH: Final = VariableRule(with_slashes=frozenset({"path"}))

_Names: TypeAlias = tuple[str, ...]


def prefix_of(path: str) -> _Names:
    """Return the segments that come before the name of a skill.

    Raises:
        ValueError: They are no path.
    """
    names = tuple(path.split("/")) if path else ()
    if not all(is_plain_name(name) for name in names):
        raise ValueError(f"a prefix is a path such as acme/billing, not {path!r:.200}")
    return names


@final
@attrs.frozen(eq=False, kw_only=True)
class SkillRoot:
    """A directory that is a skill, or has skills in it.

    Attributes:
        path: Its absolute path.
        prefix: The segments of URIs before what is below it.
        is_skill: Whether it is a skill itself.
        nested: Whether skills within skills are skills of their own, too.
        ttl: For how many seconds clients may keep what they have read.
        scope: Whether they may share it.
    """

    path: str
    prefix: _Names
    is_skill: bool
    nested: bool
    ttl: float = attrs.field(default=0.0, validator=check_ttl)
    scope: types.CacheScope = attrs.field(default="private", validator=check_scope)

    def uri(self, names: Sequence[str]) -> str:
        """Return the URI of what is at a path below it."""
        return SCHEME + "/".join(map(encoded_name, (*self.prefix, *names)))


@final
@attrs.frozen(eq=False)
class _Known:
    """A file whose bytes were looked at.

    Attributes:
        signature: What changes when the file does.
        digest: The digest of its bytes.
        size: How many there are.
        frontmatter: What is written before its text, or why that cannot be read, if it is a SKILL.md.
    """

    signature: tuple[int, ...]
    digest: str
    size: int
    frontmatter: Mapping[str, Any] | InvalidSkill | None


@final
@attrs.frozen(eq=False)
class _File:
    """A file that is served.

    Attributes:
        root: Where it is.
        names: Its path from there.
        resource: What clients see.
    """

    root: SkillRoot
    names: _Names
    resource: types.Resource


@final
@attrs.frozen(eq=False)
class Snapshot:
    """All skills of a server, at one moment.

    Attributes:
        skills: The skills, by the URI of their SKILL.md, in that order.
        roots: Where each of them is.
        files: All files of theirs, by URI.
        folders: What is directly in each directory, by its URI.
    """

    skills: Mapping[str, Skill]
    roots: Mapping[str, SkillRoot]
    files: Mapping[str, _File]
    folders: Mapping[str, Sequence[types.Resource]]

    @property
    def hint(self) -> tuple[int, types.CacheScope]:
        """For how many milliseconds a list of all may be kept, and by whom: the least of each."""
        ttl = min((root.ttl for root in self.roots.values()), default=0.0)
        is_public = bool(self.roots) and all(root.scope == "public" for root in self.roots.values())
        return round(ttl * 1000), "public" if is_public else "private"


NO_SKILLS: Final = Snapshot({}, {}, {}, {})


@final
class SkillCatalog:
    """The skills of a server. What looks at the disk blocks, and is called in threads.

    Each look finds what has changed, and files whose size and times are as before are not read again.

    Args:
        limits: Limits how large files may be.
        on_change: Called, in any thread, when a look has found that something has changed.
        max_scanned: How many files and folders of a directory are looked at.
    """

    def __init__(self, limits: Limits, on_change: Callable[[], object], max_scanned: int = MAX_SCANNED) -> None:
        self._limits = limits
        self._max_scanned = max_scanned
        self._on_change = on_change
        self._roots: list[SkillRoot] = []
        self._known: dict[tuple[str, _Names], _Known] = {}
        self._lock = threading.Lock()
        self._begun = 0
        self._done = 0
        self._bases: tuple[str, ...] = ()
        self._warned: set[str] = set()
        self.last = NO_SKILLS

    def add(self, root: SkillRoot, is_taken: Callable[[str], bool]) -> None:
        """Add a directory.

        Args:
            root: The directory.
            is_taken: Whether something else is registered at a URI.

        Raises:
            ValueError: There is no skill in it; or one of them breaks a rule, or is where another one is, or
                where another resource is.
        """
        check_uri(root.uri(("x",)))
        with self._lock:
            added = self._look([*self._roots, root], refuse=root)
            taken = next(filter(is_taken, added.files), None)
            if taken is not None:
                raise InvalidSkill(f"there is a resource at {taken!r} already: give the skill a prefix")
            self._roots.append(root)
            self._bases += (f"{root.uri(())}/" if root.prefix else SCHEME,)
            self.last = added

    def look(self) -> Snapshot:
        """Return the skills as they are now. One that has become invalid is left out, and logged."""
        begun = self._begun
        with self._lock:
            before = now = self.last
            if self._done <= begun:  # else somebody has looked for all who waited meanwhile
                self._begun += 1
                now = self.last = self._look(self._roots)
                self._done = self._begun
        if before.skills != now.skills:
            self._on_change()
        return now

    def has(self, uri: str) -> bool:
        """Whether a file of a skill was at a URI when they were looked at last."""
        return normalised(uri) in self.last.files

    def offers(self, uri: str) -> bool:
        """Whether a URI, in its normal form, is below a directory of skills."""
        return uri.startswith(self._bases)

    def _look(self, roots: Sequence[SkillRoot], refuse: SkillRoot | None = None) -> Snapshot:
        building = _Building()
        known: dict[tuple[str, _Names], _Known] = {}
        for root in roots:
            try:
                tree = _Tree.below(root, self._max_scanned)
                found = list(tree.skills(root))
            except InvalidSkill as error:
                if root is refuse:
                    raise
                self._warn(error)
                continue
            for folder in found:
                try:
                    building.add(root, tree, folder, partial(self._read, root, known))
                except InvalidSkill as error:
                    problem = InvalidSkill(f"the skill in {Path(root.path, *folder)} cannot be served: {error}")
                    if root is refuse:
                        raise problem from error
                    self._warn(problem)
        self._known = known
        return building.snapshot()

    def _read(
        self, root: SkillRoot, known: dict[tuple[str, _Names], _Known], names: _Names, status: os.stat_result
    ) -> _Known:
        """Return what is known of a file, after reading it if it may have changed."""
        key = root.path, names
        if key in known:
            return known[key]  # of an enclosing skill
        signature = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        before = self._known.get(key)
        is_old = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > RECENT_NS
        if before is None or before.signature != signature or not is_old:
            try:
                data = read_open_file(open_below(root.path, names, hidden=False), self._limits.max_file_bytes)
            except (OSError, FileTooLarge) as error:
                raise InvalidSkill(f"{'/'.join(names)} cannot be read: {error}") from error
            before = _Known(signature, digest_of(data), len(data), _frontmatter_of(names, data))
        known[key] = before
        return before

    def _warn(self, error: InvalidSkill) -> None:
        text = str(error)
        if text not in self._warned and len(self._warned) < MAX_SKILL_FILES:
            self._warned.add(text)
            _log.warning("a skill is left out: %s", text)


def _frontmatter_of(names: _Names, data: bytes) -> Mapping[str, Any] | InvalidSkill | None:
    if names[-1] != SKILL_FILE:
        return None
    try:
        frontmatter = read_frontmatter(data)
        _json.encode(frontmatter)
    except InvalidSkill as error:
        return error
    except ValueError as error:  # half of a surrogate pair
        return InvalidSkill(f"its frontmatter has no form in JSON: {error}")
    return frontmatter


@final
@attrs.frozen(eq=False)
class _Tree:
    """What is below a directory.

    Attributes:
        files: The files, by path, in order.
        folders: The paths of the folders, in order, the directory itself included.
    """

    files: Mapping[_Names, os.stat_result]
    folders: Sequence[_Names]
    _paths: Sequence[_Names] = attrs.field(
        init=False, default=attrs.Factory(lambda self: list(self.files), takes_self=True)
    )

    @classmethod
    def below(cls, root: SkillRoot, most: int) -> _Tree:
        """Look at a directory.

        Raises:
            InvalidSkill: It has more entries than are looked at.
        """
        files: dict[_Names, os.stat_result] = {}
        waiting: list[_Names] = [()]
        folders: list[_Names] = []
        room = most
        while waiting:
            folder = waiting.pop()
            folders.append(folder)
            scanned, entries = entries_below(root.path, folder, room + 1, hidden=False)
            room -= scanned
            if room < 0:
                raise InvalidSkill(f"{root.path} has more than {most} files and folders")
            for name, status in entries:
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((*folder, name))
                elif stat.S_ISREG(status.st_mode):
                    files[*folder, name] = status
        return cls(dict(sorted(files.items(), key=lambda file: file[0])), sorted(folders))

    def skills(self, root: SkillRoot) -> Iterator[_Names]:
        """Yield the folders that are skills, those that enclose others before these.

        Raises:
            InvalidSkill: There is none.
        """
        found = sorted(names[:-1] for names in self.files if names[-1] == SKILL_FILE)
        is_skill = () in found
        if root.is_skill and not is_skill:
            raise InvalidSkill(f"{root.path} is no skill: {self._lacks(root.path, found)}")
        if not root.is_skill:
            found = [folder for folder in found if folder]
        if not found:
            hint = "; it is a skill itself: write add_skill" if is_skill else self._no_folder(root.path)
            raise InvalidSkill(f"there is no skill below {root.path}: a directory with a {SKILL_FILE}{hint}")
        outer: _Names | None = None
        for folder in found:
            is_inner = outer is not None and folder[: len(outer)] == outer
            if not is_inner:
                outer = folder
            if root.nested or not is_inner:
                yield folder

    def _lacks(self, path: str, found: Sequence[_Names]) -> str:
        others = [names[0] for names in self.files if len(names) == 1 and names[0].lower() == "skill.md"]
        hint = "; add_skills serves those below it" if found else ""
        hint = f", but {others[0]}: rename it" if others else hint
        return f"there is no {SKILL_FILE} in it{self._no_folder(path) or hint}"

    @staticmethod
    def _no_folder(path: str) -> str:
        if Path(path).is_dir():
            return ""
        return "; it is a file: write the directory of it" if Path(path).exists() else "; nothing is there"

    def within(self, folder: _Names) -> list[_Names]:
        """Return the files of a skill, SKILL.md first."""
        return sorted(_below(folder, self._paths), key=lambda names: names[len(folder) :] != (SKILL_FILE,))


def _below(folder: _Names, paths: Sequence[_Names]) -> Sequence[_Names]:
    """Return those paths, of some in order, that begin with another."""
    size = len(folder)
    begin = bisect_left(paths, folder, key=lambda names: names[:size])
    return paths[begin : bisect_right(paths, folder, key=lambda names: names[:size])]


@final
class _Building:
    """A snapshot that is being made."""

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}
        self._roots: dict[str, SkillRoot] = {}
        self._files: dict[str, _File] = {}
        self._folders: dict[str, dict[str, types.Resource]] = {}
        # Where skills are, and where folders that have some in them: no skill may be split over two directories.
        self._places: dict[_Names, SkillRoot] = {}
        self._enclosing: dict[_Names, list[SkillRoot]] = {}

    def add(
        self, root: SkillRoot, tree: _Tree, folder: _Names, read: Callable[[_Names, os.stat_result], _Known]
    ) -> None:
        """Add a skill.

        Raises:
            InvalidSkill: It breaks a rule, or is where another one is.
        """
        uri = root.uri((*folder, SKILL_FILE))
        self._check_place(root, uri, (*root.prefix, *folder))
        members = tree.within(folder)
        if len(members) > MAX_SKILL_FILES:
            raise InvalidSkill(f"it has {len(members)} files; a skill may have {MAX_SKILL_FILES}")
        total = sum(tree.files[names].st_size for names in members)
        if total > MAX_SKILL_BYTES:
            raise InvalidSkill(f"its files have {total} bytes; those of a skill may have {MAX_SKILL_BYTES}")
        known = {names: read(names, tree.files[names]) for names in members}
        frontmatter = known[*folder, SKILL_FILE].frontmatter
        if isinstance(frontmatter, InvalidSkill):
            raise frontmatter
        assert frontmatter is not None
        check_frontmatter(frontmatter, (*root.prefix, *folder)[-1])
        resources = [
            SkillResource(uri=root.uri(names), digest=of.digest, size=of.size) for names, of in known.items()
        ]
        self._skills[uri] = Skill(uri=uri, frontmatter=frontmatter, resources=resources)
        self._roots[uri] = root
        for names in members:
            is_own = names == (*folder, SKILL_FILE)
            if is_own or root.uri(names) not in self._files:
                self._add_file(root, names, tree.files[names], frontmatter if is_own else None)
        for inner in _below(folder, tree.folders):
            self._add_folder((*root.prefix, *inner))

    def _check_place(self, root: SkillRoot, uri: str, place: _Names) -> None:
        if uri in self._skills:
            raise InvalidSkill(f"there is another skill at {uri} already; give one of them a prefix")
        above = [place[:end] for end in range(1, len(place))]
        others = [self._places[one] for one in above if one in self._places] + self._enclosing.get(place, [])
        if any(other is not root for other in others):
            raise InvalidSkill(
                f"there is a skill in another directory of which {uri} would be a part, or the reverse"
            )
        self._places[place] = root
        for one in above:
            roots = self._enclosing.setdefault(one, [])
            if not roots or roots[-1] is not root:
                roots.append(root)

    def _add_file(
        self, root: SkillRoot, names: _Names, status: os.stat_result, frontmatter: Mapping[str, Any] | None
    ) -> None:
        uri = root.uri(names)
        # Clients show it, perhaps on a terminal; the URI is exact.
        name = printable(os.fsencode(names[-1]).decode(errors="replace"))
        resource = types.Resource(uri=uri, name=name, mime_type=guess_type(names[-1]))
        if frontmatter is not None:
            resource = evolve(resource, name=frontmatter["name"], description=frontmatter["description"])
        self._files[uri] = _File(root, names, described_file(resource, status))
        self._add_to(SCHEME + "/".join(map(encoded_name, (*root.prefix, *names[:-1]))), self._files[uri].resource)

    def _add_folder(self, names: _Names) -> None:
        """Add a folder, and those that it is in, to the first segment of the URI."""
        uri = SCHEME + "/".join(map(encoded_name, names))
        self._folders.setdefault(uri, {})
        if len(names) > 1:
            self._add_folder(names[:-1])
            above = SCHEME + "/".join(map(encoded_name, names[:-1]))
            name = printable(os.fsencode(names[-1]).decode(errors="replace"))
            self._add_to(above, types.Resource(uri=uri, name=name, mime_type=DIRECTORY_TYPE))

    def _add_to(self, folder: str, resource: types.Resource) -> None:
        self._folders.setdefault(folder, {})[resource.uri] = resource

    def snapshot(self) -> Snapshot:
        """Return what was added."""
        return Snapshot(
            dict(sorted(self._skills.items())),
            self._roots,
            dict(sorted(self._files.items())),
            {uri: [inner[one] for one in sorted(inner)] for uri, inner in self._folders.items()},
        )


TEMPLATE: Final = types.ResourceTemplate(
    uri_template=f"{SCHEME}{{+path}}", name="skills", description="The files of this server's skills."
)


@final
@attrs.frozen(eq=False, kw_only=True)
class SkillSource(ResourceSource):
    """The files of all skills, as resources.

    Attributes:
        catalog: The skills.
    """

    blocks = True
    template: types.ResourceTemplate | None = TEMPLATE
    catalog: SkillCatalog

    def match(self, uri: str) -> Found | None:
        """Return no variables for a URI that is below a directory of skills; only reading shows if it exists."""
        return {} if self.catalog.offers(uri) else None

    def check(self, values: Mapping[str, str | list[str]]) -> None:
        """Check a path that a client has typed for a completion. Reading takes only what is listed."""
        _PATH.check(values)

    def resources(self) -> Iterator[types.Resource]:
        """Yield the files of all skills."""
        return (file.resource for file in self.catalog.look().files.values())

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult:
        """Read a file."""
        del found
        uri = normalised(reading.uri)
        known = self.catalog.last.files.get(uri)

        def read(most: int) -> types.TextResourceContents | types.BlobResourceContents:
            file = known or self.catalog.look().files.get(uri)
            if file is None:
                raise FileNotFoundError(uri)
            data = read_open_file(open_below(file.root.path, file.names, hidden=False), most)
            return file_contents(reading.uri, data, None, file.names[-1])

        result = await read_in_thread(reading, read)
        root = known.root if known is not None else self.catalog.last.files[uri].root
        return evolve(result, ttl_ms=round(root.ttl * 1000), cache_scope=root.scope)


@final
@attrs.frozen(eq=False)
class SkillMethods:
    """The methods of the extension.

    Attributes:
        catalog: The skills.
        threads: Where the disk is looked at.
        listing: Cuts lists into pages.
    """

    catalog: SkillCatalog
    threads: Threads
    listing: Listing

    def extension(self) -> ServerExtension:
        """Return the extension, whose methods are for every client that has seen it declared."""
        handlers = {
            "skills/list": self.list_skills,
            "skills/get": self.get_skill,
            "resources/directory/read": self.read_directory,
        }
        return ServerExtension(
            IDENTIFIER, settings={"directoryRead": True}, request_handlers=handlers, open_to_all=handlers
        )

    async def list_skills(self, params: Mapping[str, Any], context: Context[Any]) -> ListSkillsResult:
        """Serve ``skills/list``."""
        del context
        now = await self.threads.run(self.catalog.look)
        entries = [Entry(0, uri, skill) for uri, skill in now.skills.items()]
        page, members = self.listing.page("skills/list", params, entries)
        return ListSkillsResult(skills=page, **_kept(members, *now.hint))

    async def get_skill(self, params: Mapping[str, Any], context: Context[Any]) -> GetSkillResult:
        """Serve ``skills/get``."""
        del context
        uri = read_params(params, GetSkillRequestParams).uri
        now = await self.threads.run(self.catalog.look)
        skill = now.skills.get(normalised(uri))
        if skill is None:
            raise RequestError(INVALID_PARAMS, f"no skill is served at {uri:.200}", {"uri": uri[:256]})
        root = now.roots[skill.uri]
        return GetSkillResult(skill=skill, ttl_ms=round(root.ttl * 1000), cache_scope=root.scope)

    async def read_directory(self, params: Mapping[str, Any], context: Context[Any]) -> ReadDirectoryResult:
        """Serve ``resources/directory/read``."""
        del context
        uri = normalised(read_params(params, ReadDirectoryRequestParams).uri)
        now = await self.threads.run(self.catalog.look)
        children = now.folders.get(uri)
        if children is None:
            problem = "is a file, and no directory" if uri in now.files else "is no directory of a skill"
            raise RequestError(INVALID_PARAMS, f"{uri:.200} {problem}", {"uri": uri[:256]})
        entries = [Entry(0, resource.uri, resource) for resource in children]
        page, members = self.listing.page(f"resources/directory/read {uri}", params, entries)
        return ReadDirectoryResult(resources=page, **_kept(members, *now.hint))


def _kept(members: PageMembers, ttl_ms: int, scope: types.CacheScope) -> PageMembers:
    return PageMembers(next_cursor=members["next_cursor"], ttl_ms=ttl_ms, cache_scope=scope)


def add_skills(
    root: SkillRoot,
    resources: Registry[RegisteredResource],
    limits: Limits,
    *,
    on_first: Callable[[SkillCatalog], object],
) -> SkillCatalog:
    """Add a directory of skills to the resources of a server.

    Args:
        root: The directory.
        resources: The resources; their `on_change` is called, also in threads.
        limits: See `SkillCatalog`.
        on_first: Called if it is the first one, before anything is registered.

    Returns:
        All skills of the server.

    Raises:
        ValueError: See `SkillCatalog.add`.
        Others: What `on_first` raises.
    """

    def is_taken(uri: str) -> bool:
        return resources.find(uri) is not None

    entry = resources.find(SCHEME)
    if entry is not None and isinstance(entry.item.source, SkillSource):
        entry.item.source.catalog.add(root, is_taken)
        resources.on_change()
        return entry.item.source.catalog
    catalog = SkillCatalog(limits, resources.on_change)
    catalog.add(root, is_taken)
    on_first(catalog)
    resources.add(SCHEME, RegisteredResource(source=SkillSource(catalog=catalog)))
    return catalog
