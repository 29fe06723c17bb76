"""Says which events statistics have counted, shard by shard: whoever brings an event again, it is counted once."""

from collections.abc import Iterable, Sequence
from functools import reduce

from msgspec import Struct
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

SHARD = ("tenant", "queue", "shard", "epoch")


class Range(Struct, frozen=True, order=True, array_like=True):
    """Events of one epoch of a shard that follow each other without a gap."""

    epoch: int
    first: int
    last: int


Counted = dict[str, list[Range]]
"""By `tenant/queue/shard`, in order and apart from each other."""


def ranges_of(events: DataFrame) -> Counted:
    """Which events these are. Reads `tenant queue shard epoch seq`."""
    found: Counted = {}
    torn = []
    for row in events.groupBy(*SHARD).agg(F.min("seq"), F.max("seq"), F.count("*")).collect():
        tenant, queue, shard, epoch, first, last, count = row
        if count == last - first + 1:
            found.setdefault(f"{tenant}/{queue}/{shard}", []).append(Range(epoch, first, last))
        else:
            torn.append((tenant, queue, shard, epoch))
    if torn:
        some = events.sparkSession.createDataFrame(torn, "tenant string, queue string, shard int, epoch long")
        within = Window.partitionBy(*SHARD).orderBy("seq")
        # What follows without a gap is as far from its number in line.
        runs = events.join(F.broadcast(some), [*SHARD], "left_semi").select(
            *SHARD, "seq", (F.col("seq") - F.row_number().over(within)).alias("run")
        )
        for row in runs.groupBy(*SHARD, "run").agg(F.min("seq"), F.max("seq")).collect():
            tenant, queue, shard, epoch, _, first, last = row
            found.setdefault(f"{tenant}/{queue}/{shard}", []).append(Range(epoch, first, last))
    return {name: joined(ranges) for name, ranges in found.items()}


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same events in as few ranges as hold them."""
    found: list[Range] = []
    for each in sorted(ranges):
        if found and found[-1].epoch == each.epoch and each.first <= found[-1].last + 1:
            found[-1] = Range(each.epoch, found[-1].first, max(found[-1].last, each.last))
        else:
            found.append(each)
    return found


def add(counted: Counted, more: Counted) -> Counted:
    """All events of both."""
    return counted | {name: joined([*counted.get(name, []), *ranges]) for name, ranges in more.items()}


def overlap(counted: Counted, more: Counted) -> list[tuple[str, str, int, int, int, int]]:
    """The ranges of the first that hold events of the second: `tenant queue shard epoch first last`."""
    found = []
    for name, ranges in more.items():
        tenant, queue, shard = name.split("/")
        found += [
            (tenant, queue, int(shard), one.epoch, one.first, one.last)
            for one in counted.get(name, [])
            if any(one.epoch == each.epoch and one.first <= each.last and each.first <= one.last for each in ranges)
        ]
    return found


def without(events: DataFrame, ranges: Sequence[tuple[str, str, int, int, int, int]]) -> DataFrame:
    """The events that are in none of these ranges."""
    if not ranges:
        return events
    schema = "tenant string, queue string, shard int, epoch long, first long, last long"
    known = F.broadcast(events.sparkSession.createDataFrame(list(ranges), schema))
    same = reduce(lambda one, other: one & other, (events[name] == known[name] for name in SHARD))
    return events.join(known, same & (events.seq >= known["first"]) & (events.seq <= known["last"]), "left_anti")


def lacks_beginning(counted: Counted) -> set[str]:
    """The queues, as `tenant/queue`, of which not all events from the first on were counted.

    An epoch that uses numbers again counts them twice, which hides no beginning that is gone.
    """
    found = set()
    for name, ranges in counted.items():
        count = sum(each.last - each.first + 1 for each in ranges)
        if min(each.first for each in ranges) > 1 or count < max(each.last for each in ranges):
            found.add(name.rpartition("/")[0])
    return found
