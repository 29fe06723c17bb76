"""Lists and searches the jobs of queues, and shows their lives as the journal tells them."""

from typing import Literal

from msgspec import Struct

from headrace.inspect.job_ids import find_job
from headrace.inspect.jobs import JobRow
from headrace.inspect.lookup import queues_of
from headrace.inspect.search import JobFilter, search_jobs
from headrace.inspect.timeline import TimelineView, first_enqueue_ms, read_timeline
from headrace.model.job import State
from headrace.model.limits import BATCH_MAX, HTTP_SCAN_MAX, PAGE_MAX
from headrace.model.results import View
from headrace.model.validate import check_int, check_text
from headrace.service.cursors import read_page_cursor, write_page_cursor
from headrace.service.jobs.settle import unknown_job
from headrace.service.operation import Call, Operation, Reply, get, post, scopes
from headrace.service.problems import RequestProblem
from headrace.service.queue_names import known_path_queue, path_queue
from headrace.wire.records import JobAnswer, JobRows


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs of a queue in one state."""

    state: State = State.WAITING
    content: bool = False
    limit: int = 50
    cursor: str | None = None
    shards: int | None = None


class BrowseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs of a queue in the order in which people look for them."""

    view: View = "next"
    limit: int = 50
    cursor: str | None = None
    shards: int | None = None


class LocateQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of a job whose queue is not known."""

    id: str


class LocatedJob(Struct, frozen=True):
    """A job and its queue."""

    queue: str
    job: JobAnswer


class LocateAnswer(Struct, frozen=True):
    """The job in the first queue that knows it, and how many queues were looked at."""

    rows: list[LocatedJob]
    looked: int
    complete: bool


class SearchBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Jobs that match all that is given; `text` may be anywhere in a job."""

    queue: str | None = None
    state: State | None = None
    text: str | None = None
    kind: str | None = None
    tag: str | None = None
    id_prefix: str | None = None
    payload: str | None = None
    enqueued_after_ms: int | None = None
    enqueued_before_ms: int | None = None
    limit: int = 50
    scan_max: int = HTTP_SCAN_MAX


class SearchAnswer(Struct, frozen=True):
    """The jobs that match, and how far the search looked."""

    rows: list[JobRow]
    looked: int
    stopped: Literal["limit", "scan_max"] | None


class LifeQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many events of the journal to look at."""

    scan_max: int = HTTP_SCAN_MAX


async def list_queue(call: Call) -> Reply:
    """List the jobs of a queue in one state, by shard, then id."""
    query: ListQuery = call.query
    check_int("limit", query.limit, 1, PAGE_MAX)
    queue = await path_queue(call, query.shards)
    scope = (queue.full_name, query.state)
    cursor = read_page_cursor(call, query.cursor, *scope)
    page = await call.store.reads.list(queue, query.state, cursor=cursor, limit=query.limit, now_ms=call.now_ms)
    rows = [JobAnswer.of(each, packed=call.packed, content=query.content) for each in page.rows]
    return Reply(200, JobRows(rows, write_page_cursor(call, page.cursor, *scope)))


async def browse(call: Call) -> Reply:
    """Show a page of jobs in the order of a view, without payloads and results."""
    query: BrowseQuery = call.query
    check_int("limit", query.limit, 1, PAGE_MAX)
    queue = await path_queue(call, query.shards)
    scope = (queue.full_name, query.view)
    cursor = read_page_cursor(call, query.cursor, *scope)
    page = await call.store.reads.browse(queue, query.view, cursor=cursor, limit=query.limit, now_ms=call.now_ms)
    rows = [JobAnswer.of(each, packed=call.packed, content=call.packed) for each in page.rows]
    return Reply(200, JobRows(rows, write_page_cursor(call, page.cursor, *scope)))


async def locate(call: Call) -> Reply:
    """Find a job in the queues that the token covers."""
    check_text("id", call.query.id, 276)
    queues = [each for each in await queues_of(call.store, call.tenant) if call.caller.may_name(each.full_name)]
    some = queues[:BATCH_MAX]
    located = await find_job(call.store, some, call.query.id)
    rows = [] if located is None else [LocatedJob(located[0].full_name, JobAnswer.of(located[1], packed=call.packed))]
    return Reply(200, LocateAnswer(rows, len(some), len(some) == len(queues)))


async def search(call: Call) -> Reply:
    """Search jobs, within a bound on those that are looked at."""
    body: SearchBody = call.body
    check_int("limit", body.limit, 1, PAGE_MAX)
    check_int("scan_max", body.scan_max, 1, HTTP_SCAN_MAX)
    if body.queue is not None:
        call.caller.check_name(body.queue)
    elif call.caller.queues is not None:
        raise RequestProblem("foreign_queue", "the token covers some queues only; name one of them in 'queue'")
    where = JobFilter(**{name: getattr(body, name) for name in JobFilter.__struct_fields__})
    found = await search_jobs(
        call.store, call.tenant, body.queue, body.state, where, limit=body.limit, scan_max=body.scan_max
    )
    return Reply(200, SearchAnswer(found.jobs, found.looked, found.stopped))


async def life(call: Call) -> Reply:
    """The events of a job, the oldest first."""
    check_int("scan_max", call.query.scan_max, 1, HTTP_SCAN_MAX)
    queue, id = await known_path_queue(call), call.path["id"]
    check_text("id", id, 276)
    [found] = await call.store.reads.find(queue, [id])
    since_ms = None if found is None else first_enqueue_ms(found)
    timeline = await read_timeline(call.store, queue.shard_of(id), id, since_ms=since_ms, scan_max=call.query.scan_max)
    if found is None and not timeline.events:
        raise unknown_job()
    return Reply(200, timeline.view())


_READ = scopes("read")
OPERATIONS: tuple[Operation, ...] = (
    get("locate", "/jobs", "Find a job whose queue is not known.", _READ, locate, LocateAnswer, query=LocateQuery),
    get(
        "list",
        "/queues/{queue}/jobs",
        "List the jobs of a queue in one state, by shard, then id.",
        _READ,
        list_queue,
        JobRows,
        query=ListQuery,
    ),
    get(
        "browse",
        "/queues/{queue}/browse",
        "Show jobs in the order of a view: next, later, active, blocked, finished or dead.",
        _READ,
        browse,
        JobRows,
        query=BrowseQuery,
    ),
    post(
        "search",
        "/jobs/search",
        "Search jobs.",
        _READ,
        search,
        SearchBody,
        SearchAnswer,
        "unknown_queue",
        rate="search",
    ),
    get(
        "life",
        "/queues/{queue}/jobs/{id}/life",
        "Show the events of a job.",
        _READ,
        life,
        TimelineView,
        "unknown_job",
        query=LifeQuery,
    ),
)
