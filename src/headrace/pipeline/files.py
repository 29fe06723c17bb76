"""Writes files whole or not at all, exchanges folders in one step, and locks files."""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.model.errors import BadConfig

_HERE = -100
"""AT_FDCWD: paths are taken as they are."""
_EXCHANGE = 2
"""RENAME_EXCHANGE."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file, safe on disk: a reader sees all of the old one or all of the new one."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_file(file: Path) -> None:
    """Make the content of a file that another process has written safe on disk."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> None:
    """Exchange two folders of one file system in one step: a reader sees one or the other, never half."""
    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    if rename is None:
        raise _unable(one)
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        raise _unable(one)
    raise OSError(code, os.strerror(code), str(one), None, str(other))


def _unable(folder: Path) -> BadConfig:
    return BadConfig(
        f"the file system of {folder} cannot let two folders change places in one step, which keeps readers from seeing"
        " half a table; use a local disk under Linux, or a table in Delta's format"
    )


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Wait for the lock file at `path` and hold it, exclusively or shared; it is free again when the process ends."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


@contextmanager
def exclusive(path: Path, message: str) -> Iterator[None]:
    """Hold the lock file at `path`, or refuse with the message when another holder has it."""
    with open_exclusive(path, message):
        yield


def open_exclusive(path: Path, message: str) -> BinaryIO:
    """The lock file at `path`, locked until it is closed or the process ends; refuses as `exclusive` does."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BadConfig(message) from None
    return file
