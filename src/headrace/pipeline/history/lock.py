"""The right to write a history on a local disk: one query has it, from before it begins until it has ended."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.errors import BadConfig
from headrace.pipeline.files import open_exclusive

_WRITING = "_writing"
_all: dict[Path, "HistoryLock"] = {}
"""Of this process, by folder."""
_guard = threading.Lock()


class HistoryLock:
    """Holds the lock file of a history. Who is killed has it no more."""

    def __init__(self, folder: Path, *, is_temporary: bool) -> None:
        self._folder = folder
        self._is_temporary = is_temporary
        folder.mkdir(parents=True, exist_ok=True)  # on the machine of a Spark Connect server it is not there yet
        self._file = open_exclusive(
            folder / _WRITING, f"another run writes the history in {folder}; let it end, or use another folder"
        )
        self._batch = threading.Lock()
        self._query: StreamingQuery | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A Spark Connect server writes the batches in a process of its own, which ends with the query.
        return take_lock, (self._folder, self._is_temporary)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Within this block the right is not given up: Spark may have stopped a query whose batch goes on in Python."""
        with self._batch:
            if self._file.closed:
                raise BadConfig(f"this run of the history in {self._folder} was stopped, and writes no more")
            yield

    def until_ended(self, query: StreamingQuery) -> None:
        """Give the right up as soon as this query has ended, however it does."""
        self._query = query
        threading.Thread(target=self._await, args=(query,), name="headrace-history-ended", daemon=True).start()

    def release(self) -> None:
        """Give the right up, when no batch is under way."""
        with self._batch:
            self._file.close()
        if self._is_temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def is_over(self) -> bool:
        """Whether its query has ended, which the thread that waits for it may not have noticed."""
        return self._query is not None and not _is_active(self._query)

    def _await(self, query: StreamingQuery) -> None:
        # Whoever started the query is told why it ended.
        with suppress(Exception):
            query.awaitTermination()
        self.release()


def take_lock(folder: Path, is_temporary: bool = False) -> HistoryLock:
    """The right to write the history in a folder; refuses while another run has it, in this process or elsewhere.

    A temporary folder is removed with the right.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder.resolve()
    with _guard:
        before = _all.get(place)
        if before is not None and before.is_over:
            before.release()
        _all[place] = lock = HistoryLock(folder, is_temporary=is_temporary)
    return lock


def _is_active(query: StreamingQuery) -> bool:
    try:
        return query.isActive
    except Exception:  # noqa: BLE001  (Spark itself has ended)
        return False
