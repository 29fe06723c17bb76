"""`headrace jobs show` and `result`: prints the record, events and result of a job."""

import os
import sys
from textwrap import indent
from typing import Annotated

import typer
from msgspec.structs import replace

from headrace.cli.exit_codes import INTERRUPTED, NO, OK, STOPPED
from headrace.cli.jobs.list import due_text
from headrace.cli.jobs.options import JobId
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.render import encoded_text, error_text, first_line, labelled, print_timeline, record_lines
from headrace.cli.send import interrupted_text
from headrace.cli.store_access import with_store
from headrace.inspect.details import JobDetails, UnknownJob, show_job
from headrace.inspect.results import JobResult, read_result
from headrace.model.finished import FinishedJob
from headrace.model.job import State
from headrace.model.limits import TIMELINE_SCAN_MAX
from headrace.model.policy import QueueConfig
from headrace.model.results import Found
from headrace.model.times import ago_text, duration_ms, duration_text, instant_text
from headrace.stores.contract.store import Store

NoPayload = Annotated[bool, typer.Option("--no-payload", help="Leave out payloads and results.")]
ScanMax = Annotated[
    int, typer.Option("--scan-max", min=0, help="Events of the journal to read at most; 0 skips the journal.")
]
DEAD_LETTERS_SHOWN = 10
"""Of one id, the newest; `dead list --id` has all."""
Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="Wait this long for the job to end: 30s, 5m.")]


def show(
    id: JobId,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    no_payload: NoPayload = False,
    scan_max: ScanMax = TIMELINE_SCAN_MAX,
    json: Json = False,
) -> int:
    """Show a job: its state, payload, result and events.

    A unique prefix of an id is enough. A job that only the journal remembers is shown by its events under its whole id.
    Exits with 1 for an unknown job, with 5 if --scan-max ended the search in the journal.

    Example: headrace jobs show 0194a3b2
    """
    output = Output(json=json)

    async def look(store: Store) -> JobDetails | UnknownJob:
        with output.progress("reading the journal") as advance:
            return await show_job(store, tenant, queue, id, scan_max=scan_max, advance=advance)

    job = with_store(url, look)
    if isinstance(job, UnknownJob):
        job = replace(job, id=id)  # as it was typed
        output.document(job)
        output.hint(job.text(tenant) + ("; raise --scan-max to look further back" if job.stopped_early else ""))
        return STOPPED if job.stopped_early and scan_max else NO
    output.document(job.view(payload=not no_payload))
    output.say(f"job {job.id} on queue {job.queue.full_name} of tenant {tenant}")
    if job.found is None:
        output.say(labelled("state", "gone: only the journal remembers it"))
    else:
        output.say(job_text(job.found, job.why, job.config, job.now_ms, payload=not no_payload))
    print_timeline(output, job.timeline)
    return OK


def job_text(found: Found, why: str | None, config: QueueConfig, now_ms: int, *, payload: bool) -> str:
    """The records of a job in the store, in lines."""
    lines = [labelled("state", f"{found.state.value}{f': {why}' if why else ''}")]
    record = found.record
    if record is not None:
        if found.state is State.WAITING:
            due = due_text(record.run_at_ms, record.enqueued_at_ms, now_ms)
            lines.append(labelled("due", f"{instant_text(record.run_at_ms)}, {due}"))
        lines += record_lines(record, config, now_ms)
    if found.worker is not None and found.lease_expires_at_ms is not None:
        left = duration_text(found.lease_expires_at_ms - now_ms)
        lines.append(labelled("lease", f"worker {found.worker} for {left}, fence {found.fence}"))
        if found.cancel_asked:
            lines.append(labelled("cancel", "requested; the worker learns of it with its next heartbeat"))
    if found.finished_job is not None:
        lines += _finished_job_lines(found.finished_job, now_ms, result=payload)
    for dead_letter in found.dead_letters[::-1][:DEAD_LETTERS_SHOWN]:
        cause = first_line(f"{dead_letter.reason}: {error_text(dead_letter.error)}")
        died = ago_text(dead_letter.died_at_ms, now_ms)
        lines.append(labelled("dead letter", f"{dead_letter.key}, died {died}, {cause}"))
    if record is not None and payload:
        lines.append(labelled("payload", encoded_text(record.payload)))
    if found.blocked_job is not None:
        lines.append(labelled("blocked", "waits behind the active one:"))
        blocked_lines = [*record_lines(found.blocked_job, config, now_ms)]
        if payload:
            blocked_lines.append(labelled("payload", encoded_text(found.blocked_job.payload)))
        lines += [indent(line, "  ") for line in blocked_lines]
    return "\n".join(lines)


def _finished_job_lines(finished: FinishedJob, now_ms: int, *, result: bool) -> list[str]:
    kept = f"kept until {instant_text(finished.until_ms)}{', pinned' if finished.pinned else ''}"
    ended = f"{instant_text(finished.ended_at_ms)}, {ago_text(finished.ended_at_ms, now_ms)}"
    enqueued = f"{instant_text(finished.enqueued_at_ms)}, {ago_text(finished.enqueued_at_ms, now_ms)}"
    return [
        labelled("kind", finished.kind),
        *([] if finished.tag is None else [labelled("tag", finished.tag)]),
        labelled("enqueued", enqueued),
        labelled("failures", f"{finished.attempts:,}; stalls {finished.stalls:,}"),
        labelled("ended", f"{finished.state} {ended}; {kept}"),
        *([labelled("result", encoded_text(finished.result))] if finished.result is not None and result else []),
    ]


def result(
    id: JobId,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    wait: Wait = "0s",
    json: Json = False,
) -> int:
    """Print the result of a done job as JSON.

    Exits with 1 without a result and prints the reason on stderr: the job died, was cancelled, is unknown, or has not
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
            # Unformatted: readers need exactly the handler's result.
            sys.stdout.buffer.write((b"null" if answer.result is None else answer.result) + b"\n")
        return OK
    output.hint(answer.message)
    return code
