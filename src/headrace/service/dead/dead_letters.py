"""Lists, shows, replays and purges dead letters."""

from typing import Any

from msgspec import Struct

from headrace.model.limits import BATCH_MAX, PAGE_MAX
from headrace.model.validate import check_batch, check_bool, check_int
from headrace.service.cursors import read_page_cursor, write_page_cursor
from headrace.service.operation import Call, Operation, Reply, get, post, scopes
from headrace.service.problems import RequestProblem
from headrace.service.queue_names import path_queue
from headrace.stores.contract.dead_letters import DeadLetterFilter
from headrace.stores.shared.cursors import write_cursor
from headrace.wire.records import DeadLetterAnswer, DeadLetterRows
from headrace.wire.replay import PurgedAnswer, PurgeDeadBody, ReplayAnswer, ReplayBody, ReplayedAnswer, read_key


class DeadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Dead letters that match all that is given."""

    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    reason: str | None = None
    error_class: str | None = None
    died_after_ms: int | None = None
    died_before_ms: int | None = None
    content: bool = False
    limit: int = 50
    cursor: str | None = None
    shards: int | None = None

    def where(self) -> DeadLetterFilter:
        """The filter of the store."""
        names = DeadLetterFilter.__struct_fields__
        return DeadLetterFilter(**{name: getattr(self, name) for name in names})


async def dead_letters(call: Call) -> Reply:
    """List dead letters, the oldest first."""
    query: DeadQuery = call.query
    check_int("limit", query.limit, 1, PAGE_MAX)
    queue, where = await path_queue(call, query.shards), query.where()
    scope = (queue.full_name, repr(where))
    cursor = read_page_cursor(call, query.cursor, *scope)
    page = await call.store.dead.list(queue, where=where, cursor=cursor, limit=query.limit, now_ms=call.now_ms)
    rows = [DeadLetterAnswer.of(each, packed=call.packed, content=query.content) for each in page.rows]
    return Reply(200, DeadLetterRows(rows, write_page_cursor(call, page.cursor, *scope)))


async def dead_letter(call: Call) -> Reply:
    """Show one dead letter with the payload of its job."""
    queue, key = await path_queue(call), read_key(call.path["key"])
    if key.shard < queue.shards and key.number >= 1:
        cursor = write_cursor(key.shard, str(key.number - 1))
        page = await call.store.dead.list(queue, cursor=cursor, limit=1, now_ms=call.now_ms)
        for each in page.rows:
            if each.key == key:
                return Reply(200, DeadLetterAnswer.of(each, packed=call.packed))
    raise RequestProblem("unknown_dead_letter", "there is no dead letter of this key (any more); list them")


async def replay(call: Call) -> Reply:
    """Turn dead letters into waiting jobs."""
    body: ReplayBody = call.body
    picks = body.all_picks()
    check_batch("dead letters", len(picks), BATCH_MAX)
    check_bool("keep_counts", body.keep_counts)
    replayed = await call.store.dead.replay(
        await path_queue(call, body.shards),
        picks,
        keep_counts=body.keep_counts,
        delay_ms=body.delay_ms,
        spread_ms=body.spread_ms,
        now_ms=call.now_ms,
    )
    return Reply(200, ReplayAnswer([ReplayedAnswer.of(each) for each in replayed]))


async def purge(call: Call) -> Reply:
    """Drop dead letters."""
    body: PurgeDeadBody = call.body
    check_batch("dead letters", len(body.dead_letters), BATCH_MAX)
    keys = [read_key(each) for each in body.dead_letters]
    queue = await path_queue(call, body.shards)
    return Reply(200, PurgedAnswer(await call.store.dead.purge(queue, keys, now_ms=call.now_ms)))


_DEAD = "/queues/{queue}/dead"
_READ, _ADMIN = scopes("read"), scopes("admin")
_QUERY: dict[str, Any] = {"query": DeadQuery}
OPERATIONS: tuple[Operation, ...] = (
    get("dead_letters", _DEAD, "List dead letters, the oldest first.", _READ, dead_letters, DeadLetterRows, **_QUERY),
    get(
        "dead_letter",
        f"{_DEAD}/{{key}}",
        "Show a dead letter.",
        _READ,
        dead_letter,
        DeadLetterAnswer,
        "unknown_dead_letter",
    ),
    post("replay", f"{_DEAD}/replay", "Turn dead letters into waiting jobs.", _ADMIN, replay, ReplayBody, ReplayAnswer),
    post("purge_dead", f"{_DEAD}/purge", "Drop dead letters.", _ADMIN, purge, PurgeDeadBody, PurgedAnswer),
)
