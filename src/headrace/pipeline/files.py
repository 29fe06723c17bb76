"""Writes files atomically, exchanges folders atomically, and locks files."""

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
"""AT_FDCWD: relative paths start in the current folder."""
_EXCHANGE = 2
"""RENAME_EXCHANGE."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically and sync it to disk."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_file(file: Path) -> None:
    """Sync a file that another process has written to disk."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> None:
    """Exchange two folders of one file system atomically."""
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
        f"the file system of {folder} cannot exchange two folders atomically, without which readers would see half a"
        " table; use a local disk under Linux, or a table in Delta's format"
    )


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock the file at `path` for this block, exclusively or shared; waits for it. The lock ends with the process."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


@contextmanager
def exclusive(path: Path, message: str) -> Iterator[None]:
    """Lock the file at `path` for this block; raises `BadConfig` with the message if it is locked."""
    with open_exclusive(path, message):
        yield


def open_exclusive(path: Path, message: str) -> BinaryIO:
    """The file at `path`, locked until it is closed or the process ends; refuses like `exclusive`."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BadConfig(message) from None
    return file
