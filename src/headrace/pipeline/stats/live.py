"""Statistics of a running store: each batch of events says which windows to count anew, and they are."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from pyspark.sql import DataFrame

from headrace.model.limits import STATS_SEEN_MAX
from headrace.model.times import instant_text
from headrace.pipeline.files import locked
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.stats.files import Files
from headrace.pipeline.stats.merge import Visited, merge
from headrace.pipeline.stats.publish import publish
from headrace.pipeline.stats.state import StatsState, load, save
from headrace.pipeline.stats.touched import Touched, Window, count_anew, touched_by
from headrace.pipeline.stats.whole import Looking, WholeWindows


class Counted(Struct, frozen=True):
    """What a batch came to."""

    batch: int
    events: int
    windows: int
    """Files that were written."""
    items: int
    """That were published or edited."""
    late: int
    """Events that could not be counted, because the journal no longer holds their windows whole."""


class Live:
    """Takes the batches of one query. What it remembers between them only saves work."""

    def __init__(
        self,
        folder: Path,
        options: dict[str, str],
        window_ms: int,
        feed: str | None,
        tell: Callable[[str], None],
        on_batch: Callable[[Counted], None] | None,
    ) -> None:
        self._folder = folder
        self._options = options
        self._window_ms = window_ms
        self._feed = feed
        self._tell = tell
        self._on_batch = on_batch
        self._looking = Looking()
        self._seen: dict[Window, WholeWindows] = {}
        self._is_first = True

    def take(self, frame: DataFrame, batch: int) -> None:
        """Count the windows anew that a batch touches, write their files, and publish them."""
        touched = touched_by(frame, self._window_ms)
        if not touched:
            return
        shards = [(each.tenant, each.queue, each.shard) for each in touched]
        with connect(self._options["url"]) as (runner, store):
            before = runner.run(self._looking.look(store, shards))
            windows = {each.window for each in touched if not self._is_seen(each)}
            windows = {(start_ms, queue) for start_ms, queue in windows if before.is_whole(queue, start_ms)}
            # What is dropped meanwhile is looked for afterwards, window by window.
            options = {**self._options, "failOnDataLoss": "false"}
            fresh = count_anew(frame.sparkSession, options, self._window_ms, windows)
            after = runner.run(self._looking.look(store, shards))
            whole = {(start_ms, queue) for start_ms, queue in windows if after.is_whole(queue, start_ms)}
            for start_ms, rows in fresh.items():
                fresh[start_ms] = [row for row in rows if (start_ms, (row["tenant"], row["queue"])) in whole]
            self._remember(whole, before)
            with locked(self._folder / "_lock"):
                state = load(self._folder, self._window_ms)
                lacks_ms = None if self._feed is None else state.lacks(self._feed)
                visited, late = self._write(state, touched, fresh, after)
                if late:
                    self._tell(_sentence(late, touched, after))
                items = 0
                if self._feed is not None:
                    items = runner.run(
                        publish(store, self._feed, self._window_ms, visited, since_ms=lacks_ms, floors=state.floors)
                    )
                    state.feeds[self._feed] = None
                    save(self._folder, state)
        self._is_first = False
        if self._on_batch is not None:
            events = sum(each.last_seq - each.first_seq + 1 for each in touched)
            self._on_batch(Counted(batch, events, sum(each.is_changed for each in visited), items, late))

    def _is_seen(self, each: Touched) -> bool:
        """Whether its window was counted when its events were there already: a stream that catches up meets a window
        that holds more than a batch many times, and reads it once."""
        look = self._seen.get(each.window)
        return look is not None and look.holds(each.name, each.epoch, each.last_seq)

    def _counted_upto(self, each: Touched) -> int:
        """The last event of its shard that is counted in its window already, by a batch that did not reach so far."""
        look = self._seen.get(each.window)
        return 0 if look is None else look.last_seq(each.name, each.epoch)

    def _remember(self, windows: Iterable[Window], look: WholeWindows) -> None:
        for window in windows:
            self._seen.pop(window, None)
            self._seen[window] = look
        while len(self._seen) > STATS_SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    def _write(
        self,
        state: StatsState,
        touched: Sequence[Touched],
        fresh: dict[int, list[dict[str, object]]],
        look: WholeWindows,
    ) -> tuple[list[Visited], int]:
        late, doubted_ms = _note(state, touched, look, self._counted_upto)
        # An earlier run may have been killed between its files and the feed: all that follows is compared once.
        unpublished_ms = state.feeds.get(self._feed or "")
        also = [at_ms for at_ms in (doubted_ms, unpublished_ms) if at_ms is not None]
        to_end = self._is_first or bool(also)
        first_ms = min([*(each.start_ms for each in touched), *also])
        files = Files(self._folder, self._window_ms)
        visited = list(merge(self._folder, state, files, first_ms, fresh.items(), to_end=to_end))
        # Before it is published: a batch whose files are there is counted, also if it is run again for the feed's sake
        # when the journal has dropped its windows.
        save(self._folder, state)
        return visited, late


def _note(
    state: StatsState, touched: Sequence[Touched], look: WholeWindows, counted_upto: Callable[[Touched], int]
) -> tuple[int, int | None]:
    """Count what comes too late, and find the first window that must be written anew since its backlog is no longer
    known."""
    late, doubted_ms = 0, None
    doubted: set[str] = set()
    for each in touched:
        queue = f"{each.tenant}/{each.queue}"
        epoch, seq = state.counted.get(each.name, (each.epoch, 0))
        known = seq if epoch == each.epoch else 0
        missed = max(each.last_seq - max(known, counted_upto(each), each.first_seq - 1), 0)
        is_late = missed > 0 and not look.is_whole((each.tenant, each.queue), each.start_ms)
        # Events of which nobody ever told: the beginning of the journal was gone, or a stream has skipped some.
        is_gap = each.first_seq > known + 1 and epoch == each.epoch
        since_ms = 0 if is_gap and not known else each.start_ms
        is_new = queue not in state.queues
        if is_late or is_gap:
            doubted.add(queue)
            if state.doubt(queue, since_ms):
                # Of a queue that is new here, nothing was written before.
                changed_ms = each.start_ms if is_new else since_ms
                doubted_ms = changed_ms if doubted_ms is None else min(doubted_ms, changed_ms)
        state.queues.setdefault(queue, None)
        late += missed if is_late else 0
        state.counted[each.name] = max((epoch, seq), (each.epoch, each.last_seq))
    for queue in doubted:
        state.need(queue)
    state.late += late
    return late, doubted_ms


def _sentence(late: int, touched: Sequence[Touched], look: WholeWindows) -> str:
    gone = [each for each in touched if not look.is_whole((each.tenant, each.queue), each.start_ms)]
    queues = sorted({f"{each.tenant}/{each.queue}" for each in gone})
    first, last = min(each.start_ms for each in gone), max(each.start_ms for each in gone)
    return (
        f"{late:,} events of {', '.join(queues[:3])}{' and others' if len(queues) > 3 else ''} came too late for their"
        f" windows ({instant_text(first)} to {instant_text(last)}), which the journal no longer holds whole; these stay"
        " as they are until statistics are made from the history, and the backlog is not known"
    )
