"""What a stream does when a journal is not what it has read any more: it refuses, or goes on and counts."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.errors import Refused
from headrace.model.names import Queue, Shard
from tests.pipeline.filled_journals import delete, fill, fill_store, keep
from tests.pipeline.player import Checkpoint, ids, places, playing
from tests.pipeline.shared_stores import SERVED, fresh_url
from tests.support.redis_servers import RedisServer
from tests.support.stores import sqlite_url

FAST, SLOW = Queue("fast"), Queue("slow")


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """An empty store in a file: for promises that have nothing to do with the kind of store."""
    fill_store(sqlite_url(tmp_path))
    return sqlite_url(tmp_path)


def test_events_that_retention_dropped_unread_are_refused_or_skipped_with_their_number(url: str) -> None:
    checkpoint = Checkpoint()
    fill_store(url, fill(FAST, 10))
    with playing(checkpoint, url=url, maxEventsPerTrigger="4") as run:
        run.batch()
    fill_store(url, keep(Shard(FAST), 3))

    with (
        playing(checkpoint, url=url) as run,
        pytest.raises(Refused, match=r"default/fast/0 up to seq 4, and retention has dropped what follows up to 8;"),
    ):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [[("fast", 9), ("fast", 10), ("fast", 11)]]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (4, 0)


def test_a_batch_that_failed_and_was_dropped_since_is_refused_or_read_as_far_as_it_is_kept(file: str) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 10))
    with playing(checkpoint, url=file, maxEventsPerTrigger="8") as run:
        run.batch()
    checkpoint.run = 0
    fill_store(file, keep(Shard(FAST), 5))

    with playing(checkpoint, url=file) as run, pytest.raises(Refused, match="has dropped what follows up to 6"):
        run.batch()
    with playing(checkpoint, url=file, failOnDataLoss="false") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [
        [("fast", 7), ("fast", 8)],
        [("fast", 9), ("fast", 10), ("fast", 11)],
    ]


def test_a_checkpoint_of_another_store_is_refused_or_begins_anew(url: str, tmp_path: Path) -> None:
    checkpoint, other = Checkpoint(), f"sqlite:///{tmp_path / 'other.db'}"
    fill_store(other, fill(FAST, 5, prefix="theirs"))
    fill_store(url, fill(FAST, 7, prefix="ours"))
    with playing(checkpoint, url=other) as run:
        run.batch()

    with (
        playing(checkpoint, url=url) as run,
        pytest.raises(
            Refused, match=r"up to seq 5, and its journal holds another event there: .* use a new checkpoint"
        ),
    ):
        run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        batches = run.rest()

    assert ids(batches) == [f"ours-{n}" for n in range(7)]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 5)


def test_a_queue_that_is_gone_is_refused_or_left_out_while_the_stream_runs(url: str) -> None:
    checkpoint = Checkpoint()
    fill_store(url, fill(FAST, 3), fill(SLOW, 3))

    with playing(checkpoint, url=url, queue="fast,slow") as run:
        run.batch()
        fill_store(url, delete(SLOW))
        with pytest.raises(Refused, match=r"default/slow/0 up to seq 3, and the queue no longer exists"):
            run.batch()
    fill_store(url, fill(FAST, 1, since=3))
    with playing(checkpoint, url=url, queue="fast,slow", failOnDataLoss="false") as run:
        batches = run.rest()

    assert [places(batch) for batch in batches] == [[("fast", 4)]]
    assert list(checkpoint.last["shards"]) == ["default/fast/0"]


@pytest.mark.parametrize("count", [2, 3, 9], ids=["shorter", "as long", "longer"])
def test_a_queue_that_was_made_anew_under_its_name_is_refused_or_read_from_its_beginning(url: str, count: int) -> None:
    checkpoint = Checkpoint()
    fill_store(url, fill(FAST, 3))

    with playing(checkpoint, url=url) as run:
        run.batch()
        fill_store(url, delete(FAST), fill(FAST, count, since=10, prefix="new"))
        with pytest.raises(Refused, match="the queue was created again"):
            run.batch()
    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        batches = run.rest()

    assert ids(batches) == [f"new-{n}" for n in range(10, 10 + count)]
    assert checkpoint.last["lost"] == 3


def test_a_queue_that_was_made_anew_with_other_shards_is_read_from_its_beginning(url: str) -> None:
    checkpoint, wide = Checkpoint(), Queue("fast", shards=3)
    fill_store(url, fill(FAST, 3))

    with playing(checkpoint, url=url, failOnDataLoss="false") as run:
        run.batch()
        fill_store(url, delete(FAST), fill(wide, 9, since=10, prefix="new"))
        batches = run.rest()

    assert sorted(ids(batches)) == sorted(f"new-{n}" for n in range(10, 19))
    assert list(checkpoint.last["shards"]) == [f"default/fast/{n}" for n in range(3)]


def put_back(folder: Path, *, is_noticed: bool) -> None:
    """An older copy of the file, as after a restore, or (noticed) after a start of the machine that lost the tail."""
    for end in ("-wal", "-shm"):
        (folder / f"headrace.db{end}").unlink(missing_ok=True)
    shutil.copy(folder / "copy.db", folder / "headrace.db")
    if is_noticed:
        with closing(sqlite3.connect(folder / "headrace.db")) as file:
            file.execute("UPDATE store SET boot_id = 'another'")
            file.commit()


@pytest.mark.parametrize("is_noticed", [True, False], ids=["with a new epoch", "unnoticed by the store"])
@pytest.mark.parametrize("fresh", [0, 1, 6], ids=["before anything is new", "shorter", "longer"])
def test_a_tail_that_was_lost_is_refused_or_gone_on_from_with_what_is_new(
    file: str, tmp_path: Path, fresh: int, is_noticed: bool
) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 4))
    with (
        closing(sqlite3.connect(tmp_path / "headrace.db")) as now,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        now.backup(copy)
    fill_store(file, fill(FAST, 3, since=4))
    with playing(checkpoint, url=file) as run:
        run.batch()
    put_back(tmp_path, is_noticed=is_noticed)
    fill_store(file, fill(FAST, fresh, since=20, prefix="new"))

    with playing(checkpoint, url=file) as run, pytest.raises(Refused, match="the store has lost its tail"):
        run.batch()
    with playing(checkpoint, available_now=True, url=file, failOnDataLoss="false") as run:
        batches = run.rest()
    fill_store(file, fill(FAST, 2, since=40, prefix="newer"))
    with playing(checkpoint, url=file) as run:
        later = run.rest()

    assert ids(batches) == [f"new-{n}" for n in range(20, 20 + fresh)]
    assert ids(later) == ["newer-40", "newer-41"]
    assert (checkpoint.last["skipped"], checkpoint.last["lost"]) == (0, 3)


def test_a_redis_that_lost_its_tail_is_gone_on_from_with_what_is_new() -> None:
    checkpoint = Checkpoint()
    with RedisServer().launch() as server:
        fill_store(server.url, fill(FAST, 4))
        server.ask("SAVE")
        fill_store(server.url, fill(FAST, 3, since=4))
        with playing(checkpoint, url=server.url) as run:
            run.batch()
        server.kill()
        server.start()

        with playing(checkpoint, url=server.url) as run, pytest.raises(Refused, match="ends at seq 4: the store has"):
            run.batch()
        with playing(checkpoint, url=server.url, failOnDataLoss="false") as run:
            before = run.rest()
            fill_store(server.url, fill(FAST, 5, since=20, prefix="new"))
            after = run.rest()

    assert ids(before) == []
    assert [row["id"] for row in after[0]] == [f"new-{n}" for n in range(20, 25)]
    assert len({row["epoch"] for row in after[0]}) == 1
    assert checkpoint.last["lost"] == 3


def test_a_new_epoch_of_a_store_that_lost_nothing_is_no_loss(file: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 4))
    with playing(checkpoint, url=file) as run:
        run.batch()
    with closing(sqlite3.connect(tmp_path / "headrace.db")) as connection:
        connection.execute("UPDATE store SET boot_id = 'another'")
        connection.commit()
    fill_store(file, fill(FAST, 2, since=4))

    with playing(checkpoint, url=file) as run:
        batches = run.rest()

    assert [row["seq"] for row in batches[0]] == [5, 6]
    assert len({row["epoch"] for row in batches[0]} - {1}) == 1


def test_available_now_ends_though_the_tail_is_lost_meanwhile(file: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint()
    fill_store(file, fill(FAST, 4))
    with (
        closing(sqlite3.connect(tmp_path / "headrace.db")) as now,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        now.backup(copy)
    fill_store(file, fill(FAST, 4, since=4))
    with playing(checkpoint, available_now=True, url=file, maxEventsPerTrigger="3", failOnDataLoss="false") as run:
        first = run.batch()
        run.reader._open.close()
        put_back(tmp_path, is_noticed=True)
        fill_store(file, fill(FAST, 9, since=20, prefix="new"))
        targets = run.reader._follow()._targets
        run.reader.stop()
        run.reader._follow()._targets = targets
        batches = run.rest()

    assert first is not None
    assert ids([first, *batches]) == [f"job-{n}" for n in range(4)]
