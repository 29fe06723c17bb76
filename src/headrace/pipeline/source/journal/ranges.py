"""Finds the ranges of events that a batch reads, by its options and filters and the bounds of the journals."""

from collections.abc import Sequence

from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.event import Bounds, Span
from headrace.model.limits import BATCH_MAX, TIME_MS_MAX
from headrace.model.names import Shard
from headrace.model.validate import cut
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.offsets import EARLIEST, LATEST, OffsetLimit
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import span_of
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.store import Store


async def find_ranges(store: Store, options: SourceOptions, filters: Filters) -> list[Span]:
    """The ranges of kept events, one for each shard that passes the filters."""
    shards = [shard for queue in await find_queues(store, options) for shard in queue.all_shards()]
    check_named("startingOffsets", options.starting, shards)
    check_named("endingOffsets", options.ending, shards)
    shards = [shard for shard in shards if _can_hold(shard, filters)]
    bounds = await bounds_of(store.journal, shards)
    begins = await find_seqs(
        store.journal, "startingOffsets", options, options.starting or OffsetLimit("earliest"), bounds
    )
    ends = await find_seqs(store.journal, "endingOffsets", options, options.ending or OffsetLimit("latest"), bounds)
    spans = []
    for shard, begin, end in zip(shards, begins, ends, strict=True):
        if begin > end:
            raise BadConfig(
                f"for {shard} startingOffsets means seq {begin} and endingOffsets seq {end}; start before the end"
            )
        spans.append(Span(shard, begin - 1, end - 1))
    return await narrow(store.journal, spans, filters)


def check_named(option: str, limit: OffsetLimit | None, shards: Sequence[Shard]) -> None:
    """Refuse a limit for a shard that is not read: its name is probably misspelt."""
    known = {str(shard) for shard in shards}
    for name in limit.names if limit else ():
        if name not in known:
            some = ", ".join(sorted(known)[:10])
            raise BadConfig(
                f"option {option} names {cut(name)!r}, which is not one of the shards to read; known shards, as"
                f" tenant/queue/shard: {some or 'none'}{', …' if len(known) > 10 else ''}"
            )


async def bounds_of(journal: Journal, shards: Sequence[Shard]) -> dict[Shard, Bounds]:
    """The bounds of the journals of any number of shards."""
    found: dict[Shard, Bounds] = {}
    for start in range(0, len(shards), BATCH_MAX):
        some = shards[start : start + BATCH_MAX]
        found.update(zip(some, await journal.all_bounds(some), strict=True))
    return found


async def reached(journal: Journal, spans: Sequence[Span], at_ms: int) -> list[int]:
    """The last seq of any number of spans at an instant, which may be out of range."""
    if at_ms < 0:
        return [span.after for span in spans]
    found: list[int] = []
    for start in range(0, len(spans), BATCH_MAX):
        found += await journal.reached(spans[start : start + BATCH_MAX], min(at_ms, TIME_MS_MAX))
    return found


async def find_seqs(
    journal: Journal, option: str, options: SourceOptions, limit: OffsetLimit, bounds: dict[Shard, Bounds]
) -> list[int]:
    """The seq of a limit in each shard: the first event at or after it, one after the last for the end."""
    instants_ms = {
        shard: at_ms for shard in bounds if (at_ms := limit.instants_ms.get(str(shard), limit.at_ms)) is not None
    }
    found: dict[Shard, int] = {}
    for at_ms in sorted(set(instants_ms.values())):
        shards = [shard for shard, instant_ms in instants_ms.items() if instant_ms == at_ms]
        # An event at the instant belongs to the run that begins there, not to the one that ends there.
        seqs = await reached(journal, [span_of(shard, bounds[shard]) for shard in shards], at_ms - 1)
        found |= {shard: seq + 1 for shard, seq in zip(shards, seqs, strict=True)}
    default = EARLIEST if limit.end == "earliest" else LATEST
    return [
        found[shard] if shard in found else _seq(option, options, shard, each, limit.seqs.get(str(shard), default))
        for shard, each in bounds.items()
    ]


def _seq(option: str, options: SourceOptions, shard: Shard, bounds: Bounds, seq: int) -> int:
    first, last = bounds.first_seq, bounds.last_seq
    if seq == EARLIEST:
        return first
    if seq == LATEST:
        return last + 1
    seq = max(seq, 1)
    if not first <= seq <= last + 1 and options.fails_on_loss:
        kept = f"holds seq {first} to {last}" if first <= last else f"is empty, its next seq is {last + 1}"
        raise StoreUnavailable(
            f"option {option} says seq {seq} of {shard}, whose journal {kept}; give a seq that is kept, earliest or"
            " latest, or set failOnDataLoss=false to read the kept events"
        )
    return min(max(seq, first), last + 1)


async def narrow(journal: Journal, spans: Sequence[Span], filters: Filters) -> list[Span]:
    """The spans cut by the filters on `seq` and `happened_at`, without empty ones."""
    low, high = filters.bounds("seq")
    spans = [Span(span.shard, max(span.after, low - 1), min(span.upto, high)) for span in spans]
    spans = [span for span in spans if span.count > 0]
    low_ms, high_ms = filters.bounds("happened_at")
    if low_ms > 0:
        afters = await reached(journal, spans, low_ms - 1)
        spans = [Span(span.shard, after, span.upto) for span, after in zip(spans, afters, strict=True)]
    if high_ms < TIME_MS_MAX:
        uptos = await reached(journal, spans, high_ms)
        spans = [Span(span.shard, span.after, upto) for span, upto in zip(spans, uptos, strict=True)]
    return [span for span in spans if span.count > 0]


def _can_hold(shard: Shard, filters: Filters) -> bool:
    return (
        filters.allows("tenant", shard.queue.tenant)
        and filters.allows("queue", shard.queue.full_name)
        and filters.allows("shard", shard.index)
    )
