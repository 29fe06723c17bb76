"""Lists all operations: the routes, the checks, the OpenAPI document and the tests come from this list."""

from headrace.service import health, openapi, revocation
from headrace.service.dead import dead_letters
from headrace.service.feeds import configure as feeds
from headrace.service.feeds import items
from headrace.service.jobs import claim, enqueue, find, settle
from headrace.service.jobs import list as lists
from headrace.service.operation import Operation
from headrace.service.queues import configure, journal
from headrace.service.stream import events

OPERATIONS: tuple[Operation, ...] = (
    *enqueue.OPERATIONS,
    *find.OPERATIONS,
    *lists.OPERATIONS,
    *claim.OPERATIONS,
    *settle.OPERATIONS,
    *configure.OPERATIONS,
    *dead_letters.OPERATIONS,
    *journal.OPERATIONS,
    *feeds.OPERATIONS,
    *items.OPERATIONS,
    *events.OPERATIONS,
    *revocation.OPERATIONS,
    *health.OPERATIONS,
    *openapi.OPERATIONS,
)
