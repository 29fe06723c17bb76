"""Keeps a cursor in a file that is whole at every instant, so that a killed tail can continue."""

import os
from errno import EISDIR
from pathlib import Path

from headrace.model.errors import BadConfig
from headrace.model.limits import CURSOR_CHARS_MAX
from headrace.model.validate import check_path, shown_path


class CursorFile:
    """The file of a cursor. Refuses a file that cannot be read or written before anything is printed."""

    def __init__(self, path: Path) -> None:
        check_path("--cursor-file", "" if path == Path() else str(path))
        self._path = path
        if not path.name:
            raise self._error("kept", IsADirectoryError(EISDIR, os.strerror(EISDIR)))
        self._beside = path.with_name(f".{path.name}.{os.getpid()}")
        check_path("the temporary file beside --cursor-file", str(self._beside))
        self._written: str | None = None

    def read(self) -> str | None:
        """The cursor in the file; None if there is none yet."""
        try:
            with self._path.open(encoding="utf-8") as file:
                text = file.read(8 * CURSOR_CHARS_MAX).strip()
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeError) as error:
            raise self._error("read", error) from error
        self._written = text or None
        if not os.access(self._path.parent, os.W_OK):
            raise BadConfig(
                f"the cursor cannot be kept in {shown_path(self._path)}: its folder is not writable; name another file"
            )
        return self._written

    def write(self, cursor: str) -> None:
        """Replace the cursor in one step: a reader never finds a part of one."""
        if cursor == self._written:
            return
        try:
            self._beside.write_text(f"{cursor}\n", encoding="utf-8")
            self._beside.replace(self._path)
        except OSError as error:
            raise self._error("kept", error) from error
        self._written = cursor

    def delete(self) -> None:
        """Delete the file."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise self._error("deleted", error) from error
        self._written = None

    def _error(self, what: str, error: Exception) -> BadConfig:
        cause = getattr(error, "strerror", None) or error
        return BadConfig(f"the cursor cannot be {what} in {shown_path(self._path)}: {cause}; name another file")
