"""Promises of the check by seq and of the start of a run: what does not fit is refused, and nothing is added."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.model.errors import BadConfig, Refused, StoreUnavailable
from headrace.model.names import Queue, Shard
from headrace.pipeline.history.batch import HistoryConsumer, Writer
from headrace.pipeline.history.lock import take_lock
from headrace.pipeline.history.run import find_begins, follow_history
from headrace.pipeline.history.table import APP, HistoryState, history_table, read_state
from headrace.pipeline.history.verify import (
    PlannedBatch,
    SeqSpan,
    StoredRange,
    VerifiedCounts,
    read_planned,
    stored_ranges,
    verify,
)
from headrace.pipeline.source.journal.offset import Mark, Offset
from headrace.pipeline.source.options import SourceOptions
from tests.pipeline.filled_journals import delete, fill, fill_store, keep
from tests.pipeline.histories import written
from tests.pipeline.shared_stores import SERVED, call_store, fresh_url
from tests.support.stores import sqlite_url

MAIL = "default/mail/0"


def mark(seq: int) -> Mark:
    return Mark(1, seq, "", 0)


def planned(after: int, upto: int, *, jumps: bool = False) -> PlannedBatch:
    """A batch with one span of one journal."""
    return PlannedBatch(
        Offset(shards={MAIL: mark(upto)}, jumps={MAIL: after} if jumps else {}), {MAIL: SeqSpan(after, upto)}
    )


def ranges(folder: Path, *files: Sequence[int], **options: Any) -> dict[str, StoredRange]:
    """What files with these events of the journal hold."""
    table = history_table(folder)
    return stored_ranges([file for seqs in files for file in written(table, 0, seqs, **options)])


def test_a_batch_that_holds_what_it_is_to_hold_is_counted(tmp_path: Path) -> None:
    """A journal goes on over midnight, so its events may be in several files."""
    table, batch = history_table(tmp_path), planned(3, 6)
    files = [
        *written(table, 0, [4, 5]),
        *written(table, 0, [6], day="2030-02-01"),
        *written(table, 0, [1], queue="new"),
    ]
    batch.spans["default/new/0"] = SeqSpan(0, 1)

    counts = verify(batch, stored_ranges(files), {MAIL: mark(3)}, strict=True)

    assert counts == VerifiedCounts(events=4)


@pytest.mark.parametrize(
    ("seqs", "sentence"),
    [
        (
            [4, 5, 5, 6],
            "was to hold seq 4 to 6 of default/mail/0, and its files hold seq 4 to 6 in 4 rows of which 1 are",
        ),
        ([4, 4, 6], "files hold seq 4 to 6 in 3 rows of which 1 are doubles"),
        ([3, 4, 5], "files hold seq 3 to 5 in 3 rows"),
        ([4, 6], "files hold seq 4 to 6 in 2 rows; nothing was added"),
        ([4, 5], "files hold seq 4 to 5 in 2 rows"),
        ([5, 6], "files hold seq 5 to 6 in 2 rows"),
        ([3, 4, 5, 6], "files hold seq 3 to 6 in 4 rows"),
        ([], "files hold nothing; nothing was added: start again; if it comes back"),
    ],
)
def test_a_batch_with_a_double_a_gap_or_an_event_too_few_or_too_many_is_refused(
    tmp_path: Path, seqs: list[int], sentence: str
) -> None:
    one, halves = ranges(tmp_path, seqs), ranges(tmp_path, seqs[:2], seqs[2:])

    for found in (one, halves):
        with pytest.raises(StoreUnavailable, match=sentence):
            verify(planned(3, 6), found, {}, strict=True)


def test_events_of_a_journal_that_the_batch_is_not_about_are_refused(tmp_path: Path) -> None:
    found = ranges(tmp_path, [4, 5, 6]) | ranges(tmp_path, [1], queue="other")

    with pytest.raises(StoreUnavailable, match="to hold nothing of default/other/0"):
        verify(planned(3, 6), found, {}, strict=True)


@pytest.mark.parametrize(("ended", "jumps"), [(2, True), (2, False), (4, True)])
def test_a_batch_that_does_not_go_on_where_the_history_ended_is_refused(ended: int, jumps: bool) -> None:
    with pytest.raises(
        StoreUnavailable, match=f"holds default/mail/0 up to seq {ended}, and this batch goes on after 3"
    ):
        verify(planned(3, 3, jumps=jumps), {}, {MAIL: mark(ended)}, strict=True)


def test_what_the_stream_has_gone_on_without_is_counted_where_that_is_allowed(tmp_path: Path) -> None:
    found = ranges(tmp_path, [5, 6])

    skipped = verify(planned(3, 6, jumps=True), found, {MAIL: mark(1)}, strict=False)
    lost = verify(planned(4, 6, jumps=True), found, {MAIL: mark(9)}, strict=False)
    none = verify(planned(3, 6), {}, {MAIL: mark(3)}, strict=False)

    assert skipped == VerifiedCounts(events=2, skipped=2 + 1)
    assert lost == VerifiedCounts(events=2, lost=5)
    assert none == VerifiedCounts(skipped=3)
    with pytest.raises(StoreUnavailable, match="goes on after 3"):
        verify(planned(3, 6), found, {MAIL: mark(1)}, strict=False)
    with pytest.raises(StoreUnavailable, match="hold seq 4 to 6 in 2 rows"):
        verify(planned(3, 6), ranges(tmp_path, [4, 6]), {}, strict=False)


def test_a_folder_with_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    fill_store(sqlite_url(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()

    with pytest.raises(BadConfig, match=r"holds something else \('letter.txt'\)"):
        follow_history(cast("Any", None), sqlite_url(tmp_path), tmp_path / "mine")

    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    table = history_table(tmp_path)
    table.prepare()
    table.commit([], batch=(APP, 0), state={"v": 2})

    with pytest.raises(BadConfig, match="was written by another version of Headrace"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"folder": "hdfs://name/history"}, "is on HDFS, which is not supported"),
        ({"folder": "s3://bucket/history", "form": "parquet"}, "the form parquet is for local disks"),
        ({"split": "queue"}, "split is 'queue'; give tenant, or leave it out"),
        ({"folder": "/data/[x]"}, "which Spark takes for a pattern"),
        ({"form": "orc"}, "form is 'orc'; give delta or parquet"),
        ({"every_ms": -1}, "every_ms"),
        ({"events_max": 0}, "events_max"),
        ({"url": "memory://"}, "lives inside one process"),
        ({"queue": ""}, "option queue is ''"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_before_spark_is_asked(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    fill_store(sqlite_url(tmp_path))
    usual = {"url": sqlite_url(tmp_path), "folder": str(tmp_path / "history")}

    with pytest.raises((BadConfig, Refused), match=sentence):
        follow_history(cast("Any", None), **(usual | options))
    assert not (tmp_path / "history").exists()


def test_the_first_batch_of_a_checkpoint_says_where_it_begins_or_holds_nothing(tmp_path: Path) -> None:
    note(tmp_path, 0, mark(5))
    nothing = read_planned(tmp_path, 0)
    note(tmp_path, 0, mark(5), jumps={MAIL: 3})
    note(tmp_path, 1, mark(9))

    assert nothing.spans == {MAIL: SeqSpan(5, 5)}
    assert read_planned(tmp_path, 0).spans == {MAIL: SeqSpan(3, 5)}
    assert read_planned(tmp_path, 1).spans == {MAIL: SeqSpan(5, 9)}


def note(folder: Path, number: int, end: Mark, jumps: dict[str, int] | None = None) -> None:
    """What Spark notes of a batch before it begins."""
    offsets = folder / "offsets"
    offsets.mkdir(exist_ok=True)
    stored = Offset(shards={MAIL: end}, jumps=jumps or {}).to_json()
    (offsets / str(number)).write_text(f"v1\n{{}}\n{json.dumps(stored)}")


def test_one_run_has_the_right_to_write_a_history_and_none_after_it_was_stopped(tmp_path: Path) -> None:
    first = take_lock(tmp_path)

    with pytest.raises(BadConfig, match="another run writes the history in"):
        take_lock(tmp_path)
    first.release()
    second = take_lock(tmp_path)

    with pytest.raises(BadConfig, match="was stopped, and writes no more"):
        Writer(history_table(tmp_path), tmp_path, first, HistoryState(), SourceOptions(url=""), None).write(
            cast("Any", None), 0
        )
    second.release()


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def test_the_consumer_is_registered_and_advanced_and_a_queue_that_is_gone_does_not_matter(url: str) -> None:
    mail, old = Queue("mail", shards=2), Queue("old")
    fill_store(url, fill(mail, 9), fill(old, 1))
    options = SourceOptions(url=url, tenant="*", names=("mail", "old"))
    first, second = HistoryConsumer("history", options, hold=False), HistoryConsumer("history", options, hold=True)

    call_store(url, lambda store: first.advance(store, {MAIL: 2, "default/old/0": 1, "default/never/0": 1}))
    fill_store(url, delete(old))
    call_store(url, lambda store: first.advance(store, {MAIL: 3, "default/old/0": 1, "default/mail/1": 99}))
    call_store(url, lambda store: second.advance(store, {MAIL: 3, "default/old/0": 1}))

    found = call_store(url, lambda store: store.journal.consumers(Shard(mail, 0)))
    assert [(each.name, each.seq, each.hold) for each in found] == [("history", 3, True)]
    assert call_store(url, lambda store: store.journal.consumers(Shard(mail, 1))) == []


def test_a_lost_checkpoint_begins_behind_the_state_and_another_store_is_refused(tmp_path: Path) -> None:
    mail, url = Queue("mail"), sqlite_url(tmp_path)
    strict = SourceOptions(url=url, tenant="*")
    loose = SourceOptions(url=url, tenant="*", fails_on_loss=False)
    fill_store(url, fill(mail, 5))

    def begins(options: SourceOptions, ended: Mark, name: str = MAIL) -> dict[str, int]:
        return call_store(url, lambda store: find_begins(store, options, {name: ended}))

    assert begins(strict, mark(3)) == {MAIL: 4}
    for wrong, name, sentence in (
        (mark(9), MAIL, "up to seq 9, and the store's journal ends at seq 5"),
        (Mark(1, 3, "beef", 7), MAIL, "up to seq 3, and the store's journal holds another event there"),
        (mark(1), "default/gone/0", "up to seq 1, and the store has no such queue; use a new folder, or give"),
    ):
        with pytest.raises(Refused, match=sentence):
            begins(strict, wrong, name)
    assert begins(loose, mark(1), "default/gone/0") == {}
    fill_store(url, keep(Shard(mail), 2))
    with pytest.raises(Refused, match="up to seq 3, and retention has dropped what follows up to 4"):
        begins(strict, mark(3))
    assert begins(loose, mark(3)) == {MAIL: 5}
