"""Files and directories as resources: their URIs, their lists, and the safe opening and reading of files.

What touches the disk blocks, and is called in threads. What bytes are is decided in `_reading`.
"""

from __future__ import annotations

import errno
import fnmatch
import itertools
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, final
from urllib.parse import unquote_to_bytes

import attrs
import trio

from .. import types
from .._core._uri_matching import Found
from .._core._uri_template import UNRESERVED, VariableRule, check_uri, normalised
from .._errors import INTERNAL_ERROR, RequestError, ResourceNotFound
from .._limits import MIB
from .._logs import Log
from .._printable import printable
from ..types._fields import evolve
from ._reading import PLAIN_TEXT, Reading, ResourceSource, blob_of, guess_type, text_of
from ._threads import PerRun

_log: Final = Log("trio_mcp.server")

_PATH: Final = VariableRule(with_slashes=frozenset({"path"}))

_Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

# Errors for a file that clients cannot have: it does not exist, or is something else.
_NOT_THERE: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENXIO}
)


def file_contents(uri: str, data: bytes, kind: str | None, name: str) -> _Contents:
    """Return the contents of a file: text if its type and its bytes allow it, else bytes.

    Args:
        uri: Its URI.
        data: Its bytes.
        kind: Its type, if that is known; else it is found by the name, then by the bytes.
        name: Its name.
    """
    kind = guess_type(name) if kind is None else kind
    text = text_of(data, kind)
    if text is not None:
        return types.TextResourceContents(uri=uri, mime_type=kind or PLAIN_TEXT, text=text)
    return blob_of(uri, data, kind)


SMALL_FILE: Final = MIB
"""Up to this size, files are read as they come."""

_large_reads: Final = PerRun(lambda: trio.CapacityLimiter(2))
"""Larger ones are read so many at a time: each is in memory three times on its way to the answer, which is then
counted."""


def _read_small(read: Callable[[int], _Contents], most: int) -> _Contents | None:
    """Return a file; `None` for a large one that may be read: an error would keep alive what is read later."""
    try:
        return read(min(most, SMALL_FILE))
    except FileTooLarge:
        if most <= SMALL_FILE:
            raise
        return None


async def read_in_thread(reading: Reading, read: Callable[[int], _Contents]) -> types.ReadResourceResult:
    """Read a file in a thread, and return it as a result.

    Args:
        reading: The request.
        read: Reads the file, if it has at most so many bytes.

    Raises:
        ResourceNotFound: There is none that may be read.
        RequestError: It is too large.
    """
    most = reading.limits.max_file_bytes
    try:
        # A thread that is left behind does no harm: it ends when the file is read.
        contents = await reading.threads.run(_read_small, read, most)
        if contents is None:
            async with _large_reads.get():
                contents = await reading.threads.run(read, most)
    except FileTooLarge as error:
        raise RequestError(
            INTERNAL_ERROR, f"Reading the resource failed: {error}", {"uri": reading.uri}
        ) from error
    except OSError as error:
        # Clients cannot distinguish a missing file from one that may not be read. The rest is a failure.
        if error.errno in _NOT_THERE or error.errno is None:
            raise ResourceNotFound from error
        raise
    return types.ReadResourceResult(contents=(contents,))


def described_file(resource: types.Resource, status: os.stat_result) -> types.Resource:
    """Add a file's size, and when it last changed (ISO 8601)."""
    changed: str | None = None
    try:
        moment = datetime.fromtimestamp(int(status.st_mtime), UTC)
        changed = moment.isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a time out of range, such as the year 30000
        pass
    annotations = resource.annotations or types.Annotations()
    if annotations.last_modified is None and changed is not None:
        annotations = evolve(annotations, last_modified=changed)
    return evolve(resource, size=status.st_size, annotations=annotations)


@final
@attrs.frozen(eq=False, kw_only=True)
class FileSource(ResourceSource):
    """One file.

    Attributes:
        path: Its absolute path, because programs change their directory.
        resource: What clients see, without its size and when it changed.
    """

    blocks = True
    path: str
    resource: types.Resource

    def resources(self) -> Iterator[types.Resource]:
        """Yield the file, if it exists."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return
        if stat.S_ISREG(status.st_mode):
            yield described_file(self.resource, status)

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult:
        """Read it."""
        del found
        return await read_in_thread(reading, partial(self._read, reading))

    def _read(self, reading: Reading, most: int) -> _Contents:
        data = read_file(self.path, most)
        return file_contents(reading.uri, data, self.resource.mime_type, Path(self.path).name)


@final
class _Glob:
    """A pattern of paths, as in `pathlib`: ``*`` within a name, ``**`` for any folders.

    Each step of the match is taken once, so no pattern is expensive.
    """

    def __init__(self, pattern: str) -> None:
        parts = pattern.split("/")
        if not all(is_plain_name(part, windows=False) for part in parts):
            raise ValueError(f"a pattern is a relative path such as **/*.md, not {pattern!r}")
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]
        if self._parts[-1] is None:
            raise ValueError(f"{pattern!r} means folders; write {pattern}/* for the files in them")

    def matches(self, names: Sequence[str]) -> bool:
        states = self._skipped({0})
        for name in names:
            reached: set[int] = set()
            for state in states:
                part = self._parts[state] if state < len(self._parts) else re.compile(r"(?!)")
                if part is None:
                    reached.add(state)
                elif part.match(name):
                    reached.add(state + 1)
            states = self._skipped(reached)
        return len(self._parts) in states

    def _skipped(self, states: set[int]) -> set[int]:
        found = set(states)
        for state in range(len(self._parts)):
            if state in found and self._parts[state] is None:
                found.add(state + 1)
        return found


MAX_LISTED: Final = 1_000
"""Files of one directory that are listed as resources: more than people look through. The others can be read."""

MAX_SCANNED: Final = 50_000
"""Files and folders of one directory that are looked at to find them: a second or two of a slow disk."""


@final
@attrs.frozen(eq=False, kw_only=True)
class DirectorySource(ResourceSource):
    """The files below a directory.

    Args:
        root: The directory; absolute.
        prefix: What the URIs of its files begin with; ends with a slash.
        pattern: Which files are served.
        hidden: Whether files are served whose name, or a folder's on the path, begins with a dot; also if a
            symbolic link of another name leads there.
        template: What clients see of all of them.
        max_scanned: How many files and folders are looked at to list them.

    Raises:
        ValueError: The pattern is not valid.
    """

    blocks = True
    template: types.ResourceTemplate
    root: str
    prefix: str = attrs.field(converter=normalised)
    _glob: _Glob = attrs.field(alias="pattern", converter=_Glob)
    hidden: bool
    max_scanned: int = MAX_SCANNED
    _warnings: list[str] = attrs.field(factory=list[str], init=False)

    def match(self, uri: str) -> Found | None:
        """Return the names on the path to the file that a URI means, if it may be read."""
        if not uri.startswith(self.prefix):
            return None
        rest = uri[len(self.prefix) :]
        if not rest or "?" in rest or "#" in rest:
            return None
        # Split before decoding: an encoded slash is part of a name, and no name has one.
        try:
            names = [os.fsdecode(unquote_to_bytes(part)) for part in rest.split("/")]
        except UnicodeDecodeError:  # where names are text, not bytes
            return None
        return {"path": names} if self._is_offered(names) else None

    def _is_offered(self, names: Sequence[str]) -> bool:
        return all(map(self._is_seen, names)) and self._glob.matches(names)

    def _is_seen(self, name: str) -> bool:
        return is_plain_name(name) and (self.hidden or not is_hidden(name))

    def check(self, values: Mapping[str, str | list[str]]) -> None:
        """Check a path that a client has typed for a completion. Reading checks more, name by name."""
        _PATH.check(values)

    async def read(self, reading: Reading, found: Found) -> types.ReadResourceResult:
        """Read a file."""
        return await read_in_thread(reading, partial(self._read, reading, found["path"]))

    def _read(self, reading: Reading, names: Sequence[str], most: int) -> _Contents:
        data = read_open_file(open_below(self.root, names, hidden=self.hidden), most)
        return file_contents(reading.uri, data, self.template.mime_type, names[-1])

    def resources(self) -> Iterator[types.Resource]:
        """Yield the files, by name, folder after folder, as many as are listed."""
        found = itertools.islice(self._walk(), MAX_LISTED + 1)
        for count, (names, status) in enumerate(found):
            if count == MAX_LISTED:
                self._warn_once(f"more than {count} files")
                return
            yield described_file(self._resource(names), status)

    def _resource(self, names: Sequence[str]) -> types.Resource:
        template = self.template
        # Clients show it, perhaps on a terminal; the URI is exact.
        path = printable(os.fsencode("/".join(names)).decode(errors="replace"))
        return types.Resource(
            uri=self.prefix + "/".join(map(encoded_name, names)),
            name=path,
            mime_type=template.mime_type or guess_type(names[-1]),
            annotations=template.annotations,
            icons=template.icons,
        )

    def _walk(self) -> Iterator[tuple[Sequence[str], os.stat_result]]:
        room = self.max_scanned
        folders: list[tuple[str, ...]] = [()]
        while folders:
            folder = folders.pop()
            scanned, entries = entries_below(self.root, folder, room, hidden=self.hidden)
            room -= scanned
            inner: list[tuple[str, ...]] = []
            for name, status in entries:
                names = (*folder, name)
                if stat.S_ISDIR(status.st_mode):
                    inner.append(names)
                elif stat.S_ISREG(status.st_mode) and self._glob.matches(names):
                    yield names, status
            folders += reversed(inner)
            if room <= 0:
                self._warn_once(f"more than {self.max_scanned} entries")
                return

    def _warn_once(self, problem: str) -> None:
        if not self._warnings:
            self._warnings.append(problem)
            _log.warning("%s has %s; not all are listed as resources", self.root, problem)


def entries_below(
    root: str, folder: Sequence[str], room: int, *, hidden: bool
) -> tuple[int, list[tuple[str, os.stat_result]]]:
    """Return how many entries of a folder were looked at, and those that are served, by name.

    Links to files count as files, and links to folders are not followed: they may lead in circles.

    Args:
        root: The directory; see `open_below`.
        folder: The path from there.
        room: How many entries are looked at.
        hidden: Whether those are served whose name begins with a dot.
    """
    scanned = 0
    found: list[tuple[str, os.stat_result]] = []
    try:
        with scan_below(root, folder, hidden=hidden) as entries:
            for entry in itertools.islice(entries, room):
                scanned += 1
                if is_plain_name(entry.name) and (hidden or not is_hidden(entry.name)):
                    status = _status(root, (*folder, entry.name), entry, hidden=hidden)
                    if status is not None:
                        found.append((entry.name, status))
    except OSError:  # removed meanwhile, or not readable
        pass
    return scanned, sorted(found, key=lambda one: one[0])


def _status(root: str, names: Sequence[str], entry: os.DirEntry[str], *, hidden: bool) -> os.stat_result | None:
    try:
        if not entry.is_symlink():
            return entry.stat(follow_symlinks=False)
        descriptor = open_below(root, names, hidden=hidden)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status if stat.S_ISREG(status.st_mode) else None


def encoded_name(name: str) -> str:
    """Return the name of a file as a part of a URI."""
    return "".join(chr(b) if chr(b) in UNRESERVED else f"%{b:02X}" for b in os.fsencode(name))


def directory_prefix(root: Path, uri: str | None) -> str:
    """Return what the URIs of a directory's files begin with.

    Raises:
        ValueError: It is not a valid URI.
    """
    prefix = root.as_uri() if uri is None else uri
    check_uri(prefix)
    if "?" in prefix or "#" in prefix:
        raise ValueError(f"the URI of a directory must have no query and no fragment, unlike {prefix!r}")
    return prefix if prefix.endswith("/") else prefix + "/"


# Opening files, and only those that lie below a root. All of it blocks: it is called in threads.
#
# On POSIX no name is looked up twice. From the root on, each part of a path is opened relative to the folder
# before, without following symbolic links. Links are read and walked here: one that leads above the root or
# begins with a slash is refused, and so is one over a hidden name, where those are not served. So renaming
# something meanwhile leads nowhere else. On other systems the path is resolved and compared, and after opening
# it the system is asked where the open file lies.

MAX_LINKS: Final = 40
"""Symbolic links on one path; Linux follows as many."""

MAX_WINDOWS_PATH: Final = 32_768
"""Characters of the longest path on Windows, with the final NUL."""

MAX_DEPTH: Final = 64
"""Folders within folders. Each is a file descriptor while a path is walked."""

_CLOSED_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
# Opening must not wait for the writer of a pipe, nor make a terminal the controlling one.
_READ: Final = os.O_RDONLY | _CLOSED_ON_EXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER: Final = os.O_RDONLY | _CLOSED_ON_EXEC | getattr(os, "O_DIRECTORY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_WALKS: Final = bool(_NO_LINK) and {os.open, os.readlink} <= os.supports_dir_fd

_WINDOWS_DEVICE: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\..*)?", re.IGNORECASE
)
_WINDOWS_FORBIDDEN: Final = re.compile(r'[\x00-\x1f<>:"/\\|?*]|[. ]\Z')


class FileTooLarge(Exception):
    """A file has more bytes than are allowed."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the file has {size} bytes or more; Limits.max_file_bytes is {limit}")


def is_plain_name(name: str, *, windows: bool = os.name == "nt") -> bool:
    """Whether a name means an entry of a folder on this system: no path, no device, no stream."""
    if name in {"", ".", ".."} or "\0" in name or "/" in name:
        return False
    return not windows or (
        _WINDOWS_FORBIDDEN.search(name) is None and _WINDOWS_DEVICE.fullmatch(name.rstrip()) is None
    )


def read_file(path: str, max_bytes: int) -> bytes:
    """Read a regular file.

    Raises:
        FileTooLarge: It has more than `max_bytes`.
        OSError: It cannot be read; `FileNotFoundError` also if it is no regular file.
    """
    _refuse_irregular(os.stat(path))
    return read_open_file(os.open(path, _READ), max_bytes)


def read_open_file(descriptor: int, max_bytes: int) -> bytes:
    """Read a regular file, and close it; see `read_file`."""
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(status)
        if status.st_size > max_bytes:
            raise FileTooLarge(status.st_size, max_bytes)
        # It may grow while it is read, and some files of the system have the size 0 and contents.
        data = bytearray()
        while len(data) <= max_bytes and (piece := os.read(descriptor, max_bytes + 1 - len(data))):
            data += piece
        if len(data) > max_bytes:
            raise FileTooLarge(len(data), max_bytes)
        return bytes(data)
    finally:
        os.close(descriptor)


def is_hidden(name: str) -> bool:
    """Whether a name begins with a dot."""
    return name.startswith(".")


def open_below(root: str, names: Sequence[str], *, hidden: bool) -> int:
    """Open a file safely for reading.

    Args:
        root: The directory, as the program names it; it may be a symbolic link.
        names: The path from there. Every one is a plain name.
        hidden: Whether the path may lead over hidden names, also where it follows a symbolic link.

    Raises:
        OSError: It does not exist, is not a regular file, or its path leads out of the root or over a hidden
            name.
    """
    if len(names) > MAX_DEPTH:
        raise FileNotFoundError(f"deeper than {MAX_DEPTH} folders")
    if _WALKS:
        return _open_walking(root, names, _READ, hidden=hidden)
    return _open_resolved(root, names, hidden=hidden)


@contextmanager
def scan_below(root: str, names: Sequence[str], *, hidden: bool) -> Generator[Iterator[os.DirEntry[str]]]:
    """Scan a folder safely; see `open_below`."""
    if len(names) >= MAX_DEPTH:
        raise FileNotFoundError(f"deeper than {MAX_DEPTH} folders")
    if not _WALKS:
        with os.scandir(_resolved(root, names, hidden=hidden)) as entries:
            yield entries
        return
    descriptor = _open_walking(root, names, _FOLDER, hidden=hidden)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _refuse_irregular(status: os.stat_result) -> None:
    """Refuse what is not a regular file.

    Checked before opening, because opening can have effects: it wakes the writer of a pipe, or rewinds a tape.
    Checked again after opening, because the name may mean another file by then.

    Raises:
        FileNotFoundError: It is not a regular file.
    """
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError("not a regular file")


def _open_walking(root: str, names: Sequence[str], flags: int, *, hidden: bool) -> int:
    ahead = deque(names)
    links = 0
    # The open folders from the root to the current one: `..` in a link goes back to the one before, not by name.
    way = [os.open(root, _FOLDER)]
    try:
        while ahead:
            name = ahead.popleft()
            if name in {"", "."}:
                continue
            if name == "..":
                os.close(way.pop())
                if not way:
                    raise PermissionError(f"a symbolic link leads out of {root}")
                continue
            if not hidden and is_hidden(name):
                raise PermissionError(f"a symbolic link below {root} leads to a hidden name")
            target = _link_at(way[-1], name)
            if target is not None:
                links += 1
                if links > MAX_LINKS or target.startswith("/"):
                    raise PermissionError(f"a symbolic link below {root} is absolute, or one of too many")
                ahead.extendleft(reversed(target.split("/")))
            elif not ahead:
                if flags == _READ:
                    _refuse_irregular(os.stat(name, dir_fd=way[-1], follow_symlinks=False))
                return os.open(name, flags | _NO_LINK, dir_fd=way[-1])
            elif len(way) > MAX_DEPTH:
                raise PermissionError(f"a symbolic link below {root} leads too deep")
            else:
                way.append(os.open(name, _FOLDER | _NO_LINK, dir_fd=way[-1]))
        return os.open(".", flags, dir_fd=way[-1])
    finally:
        for descriptor in way:
            os.close(descriptor)


def _link_at(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:  # it exists, and is not a link
            return None
        raise


def _resolved(root: str, names: Sequence[str], *, hidden: bool) -> str:
    real_root = os.path.realpath(root, strict=True)
    real = os.path.realpath(Path(real_root, *names), strict=True)
    if not _lies_below(real_root, real, hidden=hidden):
        raise PermissionError(f"a symbolic link leads out of {root}, or to a hidden name")
    return real


def _lies_below(real_root: str, real: str, *, hidden: bool) -> bool:
    if os.path.commonpath((real_root, real)) != real_root:
        return False
    return hidden or not any(map(is_hidden, Path(real).relative_to(real_root).parts))


def _open_resolved(root: str, names: Sequence[str], *, hidden: bool) -> int:
    real_root = os.path.realpath(root, strict=True)
    real = _resolved(root, names, hidden=hidden)
    _refuse_irregular(os.stat(real))
    descriptor = os.open(real, _READ)
    try:
        # Swapping names can mislead the opening, but cannot change where the open file lies.
        if not _lies_below(real_root, _place_of(descriptor), hidden=hidden):
            raise PermissionError(f"a path below {root} has changed while it was opened")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _place_of(descriptor: int) -> str:
    """Return the path of an open file, as the system knows it.

    Raises:
        OSError: The system does not know it.
    """
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        path = ctypes.create_unicode_buffer(MAX_WINDOWS_PATH)
        handle = msvcrt.get_osfhandle(descriptor)
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.GetFinalPathNameByHandleW.argtypes = (
            ctypes.c_void_p,
            ctypes.c_wchar_p,
            ctypes.c_uint32,
            ctypes.c_uint32,
        )
        length = kernel.GetFinalPathNameByHandleW(handle, path, MAX_WINDOWS_PATH, 0)
        if not 0 < length < MAX_WINDOWS_PATH:
            raise ctypes.WinError(ctypes.get_last_error())
        place = path.value
        return "\\\\" + place[8:] if place.startswith("\\\\?\\UNC\\") else place.removeprefix("\\\\?\\")
    else:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
