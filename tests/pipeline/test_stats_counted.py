"""Promises of what statistics have counted: each event is told apart, in whatever order and from wherever it comes."""

import random

from pyspark.sql import SparkSession

from headrace.pipeline.stats.counted import Counted, Range, add, joined, lacks_beginning, overlap, ranges_of, without

SCHEMA = "tenant string, queue string, shard int, epoch long, seq long"


def test_ranges_that_touch_or_overlap_are_one_and_epochs_stay_apart() -> None:
    ranges = [Range(1, 5, 9), Range(1, 1, 4), Range(1, 20, 30), Range(1, 8, 12), Range(2, 13, 14)]

    assert joined(ranges) == [Range(1, 1, 12), Range(1, 20, 30), Range(2, 13, 14)]


def test_whatever_is_added_in_whatever_order_gives_the_same() -> None:
    chance = random.Random(5)
    seqs = [seq for seq in range(1, 200) if chance.random() < 0.9]
    right = joined(Range(1, seq, seq) for seq in seqs)
    for _ in range(20):
        counted: Counted = {}
        for seq in chance.sample(seqs, len(seqs)):
            counted = add(counted, {"acme/mail/0": [Range(1, seq, seq)]})
        assert counted == {"acme/mail/0": right}


def test_a_queue_lacks_its_beginning_when_an_event_of_any_shard_is_missing() -> None:
    counted = {
        "acme/whole/0": [Range(1, 1, 9)],
        "acme/whole/1": [Range(1, 1, 4), Range(2, 4, 6)],
        "acme/late/0": [Range(1, 2, 9)],
        "acme/gap/0": [Range(1, 1, 9)],
        "acme/gap/1": [Range(1, 1, 3), Range(1, 5, 9)],
    }

    assert lacks_beginning(counted) == {"acme/late", "acme/gap"}


def test_only_events_that_were_not_counted_are_left(spark: SparkSession) -> None:
    rows = [("acme", "mail", 0, 1, seq) for seq in (*range(1, 8), *range(10, 13))] + [("acme", "mail", 1, 2, 5)]
    events = spark.createDataFrame(rows, SCHEMA)
    counted = {"acme/mail/0": [Range(1, 3, 4), Range(1, 7, 8), Range(1, 90, 99)], "acme/mail/1": [Range(1, 5, 5)]}

    new = ranges_of(events)
    left = without(events, overlap(counted, new)).collect()

    assert new == {"acme/mail/0": [Range(1, 1, 7), Range(1, 10, 12)], "acme/mail/1": [Range(2, 5, 5)]}
    assert sorted((row.shard, row.seq) for row in left) == [*((0, seq) for seq in (1, 2, 5, 6, 10, 11, 12)), (1, 5)]
