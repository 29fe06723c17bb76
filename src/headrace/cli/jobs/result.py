"""`headrace jobs result`: what a job returned, at once or as soon as it has."""

import os
import sys
from typing import Annotated

import typer
from msgspec import Struct

from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.job_ids import whole_id
from headrace.cli.jobs.group import JobId, commands
from headrace.cli.jobs.show import Nowhere, nowhere_text
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.queue_lookup import locate, queues_of
from headrace.cli.render import carried, error_dict
from headrace.cli.send import broken_off_text
from headrace.cli.store_access import with_store
from headrace.client.codec import RAW
from headrace.client.handle import outcome_of, wait_for
from headrace.model.errors import JobCancelled, JobFailed, Refused
from headrace.model.outcome import JobError
from headrace.model.redact import redact
from headrace.model.times import duration_ms
from headrace.stores.contract.store import Store

Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="Wait so long for the job to end: 30s, 5m.")]


class ResultAnswer(Struct, frozen=True):
    """What became of a job: its result, or why there is none."""

    status: str
    """`done`, `dead`, `cancelled`, `not_ended`, `not_found` or `nothing_kept`."""
    id: str
    queue: str | None = None
    result: bytes | None = None
    reason: str | None = None
    error: JobError | None = None
    message: str = ""


@commands.command("result")
def result(
    id: JobId,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    wait: Wait = "0s",
    json: Json = False,
) -> int:
    """Print the result of a job that is done, as JSON. Exits with 1 when there is none.

    Why there is none is told on stderr: the job died, was cancelled, is not known, or has not ended in time.
    """
    output = Output(json=json)
    wait_ms = duration_ms("wait", wait)
    code = NO
    try:
        answer = with_store(url, lambda store: asked(store, tenant, queue, id, wait_ms))
    except KeyboardInterrupt:
        typed_url = None if url == os.environ.get("HEADRACE_URL") else url
        answer = ResultAnswer("not_ended", id, queue, message=broken_off_text(id, queue, tenant, typed_url))
        code = INTERRUPTED
    told: dict[str, object] = {"id": answer.id, "queue": answer.queue, "status": answer.status}
    if answer.status == "done":
        output.document({**told, "result": carried(answer.result)})
        if not json:
            # As it is: whoever reads it wants exactly what the handler returned.
            sys.stdout.buffer.write((b"null" if answer.result is None else answer.result) + b"\n")
        return OK
    why = {"reason": answer.reason, "error": error_dict(answer.error), "message": redact(answer.message)}
    output.document({**told, **why})
    output.hint(answer.message)
    return code


async def asked(store: Store, tenant: str, name: str | None, id: str, wait_ms: int) -> ResultAnswer:
    """What became of a job within `wait_ms`."""
    queues = await queues_of(store, tenant, name)
    id = await whole_id(store, queues, id)
    located = await locate(store, queues, id)
    if located is None:
        names = [queue.full_name for queue in queues]
        return ResultAnswer("not_found", id, message=nowhere_text(id, tenant, Nowhere(names, None)))
    queue = located[0]
    where = queue.full_name
    try:
        found = await wait_for(store, queue, id, wait_ms, blocked_job=False)
        return ResultAnswer("done", id, where, outcome_of(found, RAW, bytes, blocked_job=False))
    except JobFailed as failed:
        return ResultAnswer("dead", id, where, reason=failed.reason, error=failed.error, message=str(failed))
    except JobCancelled as cancelled:
        return ResultAnswer("cancelled", id, where, message=str(cancelled))
    except TimeoutError as late:
        return ResultAnswer("not_ended", id, where, message=str(late).replace("wait longer", "wait longer with --wait"))
    except Refused as refused:
        if refused.reason not in ("not_found", "nothing_kept"):
            raise
        return ResultAnswer(refused.reason, id, where, message=str(refused))
