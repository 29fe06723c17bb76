"""Reads the journals of shards and registers their readers; checks and repairs shards."""

from typing import Any

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.event import Bounds, Consumer, Span
from headrace.model.integrity import Findings, RepairResult
from headrace.model.limits import BATCH_MAX, SNAPSHOT_ROWS_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import GROUPS, IdRange, Snapshot
from headrace.model.validate import bounded_repr, check_batch, check_int
from headrace.service.operation import Call, Operation, Reply, ShardsQuery, get, post, scopes
from headrace.service.problems import RequestProblem
from headrace.service.queue_names import path_shard, queue_of_field
from headrace.wire.journal import (
    BoundsAnswer,
    BoundsBody,
    ConsumerBody,
    ConsumersAnswer,
    EntriesAnswer,
    EntryAnswer,
    ForgetAnswer,
    IntegrityBody,
    ReachedAnswer,
    ReachedBody,
    ShardBody,
    SpanBody,
    SplitAnswer,
    TrimAnswer,
    TrimBody,
)
from headrace.wire.records import JobAnswer, ScanAnswer


class JournalQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The events with `after < seq <= upto`."""

    after: int = 0
    upto: int = 2**53
    limit: int = 1_000
    shards: int | None = None


class ScanQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a scan. Its cursor is the store's: it names a place in this shard only."""

    group: str = "alive"
    after: str = ""
    upto: str | None = None
    content: bool = True
    cursor: str | None = None
    limit: int = 1_000
    shards: int | None = None


class PartsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of parts."""

    parts: int = 2
    shards: int | None = None


async def journal(call: Call) -> Reply:
    """Read events."""
    query = call.query
    check_int("limit", query.limit, 1, 10_000)
    entries = await call.store.journal.read(await _shard(call), query.after, query.upto, limit=query.limit)
    return Reply(200, EntriesAnswer([EntryAnswer.of(each, packed=call.packed) for each in entries]))


async def _shard(call: Call) -> Shard:
    return await path_shard(call, call.query.shards)


async def _body_shard(call: Call, body: ShardBody | SpanBody) -> Shard:
    queue = await queue_of_field(call, body.queue)
    if body.shards is not None:
        queue = Queue(queue.name, queue.tenant, body.shards, queue.is_fail_queue)
    return Shard(queue, body.shard)


async def bounds(call: Call) -> Reply:
    """The ranges of many journals."""
    body: BoundsBody = call.body
    check_batch("shards", len(body.shards), BATCH_MAX)
    shards = [await _body_shard(call, each) for each in body.shards]
    return Reply(200, BoundsAnswer(list(await call.store.journal.all_bounds(shards))))


async def shard_bounds(call: Call) -> Reply:
    """The range of one journal."""
    return Reply(200, await call.store.journal.bounds(await _shard(call)))


async def reached(call: Call) -> Reply:
    """The ends of journals at an instant."""
    body: ReachedBody = call.body
    check_batch("spans", len(body.spans), BATCH_MAX)
    spans = [Span(await _body_shard(call, each), each.after, each.upto) for each in body.spans]
    return Reply(200, ReachedAnswer(list(await call.store.journal.reached(spans, body.at_ms))))


async def consumers(call: Call) -> Reply:
    """The registered readers."""
    return Reply(200, ConsumersAnswer(list(await call.store.journal.consumers(await _shard(call)))))


async def register(call: Call) -> Reply:
    """Register a reader."""
    shard, body = await _shard(call), call.body
    name = call.path["consumer"]
    found = await call.store.journal.register(shard, name, seq=body.seq, hold=body.hold, now_ms=call.now_ms)
    return Reply(200, found)


async def advance(call: Call) -> Reply:
    """Move a reader on."""
    name = call.path["consumer"]
    return Reply(200, await call.store.journal.advance(await _shard(call), name, call.body.seq, now_ms=call.now_ms))


async def forget(call: Call) -> Reply:
    """Remove a reader."""
    return Reply(200, ForgetAnswer(await call.store.journal.forget(await _shard(call), call.path["consumer"])))


async def trim(call: Call) -> Reply:
    """Drop entries past their retention."""
    check_int("limit", call.body.limit, 1, BATCH_MAX)
    return Reply(
        200, TrimAnswer(await call.store.journal.trim(await _shard(call), limit=call.body.limit, now_ms=call.now_ms))
    )


async def scan(call: Call) -> Reply:
    """Read everything of a group of a shard, in parts."""
    query: ScanQuery = call.query
    if query.group not in GROUPS:
        raise Refused("bad_group", f"there is no group {bounded_repr(query.group)}; groups: {', '.join(GROUPS)}")
    found = await call.store.reads.scan(
        await _shard(call),
        query.group,  # type: ignore[arg-type]  # it is one of GROUPS
        ids=IdRange(query.after, query.upto),
        payloads=query.content,
        cursor=query.cursor,
        limit=query.limit,
        now_ms=call.now_ms,
    )
    rows = [JobAnswer.of(each, packed=call.packed, content=query.content or call.packed) for each in found.rows]
    return Reply(200, ScanAnswer(rows, found.cursor, found.epoch, found.as_of_seq))


async def split(call: Call) -> Reply:
    """Ids that cut a shard into equal parts."""
    parts = await call.store.reads.split_ids(await _shard(call), call.query.parts, now_ms=call.now_ms)
    return Reply(200, SplitAnswer(list(parts)))


async def snapshot(call: Call) -> Reply:
    """Every record of a shard at one instant."""
    found = await call.store.reads.snapshot(await _shard(call), now_ms=call.now_ms)
    if len(found.rows) > SNAPSHOT_ROWS_MAX:
        raise RequestProblem(
            "too_large",
            f"the shard has {len(found.rows):,} records; scan it in parts beyond {SNAPSHOT_ROWS_MAX:,}",
            limit=SNAPSHOT_ROWS_MAX,
        )
    return Reply(200, found)


async def check(call: Call) -> Reply:
    """Check a part of a shard."""
    body: IntegrityBody = call.body
    found = await call.store.integrity.check(
        await _shard(call), cursor=body.cursor, limit=body.limit, now_ms=call.now_ms
    )
    return Reply(200, found)


async def mend(call: Call) -> Reply:
    """Repair a part of a shard."""
    body: IntegrityBody = call.body
    found = await call.store.integrity.repair(
        await _shard(call), cursor=body.cursor, limit=body.limit, now_ms=call.now_ms
    )
    return Reply(200, found)


_SHARD = "/queues/{queue}/shards/{shard}"
_CONSUMER = f"{_SHARD}/consumers/{{consumer}}"
_READ, _ADMIN = scopes("read"), scopes("admin")
_SHARDS: dict[str, Any] = {"query": ShardsQuery}


def _consumer(name: str, method: Any, summary: str, handler: Any, body: Any, answer: Any) -> Operation:
    return Operation(
        name=name,
        method=method,
        path=_CONSUMER,
        summary=summary,
        scopes=_ADMIN,
        handler=handler,
        body=body,
        query=ShardsQuery,
        answers={200: answer},
        problems=("unknown_consumer", "beyond_journal"),
        is_body_optional=True,
        rate="write",
    )


OPERATIONS: tuple[Operation, ...] = (
    get(
        "journal", f"{_SHARD}/journal", "Read the events of a shard.", _READ, journal, EntriesAnswer, query=JournalQuery
    ),
    get("shard_bounds", f"{_SHARD}/bounds", "Show the range of a journal.", _READ, shard_bounds, Bounds, **_SHARDS),
    post(
        "bounds",
        "/journal/bounds",
        "Show the ranges of journals.",
        _READ,
        bounds,
        BoundsBody,
        BoundsAnswer,
        rate="read",
    ),
    post(
        "reached",
        "/journal/reached",
        "Show the ends of journals at an instant.",
        _READ,
        reached,
        ReachedBody,
        ReachedAnswer,
        rate="read",
    ),
    get(
        "consumers",
        f"{_SHARD}/consumers",
        "List the readers of a journal.",
        _READ,
        consumers,
        ConsumersAnswer,
        **_SHARDS,
    ),
    _consumer("register", "PUT", "Register a reader of a journal.", register, ConsumerBody, Consumer),
    _consumer("advance", "PATCH", "Move a reader of a journal on.", advance, ConsumerBody, Consumer),
    _consumer("forget", "DELETE", "Remove a reader of a journal.", forget, None, ForgetAnswer),
    post(
        "trim",
        f"{_SHARD}/journal/trim",
        "Drop entries past their retention.",
        _ADMIN,
        trim,
        TrimBody,
        TrimAnswer,
        is_body_optional=True,
        **_SHARDS,
    ),
    get(
        "scan",
        f"{_SHARD}/scan",
        "Read a group of a shard in parts.",
        _READ,
        scan,
        ScanAnswer,
        "bad_group",
        query=ScanQuery,
    ),
    get(
        "split",
        f"{_SHARD}/split",
        "Cut the ids of a shard into equal parts.",
        _READ,
        split,
        SplitAnswer,
        query=PartsQuery,
    ),
    get(
        "snapshot",
        f"{_SHARD}/snapshot",
        "Show all records of a shard.",
        _READ,
        snapshot,
        Snapshot,
        "too_large",
        **_SHARDS,
    ),
    post(
        "integrity_check",
        f"{_SHARD}/integrity/check",
        "Check the records of a shard.",
        _ADMIN,
        check,
        IntegrityBody,
        Findings,
        is_body_optional=True,
        rate="read",
        **_SHARDS,
    ),
    post(
        "integrity_repair",
        f"{_SHARD}/integrity/repair",
        "Repair the records of a shard.",
        _ADMIN,
        mend,
        IntegrityBody,
        RepairResult,
        is_body_optional=True,
        **_SHARDS,
    ),
)
