"""Lists, shows, configures, pauses, purges and deletes queues, and tells autoscalers their backlog."""

from typing import Any

from msgspec import Struct

from headrace.model.clock import monotonic_ms
from headrace.model.limits import BACKLOG_CACHE_MS, BATCH_MAX, PAGE_MAX
from headrace.model.names import Queue
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts
from headrace.model.validate import bounded_repr, check_int
from headrace.service.cursors import read_page_cursor, write_page_cursor
from headrace.service.feeds.names import version_of_match
from headrace.service.operation import Call, Operation, Reply, ShardsQuery, get, post, scopes
from headrace.service.problems import RequestProblem
from headrace.service.queue_names import known_path_queue, path_queue
from headrace.wire.journal import WorkersAnswer
from headrace.wire.queues import (
    ConfigChanges,
    DeleteAnswer,
    PurgeAnswer,
    PurgeBody,
    QueueAnswer,
    QueueRows,
    ShardsAnswer,
    queue_body,
)


class DeleteQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the queue once more, so that nothing is deleted by mistake."""

    confirm: str | None = None
    limit: int = 1_000
    shards: int | None = None


class BacklogAnswer(Struct, frozen=True, kw_only=True):
    """What waits on a queue; `value` is what an autoscaler looks at: jobs that are ready, and jobs that run."""

    value: int
    ready: int
    active: int
    later: int
    oldest_due_age_ms: int | None
    as_of_ms: int


class OverviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of queues, or the queues of these names, separated by commas."""

    names: str | None = None
    prefix: str = ""
    limit: int = 50
    cursor: str | None = None


class QueuesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of queues."""

    limit: int = 50
    cursor: str | None = None


async def queues(call: Call) -> Reply:
    """List the queues that the token covers, with their counts."""
    check_int("limit", call.query.limit, 1, PAGE_MAX)
    query: OverviewQuery = call.query
    names = None if query.names is None else query.names.split(",")
    scope = (query.prefix, names)
    page = await call.store.queues.overview(
        call.tenant,
        names=names,
        prefix=query.prefix,
        cursor=read_page_cursor(call, query.cursor, *scope),
        limit=query.limit,
        now_ms=call.now_ms,
    )
    rows = [QueueAnswer.of(each) for each in page.rows if call.caller.may_name(each.queue.full_name)]
    return Reply(200, QueueRows(rows, write_page_cursor(call, page.cursor, *scope)))


async def queue_names(call: Call) -> Reply:
    """List the queues that the token covers, without their counts. Its cursor is the store's: the name of a queue."""
    check_int("limit", call.query.limit, 1, BATCH_MAX)
    page = await call.store.queues.names(call.tenant, cursor=call.query.cursor, limit=call.query.limit)
    known = [queue_body(each) for each in page.rows if call.caller.may_name(each.full_name)]
    return Reply(200, ShardsAnswer(known, page.cursor))


async def queue(call: Call) -> Reply:
    """Show a queue with its configuration."""
    name = await _path_queue(call)
    config = await call.store.queues.configuration(name)
    answer = QueueAnswer(
        queue=name.full_name,
        shards=name.shards,
        fail_queue=name.is_fail_queue,
        version=config.version,
        paused=config.paused,
        counts=await call.store.queues.counts(name, now_ms=call.now_ms),
        config=config,
    )
    return Reply(200, answer, etag=f'"v{answer.version}"')


async def _path_queue(call: Call) -> Queue:
    shards = call.query.shards
    return await known_path_queue(call) if shards is None else await path_queue(call, shards)


async def configure(call: Call) -> Reply:
    """Change settings of a queue, which is created if there is none."""
    return await _configure(call, call.body)


async def pause(call: Call) -> Reply:
    """Let claims return no jobs."""
    return await _configure(call, {"paused": True})


async def resume(call: Call) -> Reply:
    """Let claims return jobs again."""
    return await _configure(call, {"paused": False})


async def _configure(call: Call, changes: dict[str, Any]) -> Reply:
    name = await path_queue(call, call.query.shards)
    config = await call.store.queues.configure(name, changes, version=version_of_match(call), now_ms=call.now_ms)
    return Reply(200, config, etag=f'"v{config.version}"')


async def purge(call: Call) -> Reply:
    """Drop waiting jobs."""
    body: PurgeBody = call.body
    check_int("limit", body.limit, 1, BATCH_MAX)
    name = await path_queue(call, body.shards)
    purged = await call.store.queues.purge(name, limit=body.limit, now_ms=call.now_ms)
    return Reply(200, PurgeAnswer(purged, purged == body.limit))


async def delete(call: Call) -> Reply:
    """Delete a queue that holds no live job."""
    full_name = call.path["queue"]
    if call.query.confirm != full_name:
        raise RequestProblem(
            "unconfirmed", f"to delete the queue with all that it keeps, add ?confirm={bounded_repr(full_name)[1:-1]}"
        )
    check_int("limit", call.query.limit, 1, BATCH_MAX)
    name = await _path_queue(call)
    is_gone = await call.store.queues.delete(name, limit=call.query.limit)
    if not is_gone:
        return Reply(202, DeleteAnswer(True))
    call.service.queues.forget(name)
    return Reply(204)


async def backlog(call: Call) -> Reply:
    """The backlog of a queue, at most a second old."""
    name = await path_queue(call)
    cache: dict[Queue, tuple[int, BacklogAnswer]] = call.service.shared.setdefault("backlog", {})
    known = cache.get(name)
    if known is not None and monotonic_ms() < known[0]:
        return Reply(200, known[1])
    counts: Counts = await call.store.queues.counts(name)
    now_ms = await call.store.now_ms()
    ready = counts.waiting - counts.later
    age_ms = None if counts.oldest_due_ms is None else max(now_ms - counts.oldest_due_ms, 0)
    answer = BacklogAnswer(
        value=ready + counts.active,
        ready=ready,
        active=counts.active,
        later=counts.later,
        oldest_due_age_ms=age_ms,
        as_of_ms=now_ms,
    )
    if len(cache) > BATCH_MAX:
        cache.clear()
    cache[name] = monotonic_ms() + BACKLOG_CACHE_MS, answer
    return Reply(200, answer)


async def workers(call: Call) -> Reply:
    """The workers of the last day."""
    name = await path_queue(call, call.query.shards)
    return Reply(200, WorkersAnswer(list(await call.store.reads.workers(name, now_ms=call.now_ms))))


_QUEUE = "/queues/{queue}"
_READ, _ADMIN = scopes("read"), scopes("admin")
_SHARDS: dict[str, Any] = {"query": ShardsQuery}
OPERATIONS: tuple[Operation, ...] = (
    get("queues", "/queues", "List queues with their counts.", _READ, queues, QueueRows, query=OverviewQuery),
    get(
        "queue_names",
        "/queue_names",
        "List queues with their shards only.",
        scopes("read", "claim", "enqueue"),
        queue_names,
        ShardsAnswer,
        query=QueuesQuery,
    ),
    get(
        "queue",
        _QUEUE,
        "Show a queue with its configuration.",
        scopes("read", "claim"),
        queue,
        QueueAnswer,
        "unknown_queue",
        "wrong_shards",
        **_SHARDS,
    ),
    Operation(
        name="configure",
        method="PATCH",
        path=_QUEUE,
        summary="Change settings of a queue; creates it if there is none.",
        scopes=_ADMIN,
        handler=configure,
        body=ConfigChanges,
        query=ShardsQuery,
        answers={200: QueueConfig},
        problems=("version_changed", "bad_config", "wrong_shards"),
        rate="write",
    ),
    post("pause", f"{_QUEUE}/pause", "Pause a queue.", _ADMIN, pause, None, QueueConfig, **_SHARDS),
    post("resume", f"{_QUEUE}/resume", "Resume a queue.", _ADMIN, resume, None, QueueConfig, **_SHARDS),
    post(
        "purge",
        f"{_QUEUE}/purge",
        "Drop waiting jobs.",
        _ADMIN,
        purge,
        PurgeBody,
        PurgeAnswer,
        is_body_optional=True,
    ),
    Operation(
        name="delete",
        method="DELETE",
        path=_QUEUE,
        summary="Delete a queue that holds no live job; 202 asks for another call.",
        scopes=_ADMIN,
        handler=delete,
        query=DeleteQuery,
        answers={204: None, 202: DeleteAnswer},
        problems=("unconfirmed", "not_empty", "unknown_queue"),
        rate="write",
    ),
    get(
        "backlog",
        f"{_QUEUE}/backlog",
        "Show what waits on a queue, for autoscalers.",
        scopes("read", "claim"),
        backlog,
        BacklogAnswer,
    ),
    get(
        "workers",
        f"{_QUEUE}/workers",
        "List the workers that claimed within the last day.",
        _READ,
        workers,
        WorkersAnswer,
        **_SHARDS,
    ),
)
