"""What is in a history, as its own file says: the last batch that is in place, and how far each journal is."""

from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.pipeline.files import write_whole
from headrace.pipeline.history.layout import STATE
from headrace.pipeline.source.journal.offset import Mark

VERSION = 1
Form = Literal["parquet", "delta"]
FORMS: tuple[str, ...] = get_args(Form)


class HistoryState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The truth about a history. Checkpoints may get lost: they are made anew from it."""

    v: int = VERSION
    form: Form = "parquet"
    batch: int = -1
    """The last one that is in place."""
    committed: int = -1
    """The last one that is a transaction of the Delta table: those without events are none."""
    events: int = 0
    skipped: int = 0
    """Events that were dropped before they were read."""
    lost: int = 0
    """Events that are in the history and that the store no longer knows."""
    payloads: bool = False
    """Whether some files have the columns `payload` and `result`."""
    shards: dict[str, Mark] = {}
    """The last event of each journal, by `tenant/queue/shard`."""


def read_state(folder: Path) -> HistoryState | None:
    """The state of the history in a folder; None when there is none."""
    try:
        content = (folder / STATE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        state = msgspec.json.decode(content, type=HistoryState)
    except msgspec.DecodeError:
        state = None
    if state is None or state.v != VERSION:
        raise BadConfig(
            f"{folder / STATE} was written by another version of Headrace and cannot be read; use the version that"
            " wrote it, or a new folder"
        )
    return state


def write_state(folder: Path, state: HistoryState) -> None:
    """Note what is in place from now on."""
    write_whole(folder / STATE, msgspec.json.encode(state))
