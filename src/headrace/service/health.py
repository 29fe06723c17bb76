"""Says whether the service lives, whether it can serve, who the caller is, and how the store is."""

from typing import Literal

from msgspec import Struct

from headrace.model.errors import HeadraceError
from headrace.model.results import Health, Page
from headrace.service.cursors import read_page_cursor, write_page_cursor
from headrace.service.operation import Call, Operation, PageQuery, Reply, scopes
from headrace.service.problems import RequestProblem
from headrace.wire.caller import MeAnswer, NowAnswer, TenantRows


class HealthAnswer(Struct, frozen=True):
    """The service lives, or can serve."""

    status: Literal["ok"] = "ok"


async def live(_: Call) -> Reply:
    """Whether the process answers."""
    return Reply(200, HealthAnswer())


async def ready(call: Call) -> Reply:
    """Whether requests can be served: the store answers, and the service is not stopping."""
    if call.service.shutdown.is_begun:
        raise RequestProblem("draining", "the service is stopping; use another one")
    try:
        await call.store.now_ms()
    except HeadraceError:
        raise RequestProblem("store_unavailable", "the store cannot be reached; try again later") from None
    return Reply(200, HealthAnswer())


async def me(call: Call) -> Reply:
    """The caller, for people who debug a token."""
    caller = call.caller
    queues = None if caller.queues is None else [*caller.queues]
    return Reply(
        200,
        MeAnswer(
            tenant=caller.tenant,
            subject=caller.subject,
            scopes=sorted(caller.scopes),
            queues=queues,
            operator=caller.is_operator,
            expires_at_s=caller.expires_at_s,
        ),
    )


async def now(call: Call) -> Reply:
    """The store's clock."""
    return Reply(200, NowAnswer(await call.store.now_ms()))


async def store(call: Call) -> Reply:
    """The store's durability and state."""
    return Reply(200, await call.store.health())


async def tenants(call: Call) -> Reply:
    """The tenants, for operators."""
    cursor = read_page_cursor(call, call.query.cursor)
    page: Page[str] = await call.store.queues.tenants(cursor=cursor, limit=call.query.limit)
    return Reply(200, TenantRows(page.rows, write_page_cursor(call, page.cursor)))


OPERATIONS = (
    Operation(
        name="live",
        method="GET",
        path="/health/live",
        summary="Say that the process answers.",
        scopes=frozenset(),
        handler=live,
        answers={200: HealthAnswer},
        is_public=True,
    ),
    Operation(
        name="ready",
        method="GET",
        path="/health/ready",
        summary="Say whether requests can be served.",
        scopes=frozenset(),
        handler=ready,
        answers={200: HealthAnswer},
        is_public=True,
    ),
    Operation(
        name="me",
        method="GET",
        path="/me",
        summary="Show the caller of the token.",
        scopes=frozenset(),
        handler=me,
        answers={200: MeAnswer},
    ),
    Operation(
        name="now",
        method="GET",
        path="/now",
        summary="Show the store's clock.",
        scopes=scopes("read", "claim", "enqueue", "feeds", "admin"),
        handler=now,
        answers={200: NowAnswer},
    ),
    Operation(
        name="store",
        method="GET",
        path="/store",
        summary="Show the durability and the state of the store.",
        scopes=scopes("read"),
        handler=store,
        answers={200: Health},
    ),
    Operation(
        name="tenants",
        method="GET",
        path="/tenants",
        summary="List the tenants that have queues.",
        scopes=scopes("operator"),
        handler=tenants,
        query=PageQuery,
        answers={200: TenantRows},
        problems=("not_operator",),
        is_operators=True,
    ),
)
