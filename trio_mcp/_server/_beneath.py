"""Opening files, and only those that lie beneath a directory. Blocks: called in threads.

On POSIX nothing is looked up twice. From the directory on, each part of a path is opened relative to the one
before and without following symbolic links; those are read and walked by hand, and one that leads above the
directory, or begins with a slash, leads nowhere; nor does one that goes over a hidden name, where those are not
offered. So it does not matter who renames what in the meantime. Elsewhere paths are resolved and compared, and
after the opening the system is asked where what was opened lies.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

import attrs

__all__ = [
    "FileData",
    "FileTooLarge",
    "is_hidden",
    "is_plain_name",
    "open_beneath",
    "read_file",
    "read_open_file",
    "scan_beneath",
]

MAX_LINKS: Final = 40
"""Symbolic links on one path, as many as Linux follows."""

MAX_WINDOWS_PATH: Final = 32_768
"""Characters of the longest path that Windows has, with the one that ends it."""

MAX_DEPTH: Final = 64
"""Folders within folders. Each is a file descriptor while a path is walked."""

_CLOSED_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
# A pipe must not wait for its writer, nor a terminal become ours.
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


@final
@attrs.frozen
class FileData:
    """What was read, and what the system says of the file."""

    data: bytes
    status: os.stat_result


def is_plain_name(name: str, *, windows: bool = os.name == "nt") -> bool:
    """Whether a name means something in a folder and nothing else, whatever the system makes of other names."""
    if name in {"", ".", ".."} or "\0" in name or "/" in name:
        return False
    return not windows or (
        _WINDOWS_FORBIDDEN.search(name) is None and _WINDOWS_DEVICE.fullmatch(name.rstrip()) is None
    )


def read_file(path: str, max_bytes: int) -> FileData:
    """Read a regular file.

    Raises:
        FileTooLarge: It has more than `max_bytes`.
        OSError: It cannot be read; `FileNotFoundError` also if it is no regular file.
    """
    _refuse_irregular(os.stat(path))  # noqa: PTH116 - it is opened by `os`, too
    return read_open_file(os.open(path, _READ), max_bytes)


def read_open_file(descriptor: int, max_bytes: int) -> FileData:
    """Read a regular file, and close it; see `read_file`."""
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(status)
        if status.st_size > max_bytes:
            raise FileTooLarge(status.st_size, max_bytes)
        # It may grow while it is read, and some files of the system say that they have no size.
        data = bytearray()
        while len(data) <= max_bytes and (piece := os.read(descriptor, max_bytes + 1 - len(data))):
            data += piece
        if len(data) > max_bytes:
            raise FileTooLarge(len(data), max_bytes)
        return FileData(bytes(data), status)
    finally:
        os.close(descriptor)


def is_hidden(name: str) -> bool:
    """Whether a name is one of those that are not shown unless asked for."""
    return name.startswith(".")


def open_beneath(root: str, names: Sequence[str], *, hidden: bool) -> int:
    """Open a file for reading.

    Args:
        root: The directory, as the program names it; it may be a symbolic link.
        names: The way from there. Every one is a plain name.
        hidden: Whether the way may lead over hidden names, also where it follows a symbolic link.

    Raises:
        OSError: It is not there, it is no regular file, or its way leads where it may not.
    """
    if len(names) > MAX_DEPTH:
        raise FileNotFoundError(f"deeper than {MAX_DEPTH} folders")
    if _WALKS:
        return _open_walking(root, names, _READ, hidden=hidden)
    return _open_resolved(root, names, hidden=hidden)


@contextmanager
def scan_beneath(root: str, names: Sequence[str], *, hidden: bool) -> Generator[Iterator[os.DirEntry[str]]]:
    """Look into a folder; see `open_beneath`."""
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
    """Refuse what is no regular file.

    Asked before opening, because that alone can do something: wake who writes into a pipe, or rewind a tape.
    Asked again of what was opened, because that can be something else by then.

    Raises:
        FileNotFoundError: It is none.
    """
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError("not a regular file")


def _open_walking(root: str, names: Sequence[str], flags: int, *, hidden: bool) -> int:
    ahead = deque(names)
    links = 0
    # Where we are, and how we came there: `..` in a link goes back the way, and never by name.
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
                raise PermissionError(f"a symbolic link beneath {root} leads to what is hidden")
            target = _link_at(way[-1], name)
            if target is not None:
                links += 1
                if links > MAX_LINKS or target.startswith("/"):
                    raise PermissionError(f"a symbolic link beneath {root} is not followed")
                ahead.extendleft(reversed(target.split("/")))
            elif not ahead:
                if flags == _READ:
                    _refuse_irregular(os.stat(name, dir_fd=way[-1], follow_symlinks=False))
                return os.open(name, flags | _NO_LINK, dir_fd=way[-1])
            elif len(way) > MAX_DEPTH:
                raise PermissionError(f"a symbolic link beneath {root} leads too deep")
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
        if error.errno == errno.EINVAL:  # it is there, and no link
            return None
        raise


def _resolved(root: str, names: Sequence[str], *, hidden: bool) -> str:
    real_root = os.path.realpath(root, strict=True)
    real = os.path.realpath(Path(real_root, *names), strict=True)
    if not _lies_beneath(real_root, real, hidden=hidden):
        raise PermissionError(f"a symbolic link leads out of {root}, or to what is hidden")
    return real


def _lies_beneath(real_root: str, real: str, *, hidden: bool) -> bool:
    if os.path.commonpath((real_root, real)) != real_root:
        return False
    return hidden or not any(map(is_hidden, Path(real).relative_to(real_root).parts))


def _open_resolved(root: str, names: Sequence[str], *, hidden: bool) -> int:
    real_root = os.path.realpath(root, strict=True)
    real = _resolved(root, names, hidden=hidden)
    _refuse_irregular(os.stat(real))  # noqa: PTH116 - it is opened by `os`, too
    descriptor = os.open(real, _READ)
    try:
        # Whoever swaps names can have led the opening astray, but not change where what was opened lies.
        if not _lies_beneath(real_root, _place_of(descriptor), hidden=hidden):
            raise PermissionError(f"a path beneath {root} has changed while it was opened")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _place_of(descriptor: int) -> str:
    """Return where an open file lies, whatever name it was opened by.

    Raises:
        OSError: The system does not say.
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
    else:  # noqa: RET505 - type checkers look at one branch for each platform
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
