"""Refuses a second run that does the same to the same folder at the same time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.errors import BadConfig


@contextmanager
def alone(path: Path, sentence: str) -> Iterator[None]:
    """Hold the lock file at `path`, or refuse with the sentence when somebody else does; free when the process ends."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadConfig(sentence) from None
        yield
