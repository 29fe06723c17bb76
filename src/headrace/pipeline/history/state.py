"""Says how far a history is: the last batch that is in it, and the last event of each journal."""

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.pipeline.source.journal.offset import Mark
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import open_log

VERSION = 1
APP = "headrace-history"
"""The application whose batches are the transactions of the table."""


class HistoryState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the transaction of a batch says besides its files. A new run begins here."""

    v: int = VERSION
    batch: int = -1
    """The last one."""
    events: int = 0
    skipped: int = 0
    """Events that were dropped before they were read."""
    lost: int = 0
    """Events that are in the history and that the store no longer knows."""
    shards: dict[str, Mark] = {}
    """The last event of each journal, by `tenant/queue/shard`."""


def read_state(folder: str | Path | Location) -> HistoryState | None:
    """The state of the history in a folder; None when there is none."""
    location = Location.parse(folder)
    now = open_log(location).load()
    if now is None:
        return None
    stored = now.state(APP)
    if stored is None:
        return HistoryState()
    try:
        state = msgspec.convert(stored, HistoryState)
    except msgspec.ValidationError:
        state = None
    if state is None or state.v != VERSION:
        raise BadConfig(
            f"the history in {location} was written by another version of Headrace and cannot be read; use the version"
            " that wrote it, or a new folder"
        )
    return state
