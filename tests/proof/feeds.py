"""A subscriber that is killed and resumed while many publish, and a subscriber that was away for too long, on real
stores."""

import asyncio
import multiprocessing
import tempfile
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from msgspec import Struct

from headrace.model.feed import Changed, FeedCursor, FeedName, Publication
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.proof.feed_programs import BOARD, GAP, NEWS, Notes, publish, subscribe
from tests.proof.feed_readers import Late, Witness, until
from tests.proof.worker_runs import PATIENCE_SECONDS, STORE_NAMES, emptied

FEEDS = (NEWS, BOARD)
ITEMS_MAX = 100
CONTEXT = multiprocessing.get_context("forkserver")
"""A fork of a process that has imported everything is there soon, so that many can be killed."""


class Plan(Struct, frozen=True):
    """How much is done."""

    kills: int = 100
    processes: int = 5
    tasks: int = 10
    """Publishers of each process."""
    kept: int = 20_000
    """Changes that are kept: so much may happen while the subscriber is not there."""
    pace_s: float = 0.2
    fault: str | None = None
    """One of tests/proof/feed_programs.py to plant in the subscriber."""


class FeedFigures(Struct):
    """What a run found, in both feeds together."""

    publishers: int = 0
    publishes: int = 0
    changes: int = 0
    """Changes that the subscriber was to see."""
    dropped: int = 0
    """Changes that retention dropped meanwhile."""
    kills: int = 0
    resumes: int = 0
    gaps: int = 0
    """Gaps that the subscriber was told."""
    missing: int = 0
    """Changes that it never saw, and that no gap explains."""
    duplicates: int = 0
    order_errors: int = 0
    wrong: int = 0
    """Changes that it saw otherwise than the log has them, and publishers whose order the log does not keep."""
    late_gaps: int = 0
    """Gaps that the readers were told that had been away: one each."""
    late_errors: int = 0
    """Readers that had been away and ended with other items than there are."""

    @property
    def is_right(self) -> bool:
        """Whether all is as promised, and everything has happened that was to."""
        errors = self.gaps + self.missing + self.duplicates + self.order_errors + self.wrong + self.late_errors
        has_happened = min(self.publishes, self.changes, self.dropped, self.kills, self.resumes) > 0
        return errors == 0 and self.late_gaps == len(FEEDS) and has_happened


class Crew:
    """The processes and readers of one run."""

    def __init__(self, store: Store, url: str, plan: Plan, folder: Path) -> None:
        self._store = store
        self._url = url
        self._plan = plan
        self._folder = folder
        self._processes: list[BaseProcess] = []
        self.notes = [Notes(folder, feed) for feed in FEEDS]
        self.witnesses: list[Witness] = []
        self.late: list[Late] = []

    async def prepare(self) -> None:
        """Fill the logs, so that every further change drops a change that the absent reader has seen."""
        for feed in FEEDS:
            away = await filled(self._store, feed, self._plan.kept)
            self.late.append(Late(self._store, feed, away))
            self.witnesses.append(Witness(self._store, feed, await end_of(self._store, feed)))

    async def work(self) -> None:
        """Publish, and kill and resume the subscriber, until everybody has read everything."""
        plan, stop = self._plan, self._folder / "stop"
        reading = [*(each.read() for each in self.witnesses), *(each.read() for each in self.late)]
        readers = [asyncio.create_task(each) for each in reading]
        CONTEXT.set_forkserver_preload(["tests.proof.feed_programs", "tests.support.server_stores"])
        try:
            publishers = [
                self._start(publish, (self._url, number, plan.tasks, plan.pace_s, stop))
                for number in range(plan.processes)
            ]
            for number in range(plan.kills):
                await self._live_and_die(Random(number))
            self._start(subscribe, (self._url, self._folder, plan.fault))
            stop.touch()
            for publisher in publishers:
                await asyncio.to_thread(publisher.join, PATIENCE_SECONDS)
                assert publisher.exitcode == 0, f"a publisher ended with {publisher.exitcode}"
            await self._read_to_the_end()
        finally:
            for process in self._processes:
                process.kill()
                process.join()
            for reader in readers:
                reader.cancel()
            ended = await asyncio.gather(*readers, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended

    def _start(self, program: Callable[..., None], arguments: tuple[object, ...]) -> BaseProcess:
        process = CONTEXT.Process(target=program, args=arguments, daemon=True)
        process.start()
        self._processes.append(process)
        return process

    async def _live_and_die(self, random: Random) -> None:
        """A life of the subscriber: it sees something of both feeds, and is killed on its way to their ends, or there
        when it has fallen behind."""
        aims: list[int] = []
        for feed, notes in zip(FEEDS, self.notes, strict=True):
            end, seen = (await end_of(self._store, feed)).seq, notes.last_seq()
            is_behind = seen == 0 or end - seen > self._plan.kept // 10
            aims.append(end if is_behind else random.randint(seen + 1, max(seen + 1, end)))
        subscriber = self._start(subscribe, (self._url, self._folder, self._plan.fault))
        await until(lambda: all(notes.last_seq() >= aim for notes, aim in zip(self.notes, aims, strict=True)))
        subscriber.kill()
        await asyncio.to_thread(subscriber.join, PATIENCE_SECONDS)
        assert subscriber.exitcode == -9, f"the subscriber ended by itself with {subscriber.exitcode}"

    async def _read_to_the_end(self) -> None:
        for feed, witness, late, notes in zip(FEEDS, self.witnesses, self.late, self.notes, strict=True):
            end = await end_of(self._store, feed)
            await witness.reached(end)
            await late.reached(end)
            await until(lambda: notes.last_seq() >= end.seq)  # noqa: B023 - called before they change


async def filled(store: Store, feed: FeedName, kept: int) -> FeedCursor:
    """Make a feed and fill its log; returns a cursor whose next changes are dropped."""
    type = "sorted" if feed == BOARD else "feed"
    bounds = {"changes_keep_max": kept} | ({"items_max": ITEMS_MAX} if type == "feed" else {})
    await store.feeds.create(feed, type, bounds, instance="proof")  # type: ignore[arg-type]
    away = await end_of(store, feed)
    while (await end_of(store, feed)).seq <= kept + 2:
        publications = [Publication(b"0", f"old-{number}") for number in range(1_000)]
        await store.items.publish(feed, publications, instance="proof")
        if type == "sorted":
            await store.items.retract(feed, [each.id or "" for each in publications], instance="proof")
    return away


async def end_of(store: Store, feed: FeedName) -> FeedCursor:
    """The end of a log."""
    state = await store.feeds.describe(feed)
    assert state is not None, f"{feed} is gone"
    return state.cursor


def check_seen(log: dict[int, Changed], lines: list[list[str]], figures: FeedFigures) -> None:
    """Compare what the subscriber noted with what the log had, from where it began."""
    begun = next(at for at, line in enumerate(lines) if line[1] == "live")
    first = last = FeedCursor.parse(lines[begun][0]).seq
    seqs: list[int] = []
    excused: set[int] = set()
    for cursor, event, id, instance in lines[begun + 1 :]:
        if event == GAP:
            figures.gaps += 1
            continue
        seq = FeedCursor.parse(cursor).seq
        if event == "live":  # all that is there was told, so nothing before it need be
            excused.update(range(last + 1, seq + 1))
        else:
            seqs.append(seq)
            known = log.get(seq)
            figures.wrong += known is None or (known.event, known.id, known.instance) != (event, id, instance)
        last = seq
    wanted = {seq for seq in log if seq > first} - excused
    figures.changes += len(wanted)
    figures.missing += len(wanted - {*seqs})
    figures.duplicates += len(seqs) - len({*seqs})
    figures.order_errors += sum(after < before for before, after in pairwise(seqs))


def check_publishers(log: dict[int, Changed], folder: Path, figures: FeedFigures) -> None:
    """Check that every acknowledged publication is in the log once, in the publisher's order."""
    published: dict[str, list[str]] = defaultdict(list)
    for change in log.values():
        if change.event == "published":
            published[change.instance].append(change.id)
    for path in folder.glob("*.count"):
        count = int(path.read_text())
        figures.publishes += count
        figures.wrong += published[path.stem] != [f"{path.stem}-{number}" for number in range(1, count + 1)]


async def run_feeds(url: str, plan: Plan, folder: Path) -> FeedFigures:
    """Do as planned, and check what was seen against what the logs have."""
    store = await open_store(url)
    figures = FeedFigures(publishers=plan.processes * plan.tasks, kills=plan.kills, resumes=plan.kills)
    crew = Crew(store, url, plan, folder)
    await crew.prepare()
    before = [await store.feeds.describe(feed) for feed in FEEDS]
    await crew.work()
    after = [await store.feeds.describe(feed) for feed in FEEDS]
    figures.dropped = sum(state.first_seq for state in after if state) - sum(
        state.first_seq for state in before if state
    )
    for feed, witness, late, notes in zip(FEEDS, crew.witnesses, crew.late, crew.notes, strict=True):
        check_seen(witness.log, notes.lines(), figures)
        figures.late_gaps += late.gaps
        figures.late_errors += not late.holds((await store.items.snapshot(feed)).rows)
    check_publishers(crew.witnesses[0].log, folder, figures)
    await store.close()
    return figures


COLUMNS = tuple(FeedFigures.__struct_fields__)


def table(rows: dict[str, FeedFigures]) -> str:
    """The figures of each store, side by side."""
    lines = [["feeds", *(name.replace("_", " ") for name in COLUMNS)]]
    lines += [[name, *(f"{getattr(figures, column):,}" for column in COLUMNS)] for name, figures in rows.items()]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


async def run_all_feeds(say: Callable[[str], None], plan: Plan = Plan()) -> int:  # noqa: B008 - it never changes
    """The run on every store at its full length; returns the number of wrong runs."""
    rows: dict[str, FeedFigures] = {}
    for store_name in STORE_NAMES:
        with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
            rows[store_name] = await run_feeds(await emptied(store_name, Path(folder)), plan, Path(folder))
        say(f"feeds: {store_name} is {'as it must be' if rows[store_name].is_right else 'BROKEN'}")
    say(table(rows))
    return sum(not figures.is_right for figures in rows.values())
