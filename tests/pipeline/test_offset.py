"""Offsets: what Spark keeps of a stream, and what a batch between two of them reads."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import BadConfig
from headrace.model.event import Entry, Span
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.offset import NOTHING, Mark, Offset

MAIL = Shard(Queue("mail"))
numbers = st.integers(0, 2**53)
names = st.builds("{}/{}/{}".format, st.sampled_from(["default", "acme"]), st.sampled_from("abc"), st.integers(0, 3))
marks = st.builds(Mark, numbers, numbers, st.text("0123456789abcdef", max_size=16), numbers)
offsets = st.builds(
    Offset,
    shards=st.dictionaries(names, marks),
    jumps=st.dictionaries(names, numbers),
    skipped=numbers,
    lost=numbers,
)


def entry(seq: int = 7, epoch: int = 1, at_ms: int = 1_000, lines: bytes = b'{"event":"done"}\n') -> Entry:
    return Entry(epoch=epoch, last_seq=seq, count=1, at_ms=at_ms, worker=None, lines=lines)


@given(offsets)
def test_an_offset_comes_back_from_the_json_that_spark_keeps(offset: Offset) -> None:
    kept = json.dumps(offset.to_json())

    assert Offset.parse(json.loads(kept)) == offset


def test_an_offset_is_written_as_the_reference_says() -> None:
    offset = Offset(shards={"default/mail/0": Mark(1, 17, "0f", 99)}, jumps={"default/mail/0": 9}, skipped=2, lost=3)

    assert offset.to_json() == {
        "v": 1,
        "shards": {"default/mail/0": [1, 17, "0f", 99]},
        "jumps": {"default/mail/0": 9},
        "skipped": 2,
        "lost": 3,
    }


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"v": 2, "shards": {}},
        {"v": 1, "shards": {}, "more": 1},
        {"v": 1, "shards": {"default/mail/0": 17}},
        {"v": 1, "shards": {"default/mail/0": [1, "17", "", 0]}},
        {"v": 1, "shards": {"mail": [1, 17, "", 0]}},
        {"v": 1, "feeds": {"default/stats": "a-1-2"}, "skipped": 0},
    ],
    ids=str,
)
def test_a_checkpoint_of_another_shape_or_version_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(BadConfig, match="the checkpoint was written by another version of Headrace"):
        Offset.parse(stored)


def test_a_mark_tells_events_apart_by_all_that_they_are() -> None:
    same = Mark.of(7, [entry()])

    others = [
        Mark.of(7, [entry(epoch=2)]),
        Mark.of(7, [entry(at_ms=1_001)]),
        Mark.of(7, [entry(lines=b'{"event":"dead"}\n')]),
    ]

    assert same == Mark.of(7, [entry()])
    assert len({mark.digest for mark in (same, *others)}) == 4
    assert len(same.digest) == 16


def test_a_mark_of_an_event_that_is_not_kept_has_no_digest() -> None:
    assert Mark.of(7, []) == Mark(0, 7, "", 0)
    assert Mark.of(0, []) == NOTHING


def test_a_batch_reads_from_where_the_last_one_ended_or_from_where_it_says_that_it_began() -> None:
    names = ("default/mail/0", "default/mail/1", "default/mail/2", "default/mail/3")
    shards = dict(zip(names, Queue("mail", shards=4).all_shards(), strict=True))
    start = Offset(shards={names[0]: Mark(1, 5, "a", 0), names[1]: Mark(1, 9, "b", 0), names[3]: Mark(1, 4, "c", 0)})
    end = Offset(
        shards=dict.fromkeys(names[:3], Mark(1, 8, "d", 0)) | {names[3]: Mark(1, 4, "c", 0)}, jumps={names[1]: 6}
    )

    spans = end.spans(start, shards)

    assert spans == [Span(shards[names[0]], 5, 8), Span(shards[names[1]], 6, 8), Span(shards[names[2]], 0, 8)]


def test_what_goes_to_a_task_shows_nothing_of_the_store_and_comes_back() -> None:
    from headrace.pipeline.source.stream_reader import StreamPartition

    part = StreamPartition((Span(MAIL, 1, 2),))

    back = pickle.loads(pickle.dumps(part))  # noqa: S301  (our own)

    assert back.spans == part.spans
    assert back.planned_on == part.planned_on
