"""What a folder of statistics knows beside its files: how far it has counted, and where its sums stand."""

from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.times import duration_text
from headrace.pipeline.files import write_whole
from headrace.pipeline.stats.columns import Key, check_window
from headrace.pipeline.stats.files import Files

VERSION = 1
_NAME = "_state.json"


class StatsState(Struct, kw_only=True, forbid_unknown_fields=True):
    """Kept in one file, which is written whole."""

    v: int = VERSION
    window_ms: int
    totals_at_ms: int = 0
    totals: list[tuple[str, str, str | None, int]] = []
    """Open jobs by tenant, queue and kind when the window at `totals_at_ms` began: what all windows before it add up
    to. It must be behind no window that is changed; then it is true whenever this process is killed."""
    queues: dict[str, int | None] = {}
    """Queues that were seen, as tenant/queue; a number is the window from which on the backlog is not known."""
    counted: dict[str, tuple[int, int]] = {}
    """Epoch and seq up to which the events of each shard are counted, as far as they could be."""
    needed: dict[str, tuple[int, int]] = {}
    """Epoch and seq of the shards of a queue whose backlog is not known: events up to there, from the first on, make it
    known again."""
    feeds: dict[str, int | None] = {}
    """Feeds that windows were published to, by name; a number is the first window that may have rows which were not."""
    floors: dict[str, int] = {}
    """By tenant/feed, the last window that may have been there and evicted before this folder published to it; -1 where
    none was."""
    late: int = 0
    """Events that could not be counted, since the folder was made: the journal no longer held their windows whole."""

    def sums(self) -> dict[Key, int]:
        """The totals by key."""
        return {(tenant, queue, kind): total for tenant, queue, kind, total in self.totals}

    def put_sums(self, at_ms: int, sums: dict[Key, int]) -> None:
        """Take totals as those at the beginning of a window."""
        self.totals_at_ms = at_ms
        self.totals = [(*key, total) for key, total in sums.items() if total]

    def doubt(self, queue: str, since_ms: int) -> bool:
        """Take the backlog of a queue as not known from a window on; whether that is news."""
        known = self.queues.get(queue)
        if queue in self.queues and known is not None and known <= since_ms:
            return False
        self.queues[queue] = since_ms
        return True

    def lacks(self, feed: str) -> int | None:
        """The first window that may have rows which were not published to a feed; None when all of them were."""
        return self.feeds.get(feed, 0)

    def need(self, queue: str) -> None:
        """Take all that was counted of a queue as what its backlog needs to be known again."""
        self.needed |= {name: mark for name, mark in self.counted.items() if _queue_of(name) == queue}

    def is_met(self, queue: str, lasts: dict[str, tuple[int, int]]) -> bool:
        """Whether events that go so far are all that the backlog of a queue needs."""
        return all(lasts.get(name, (0, 0)) >= mark for name, mark in self.needed.items() if _queue_of(name) == queue)

    def trust(self, queue: str) -> None:
        """Take the backlog of a queue as known."""
        self.queues[queue] = None
        self.needed = {name: mark for name, mark in self.needed.items() if _queue_of(name) != queue}

    def knows(self, queue: str, start_ms: int) -> bool:
        """Whether the backlog of a queue is known at the end of a window."""
        since_ms = self.queues.get(queue)
        return queue in self.queues and (since_ms is None or start_ms < since_ms)


def move_sums(folder: Path, state: StatsState, files: Files, to_ms: int) -> None:
    """Move the totals to the beginning of another window, by the windows between, here and on disk."""
    at_ms, sums = state.totals_at_ms, state.sums() if to_ms else {}
    if at_ms == to_ms:
        return
    sign = 1 if to_ms > at_ms else -1
    for start_ms in files.starts(min(at_ms, to_ms), max(at_ms, to_ms)) if to_ms else ():
        for key, net in files.nets(start_ms).items():
            sums[key] = sums.get(key, 0) + sign * net
    state.put_sums(to_ms, sums)
    # Nothing but the totals: what else has changed here is true only once the files are written.
    kept = load(folder, state.window_ms)
    kept.put_sums(to_ms, sums)
    save(folder, kept)


def note_unpublished(folder: Path, state: StatsState, first_ms: int) -> None:
    """Note, here and on disk, that a window is about to get new rows, which no feed has until it is published to."""
    feeds: dict[str, int | None] = {}
    for name, since_ms in state.feeds.items():
        feeds[name] = first_ms if since_ms is None else min(since_ms, first_ms)
    if feeds == state.feeds:
        return
    state.feeds = feeds
    kept = load(folder, state.window_ms)
    kept.feeds = feeds
    save(folder, kept)


def check_folder(folder: Path | str, window_ms: int) -> Path:
    """The folder of statistics, made if it is missing; refuses one that holds anything else, or other windows."""
    check_window(window_ms)
    if "://" in str(folder):
        raise BadConfig(f"{folder} is no folder of this machine; mount it and give its path, or use a local folder")
    folder = Path(folder).absolute()
    if folder.exists() and not (folder / _NAME).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadConfig(f"{folder} exists and holds no statistics of ours; name a folder that is new or empty")
    if (folder / _NAME).is_file():
        load(folder, window_ms)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        save(folder, StatsState(window_ms=window_ms))
    return folder


def load(folder: Path, window_ms: int) -> StatsState:
    """The state of a folder; `BadConfig` when it is of windows of another length, or of another version."""
    try:
        state = msgspec.json.decode((folder / _NAME).read_bytes(), type=StatsState)
    except (msgspec.DecodeError, OSError) as error:
        raise BadConfig(f"{folder / _NAME} cannot be read ({error}); delete {folder}, or name another") from error
    if state.v != VERSION:
        raise BadConfig(f"{folder} was written by another version of Headrace (form {state.v}); name another folder")
    if state.window_ms != window_ms:
        raise BadConfig(
            f"{folder} holds windows of {duration_text(state.window_ms)}, and {duration_text(window_ms)} was asked for;"
            " name another folder, or ask for the same length"
        )
    return state


def save(folder: Path, state: StatsState) -> None:
    """Write the state, safe on disk."""
    write_whole(folder / _NAME, msgspec.json.encode(state))


def window_of(folder: Path) -> int | None:
    """The length of the windows in a folder, in milliseconds; None when it has none yet."""
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=StatsState).window_ms
    except (OSError, msgspec.DecodeError):
        return None  # where there is something wrong, who loads it says so


def _queue_of(shard: str) -> str:
    return shard.rpartition("/")[0]
