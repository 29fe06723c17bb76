"""What only the SQLite store promises: plans, migrations, profiles, epochs, threads, forks, full and locked files."""

import asyncio
import os
import re
import resource
import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.event import Bounds
from headrace.model.job import Job, new_job
from headrace.model.limits import FENCE_JUMP
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done
from headrace.stores.sqlite.connection import connect, migrate
from headrace.stores.sqlite.sql import migrations, sql, statement_names
from headrace.stores.sqlite.store import SqliteStore
from tests.support.forkserver import CONTEXT
from tests.support.races import PATIENCE_S

QUEUE = Queue("mail", "acme")
SHARD = Shard(QUEUE, 0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return str(tmp_path / "headrace.db")


@pytest.fixture
def raw(path: str) -> Iterator[sqlite3.Connection]:
    """A connection of our own to a file with the schema."""
    with closing(connect(path, "fast")) as connection:
        migrate(connection, path)
        yield connection


def job(id: str, payload: bytes = b"1") -> Job:
    return new_job(QUEUE, "send", payload, fresh_id=id, id=id)


def request(number: int = 1, limit: int = 1) -> ClaimRequest:
    return ClaimRequest(queues=[QUEUE], worker="worker-1", nonce=f"nonce-{number:06}", limit=limit)


def schema(path: str) -> tuple[int, list[str]]:
    """The version of a file and its tables and indexes."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        return connection.execute("PRAGMA user_version").fetchone()[0], [name for (name,) in names]


def size_of(path: str) -> int:
    """The size of a file; 0 when it is not there."""
    return Path(path).stat().st_size if Path(path).exists() else 0


def names_in(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(file.name for file in folder.iterdir())


# Query plans.


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    """How SQLite would run a statement."""
    text = sql(name)
    names = re.findall(r":(\w+)", text)
    arguments = dict.fromkeys(names, 1) if names else [1] * text.count("?")
    return [step for _, _, _, step in connection.execute(f"EXPLAIN QUERY PLAN {text}", arguments)]


STATEMENTS = sorted(statement_names())


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("job_ready", "job_ready (shard_id=? AND order_key>?)"),
        ("job_due", "job_later (shard_id=? AND run_at_ms<?)"),
        ("job_overdue", "job_lease (shard_id=? AND expires_at_ms<?)"),
        ("job_first_later", "job_later (shard_id=?)"),
        ("job_first_lease", "job_lease (shard_id=?)"),
    ],
)
def test_a_claim_walks_its_index_in_order_and_never_sorts_or_scans(
    raw: sqlite3.Connection, name: str, index: str
) -> None:
    """TB12: the cost of a claim does not grow with the backlog."""
    assert plan(raw, name) == [f"SEARCH job USING INDEX {index}"]


@pytest.mark.parametrize("analyzed", [False, True], ids=["empty", "analyzed"])
def test_the_plans_stay_when_there_are_many_rows_and_statistics(raw: sqlite3.Connection, analyzed: bool) -> None:
    """TB12: not even a table full of ready jobs tempts SQLite to scan."""
    if analyzed:
        rows = [(number % 3, f"job-{number}", number, number, b"", b"") for number in range(5_000)]
        raw.executemany(
            "INSERT INTO job (shard_id, id, order_key, run_at_ms, body, payload) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        raw.execute("ANALYZE")

    steps = [step for name in ("job_ready", "job_due", "job_overdue") for step in plan(raw, name)]

    assert len(steps) == 3
    assert all(step.startswith("SEARCH job USING INDEX job_") for step in steps)


def test_no_statement_scans_a_table_and_few_sort(raw: sqlite3.Connection) -> None:
    """TB12, TB14: every statement goes through a key or an index."""
    own = re.compile(r"json_each|CONSTANT ROW|\(subquery")
    plans = {name: [step for step in plan(raw, name) if not own.search(step)] for name in STATEMENTS}

    scanning = [name for name, steps in plans.items() if any(step.startswith("SCAN") for step in steps)]
    sorting = [name for name, steps in plans.items() if any("TEMP B-TREE" in step for step in steps)]
    assert len(plans) > 40
    rare = "one row per shard and feed, once after a restart of the machine"
    assert scanning == ["feed_raise_epoch", "shard_raise_epoch"], rare
    assert sorting == ["job_ids_active", "job_of_nonce"], "these sort the active jobs of one shard only"


def test_no_statement_numbers_its_arguments() -> None:
    """Some Pythons (3.12.1) take `?1` for a name, and warn where a sequence is given for it."""
    numbered = [name for name in STATEMENTS if re.search(r"\?\d", sql(name))]

    assert numbered == []


# Migrations.


async def test_a_new_file_gets_the_whole_schema(path: str) -> None:
    store = await SqliteStore.open(path)
    await store.close()

    version, names = schema(path)
    assert version == migrations()[-1][0]
    assert {
        "store",
        "queue",
        "shard",
        "job",
        "blocked_job",
        "finished_job",
        "dead_letter",
        "journal",
        "consumer",
    } <= set(names)


async def test_a_file_of_an_older_version_keeps_its_jobs_and_gets_the_steps_that_it_lacks(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = await SqliteStore.open(path)
    await older.jobs.enqueue([job("a")])
    await older.close()
    newest = migrations()[-1][0]
    steps = [*migrations(), (newest + 1, ["CREATE TABLE one (a)", "CREATE TABLE two (a)"])]
    monkeypatch.setattr("headrace.stores.sqlite.connection.migrations", lambda: steps)

    store = await SqliteStore.open(path)
    [answer] = await store.jobs.enqueue([job("a")])
    await store.close()

    version, names = schema(path)
    assert answer.status == "updated"
    assert version == newest + 1
    assert {"one", "two", "job"} <= set(names)


async def test_a_migration_that_fails_leaves_nothing_behind(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE dead_letter (mine TEXT)")

    with pytest.raises(StoreUnavailable):
        await SqliteStore.open(path)

    assert schema(path) == (0, ["dead_letter"])
    assert store_threads() == []


async def test_a_file_of_a_newer_headrace_is_refused_and_left_alone(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9999")

    with pytest.raises(BadConfig) as refused:
        await SqliteStore.open(path)

    assert "9999" in str(refused.value)
    assert "newer Headrace" in str(refused.value)
    assert schema(path) == (9999, [])


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def open_at_once(path: str, meet: Any, answers: Any) -> None:
    """What each of several processes does."""

    async def run() -> str:
        store = await SqliteStore.open(path, profile="fast")
        [answer] = await store.jobs.enqueue([job(f"job-{os.getpid()}")])
        await store.close()
        return answer.status

    meet.wait(PATIENCE_S)
    answers.put(asyncio.run(run()))


def test_a_file_that_another_connection_reads_is_taken_into_wal_mode_when_that_ends(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE theirs (one)")
        other.execute("BEGIN")
        other.execute("SELECT * FROM theirs").fetchall()

        with closing(connect(path, "fast", pause=lambda _: other.execute("ROLLBACK"))) as mine:
            assert mine.execute("PRAGMA journal_mode").fetchone() == ("wal",)

        assert not other.in_transaction, "no writer had to wait"


def test_several_processes_may_open_a_new_file_at_once(path: str) -> None:
    meet, answers = CONTEXT.Barrier(3), CONTEXT.SimpleQueue()
    processes = [CONTEXT.Process(target=open_at_once, args=(path, meet, answers), daemon=True) for _ in range(3)]

    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)

    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert [answers.get() for _ in processes] == ["created"] * 3


# What cannot be opened.


@pytest.mark.parametrize("what", ["a text file", "a folder", "a missing folder", "a folder of a file"])
async def test_what_is_no_headrace_file_is_refused_in_one_sentence_and_left_alone(tmp_path: Path, what: str) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("Dear diary, " * 100)
    paths = {
        "a text file": text,
        "a folder": tmp_path,
        "a missing folder": tmp_path / "nowhere" / "headrace.db",
        "a folder of a file": text / "headrace.db",
    }

    with pytest.raises(HeadraceError) as refused:
        await SqliteStore.open(str(paths[what]))

    assert str(paths[what]) in str(refused.value)
    assert "check that" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert text.read_text() == "Dear diary, " * 100
    assert names_in(tmp_path) == ["notes.txt"]
    assert store_threads() == []


async def test_an_unknown_profile_is_refused(path: str) -> None:
    with pytest.raises(BadConfig) as refused:
        await SqliteStore.open(path, profile="reckless")

    assert "durable, fast" in str(refused.value)
    assert size_of(path) == 0


# Profiles and epochs.


@pytest.mark.parametrize(("profile", "synchronous"), [("durable", 2), ("fast", 1)])
async def test_a_profile_is_really_set_and_stated(path: str, profile: str, synchronous: int) -> None:
    store = await SqliteStore.open(path, profile=profile)

    writer = await store._engine.writer.run(lambda each: each.execute("PRAGMA synchronous").fetchone()[0])
    mode = await store._engine.writer.run(lambda each: each.execute("PRAGMA journal_mode").fetchone()[0])
    health = await store.health()
    await store.close()

    assert (writer, mode) == (synchronous, "wal")
    assert (health.store, health.profile) == ("sqlite", profile)
    assert ("power cut may lose" in health.promise.replace("or a crash of the system ", "")) is (profile == "fast")


async def test_the_default_profile_is_durable(path: str) -> None:
    store = await SqliteStore.open(path)
    health = await store.health()
    await store.close()

    assert health.profile == "durable"


async def run_once(path: str, profile: str, boot_id: str, number: int) -> tuple[Bounds, int]:
    """Open the file, claim one job, and return the journal's bounds and the fence."""
    store = await SqliteStore.open(path, profile=profile, boot_id=boot_id)
    await store.jobs.enqueue([job(f"job-{number}")])
    [claim] = (await store.jobs.claim(request(number))).items
    bounds = await store.journal.bounds(SHARD)
    assert (await store.health()).epoch == bounds.epoch
    await store.close()
    return bounds, claim.lease.fence


@pytest.mark.parametrize(
    ("first", "second", "rises"),
    [
        (("fast", "boot-1"), ("fast", "boot-1"), False),
        (("fast", "boot-1"), ("fast", "boot-2"), True),
        (("fast", "boot-1"), ("durable", "boot-2"), True),
        (("durable", "boot-1"), ("durable", "boot-2"), False),
        (("durable", "boot-1"), ("fast", "boot-2"), False),
        (("fast", "boot-1"), ("durable", "boot-1"), False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
async def test_the_epoch_rises_and_the_fence_jumps_when_a_restart_may_have_lost_the_tail(
    path: str, first: tuple[str, str], second: tuple[str, str], rises: bool
) -> None:
    before, old_fence = await run_once(path, *first, 1)
    after, new_fence = await run_once(path, *second, 2)

    assert (after.epoch > before.epoch) is rises
    assert (new_fence > old_fence + FENCE_JUMP - 1) is rises
    assert new_fence > old_fence
    assert (before.last_seq, after.last_seq) == (2, 4)


async def test_the_tail_of_a_fast_run_is_still_in_doubt_after_a_durable_one_of_the_same_boot(path: str) -> None:
    first, _ = await run_once(path, "fast", "boot-1", 1)
    await run_once(path, "durable", "boot-1", 2)
    third, _ = await run_once(path, "durable", "boot-2", 3)
    fourth, _ = await run_once(path, "durable", "boot-3", 4)

    assert first.epoch < third.epoch == fourth.epoch


async def test_entries_keep_the_epoch_that_they_were_written_in(path: str) -> None:
    await run_once(path, "fast", "boot-1", 1)
    await run_once(path, "fast", "boot-2", 2)

    store = await SqliteStore.open(path, profile="fast", boot_id="boot-2")
    entries = await store.journal.read(SHARD, 0, 99)
    await store.close()

    epochs = [entry.epoch for entry in entries]
    assert epochs == sorted([epochs[0], epochs[-1]] * 2)
    assert epochs[0] < epochs[-1]


async def test_two_runs_that_begin_at_the_same_lost_tail_share_no_epoch_and_no_fence(path: str, tmp_path: Path) -> None:
    await run_once(path, "fast", "boot-1", 1)
    saved = shutil.copy(path, tmp_path / "saved.db")

    lives = []
    for boot in ("boot-2", "boot-3"):
        shutil.copy(saved, path)
        lives.append(await run_once(path, "fast", boot, 2))

    (second, second_fence), (third, third_fence) = lives
    assert second.epoch < third.epoch
    assert second_fence < third_fence


async def test_a_queue_made_after_a_lost_tail_begins_in_the_epoch_of_the_others(path: str) -> None:
    await run_once(path, "fast", "boot-1", 1)
    after, _ = await run_once(path, "fast", "boot-2", 2)

    store = await SqliteStore.open(path, profile="fast", boot_id="boot-2")
    await store.jobs.enqueue([new_job(Queue("another", "acme"), "send", fresh_id="a")])
    bounds = await store.journal.bounds(Shard(Queue("another", "acme"), 0))
    await store.close()

    assert bounds.epoch == after.epoch


# Threads, forks and closing.


def store_threads() -> list[str]:
    """The names of the threads of open stores."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headrace-sqlite")]


async def test_a_closed_store_leaves_no_thread_and_folds_its_log_into_the_file(path: str) -> None:
    store = await SqliteStore.open(path)
    await store.jobs.enqueue([job("a")])
    await store.reads.find(QUEUE, ["a"])
    running = store_threads()
    await store.close()
    await store.close()

    assert len(running) == 2
    assert store_threads() == []
    assert size_of(path + "-wal") == 0


async def test_calls_that_were_asked_before_the_close_are_answered(path: str) -> None:
    store = await SqliteStore.open(path, profile="fast")

    calls = [asyncio.create_task(store.jobs.enqueue([job(f"job-{number}")])) for number in range(20)]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*calls)

    assert [answer.status for [answer] in answers] == ["created"] * 20


async def test_a_call_whose_caller_went_away_breaks_nothing(path: str) -> None:
    store = await SqliteStore.open(path, profile="fast")

    call = asyncio.create_task(store.jobs.enqueue([job("a")]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    [answer] = await store.jobs.enqueue([job("b")])
    found = await store.reads.find(QUEUE, ["a", "b"])
    await store.close()

    assert answer.status == "created"
    assert found[1] is not None


def test_many_threads_may_each_have_a_store_of_their_own(path: str) -> None:
    """CB15: what threads do at once is not lost."""
    failures: list[BaseException] = []
    meet = threading.Barrier(6)

    async def work(number: int) -> None:
        store = await SqliteStore.open(path, profile="fast")
        for each in range(10):
            await store.jobs.enqueue([job(f"job-{number}-{each}")])
            for claim in (await store.jobs.claim(request(number * 100 + each))).items:
                await store.jobs.settle([claim.settle(Done())])
        await store.close()

    def run(number: int) -> None:
        try:
            meet.wait(PATIENCE_S)
            asyncio.run(work(number))
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    async def look() -> tuple[int, int]:
        store = await SqliteStore.open(path, profile="fast")
        counts, bounds = await store.queues.counts(QUEUE), await store.journal.bounds(SHARD)
        await store.close()
        return counts.done + counts.waiting, bounds.last_seq - counts.done * 3 - counts.waiting

    assert failures == []
    assert asyncio.run(look()) == (60, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_store_survives_a_fork_on_both_sides(path: str) -> None:
    store = asyncio.run(SqliteStore.open(path, profile="fast"))
    asyncio.run(enqueue(store, "before"))

    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)  # a child that hangs ends by itself
        status = 1
        try:
            asyncio.run(enqueue(store, "child"))
            asyncio.run(store.close())
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    asyncio.run(enqueue(store, "parent"))

    async def look() -> list[bool]:
        found = await store.reads.find(QUEUE, ["before", "child", "parent"])
        await store.close()
        return [each is not None for each in found]

    assert os.waitstatus_to_exitcode(status) == 0
    assert asyncio.run(look()) == [True, True, True]


async def enqueue(store: SqliteStore, id: str) -> None:
    [answer] = await store.jobs.enqueue([job(id)])
    assert answer.status == "created"


async def test_the_clock_of_a_store_can_be_given(path: str) -> None:
    clock = ManualClock(5_000)
    store = await SqliteStore.open(path, clock=clock)

    await store.jobs.enqueue([job("a")])
    clock.advance(70)
    [claim] = (await store.jobs.claim(request())).items
    await store.close()

    assert (claim.record.enqueued_at_ms, claim.claimed_at_ms) == (5_000, 5_070)


async def test_what_was_answered_is_there_after_the_file_is_opened_again(path: str) -> None:
    """CB14, CB18: all of it, in the state it was left in."""
    store = await SqliteStore.open(path)
    await store.jobs.enqueue([job("waiting"), job("active"), job("later")])
    await store.jobs.claim(request(1, 2))
    await store.queues.configure(QUEUE, {"max_attempts": 3})
    before = (await store.reads.snapshot(SHARD), await store.queues.counts(QUEUE), await store.journal.bounds(SHARD))
    await store.close()

    store = await SqliteStore.open(path)
    after = (await store.reads.snapshot(SHARD), await store.queues.counts(QUEUE), await store.journal.bounds(SHARD))
    config = await store.queues.configuration(QUEUE)
    await store.close()

    assert after == before
    assert config.max_attempts == 3


# Files that are large, locked or full.


async def test_the_log_beside_the_file_does_not_grow_without_bound(path: str) -> None:
    store = await SqliteStore.open(path, profile="fast")
    largest = 0

    for turn in range(50):
        await store.jobs.enqueue(
            [job(f"job-{number}", b"x" * 10_000) for number in range(turn * 100, turn * 100 + 100)]
        )
        await store.queues.purge(QUEUE)
        await store.queues.counts(QUEUE)
        largest = max(largest, size_of(path + "-wal"))
    await store.close()

    assert largest < 32 * 1024 * 1024, "50 MB were written"


async def test_a_file_that_another_process_holds_is_unavailable_for_writing_and_can_be_read(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.stores.sqlite.connection.BUSY_SECONDS", 0.05)
    store = await SqliteStore.open(path, profile="fast")
    await store.jobs.enqueue([job("a")])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailable) as refused:
            await store.jobs.enqueue([job("b")])
        found = await store.reads.find(QUEUE, ["a", "b"])
        other.execute("ROLLBACK")
    [answer] = await store.jobs.enqueue([job("b")])
    await store.close()

    assert "try again" in str(refused.value)
    assert [each is not None for each in found] == [True, False]
    assert answer.status == "created"


async def test_an_idle_claim_looks_before_it_takes_the_write_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.stores.sqlite.connection.BUSY_SECONDS", 0.05)
    store = await SqliteStore.open(path, profile="fast")
    await store.queues.configure(QUEUE, {"priority": 3})
    assert (await store.jobs.claim(request(1))).items == []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        idle = await store.jobs.claim(request(2))
        other.execute("ROLLBACK")
    await store.jobs.enqueue([job("a")])
    busy = await store.jobs.claim(request(3))
    await store.close()

    assert (idle.items, idle.next_at_ms) == ([], None)
    assert [claim.record.id for claim in busy.items] == ["a"]


def fill_the_disk(path: str, answers: Any) -> None:
    """What a process does whose files may not grow any more, which SQLite meets like a full disk."""

    async def run() -> list[object]:
        store = await SqliteStore.open(path, profile="fast")
        await store.jobs.enqueue([job("before")])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_of(path + "-wal") + 20_000, hard))
        results: list[object] = []
        try:
            await store.jobs.enqueue([job(f"large-{number}", b"x" * 200_000) for number in range(10)])
        except (StoreUnavailable, OutcomeUnknown) as full:
            results.append(str(full))
            if isinstance(full, OutcomeUnknown):
                assert full.unknown == tuple(f"large-{number}" for number in range(10))  # noqa: PT017 - a process of its own
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        results += [answer.status for answer in await store.jobs.enqueue([job("after")])]
        ids = ["before", "large-0", "large-9", "after"]
        results += [found is not None for found in await store.reads.find(QUEUE, ids)]
        results.append((await store.queues.counts(QUEUE)).waiting)
        await store.close()
        return results

    answers.put(asyncio.run(run()))


def test_a_full_disk_is_reported_changes_nothing_and_is_used_again_when_there_is_room(path: str) -> None:
    answers = CONTEXT.SimpleQueue()
    process = CONTEXT.Process(target=fill_the_disk, args=(path, answers), daemon=True)

    process.start()
    process.join(PATIENCE_S)

    assert process.exitcode == 0
    sentence, *rest = answers.get()
    assert path in sentence
    assert rest == ["created", True, False, False, True, 2]
