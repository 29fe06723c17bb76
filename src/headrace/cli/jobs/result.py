"""`headrace jobs result`: prints the result of a job, at once or as soon as the job has ended."""

import os
import sys
from typing import Annotated

import typer
from msgspec.structs import replace

from headrace.cli.exit_codes import INTERRUPTED, NO, OK
from headrace.cli.jobs.options import JobId
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.send import interrupted_text
from headrace.cli.store_access import with_store
from headrace.inspect.results import JobResult, read_result
from headrace.model.times import duration_ms

Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="Wait this long for the job to end: 30s, 5m.")]


def result(
    id: JobId,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    wait: Wait = "0s",
    json: Json = False,
) -> int:
    """Print the result of a done job as JSON.

    Exits with 1 if there is no result, and says on stderr why: the job died, was cancelled, is not known, or has not
    ended in time.

    Example: headrace jobs result 0194a3b2-1c5e-7d3f-8a4b-5c6d7e8f9a0b --wait 30s
    """
    output = Output(json=json)
    wait_ms = duration_ms("wait", wait)
    code = NO
    try:
        answer = with_store(url, lambda store: read_result(store, tenant, queue, id, wait_ms=wait_ms))
    except KeyboardInterrupt:
        typed_url = None if url == os.environ.get("HEADRACE_URL") else url
        message = interrupted_text(id, queue, tenant, typed_url)
        answer = JobResult(status="not_ended", id=id, queue=queue, message=message)
        code = INTERRUPTED
    answer = replace(answer, message=answer.message.replace("wait longer", "wait longer with --wait"))
    output.document(answer.view())
    if answer.status == "done":
        if not json:
            # As it is: a reader wants exactly what the handler returned.
            sys.stdout.buffer.write((b"null" if answer.result is None else answer.result) + b"\n")
        return OK
    output.hint(answer.message)
    return code
