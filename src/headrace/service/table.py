"""Lists all operations: the routes, the checks, the OpenAPI document and the tests come from this list."""

from headrace.service import health
from headrace.service.jobs import claim, enqueue, find, settle
from headrace.service.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *enqueue.OPERATIONS,
    *find.OPERATIONS,
    *claim.OPERATIONS,
    *settle.OPERATIONS,
    *health.OPERATIONS,
)
