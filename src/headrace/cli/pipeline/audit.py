"""`headrace pipeline audit`: does the store hold what its journal tells? Names every job that does not add up."""

from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json, Url
from headrace.cli.output import Output, counted, one_line
from headrace.cli.pipeline.options import ALL, FOLDER, MASTER, Conf, Master, Queues, Rows, Tenants, engine
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import NOTHING, PipelineRequest, sparked
from headrace.model.clock import monotonic_ms
from headrace.model.times import duration_text

COLUMNS = ("found", "shard", "id", "seq#", "the journal says", "the store says", "what to do")


def audit(
    url: Url = None,
    tenant: Tenants = ALL,
    queue: Queues = ALL,
    limit: Rows = 50,
    master: Master = MASTER,
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Compare the store with its journal while workers go on; ends with 1 when something does not add up."""
    output, began_ms = Output(json=json), monotonic_ms()
    asked = PipelineRequest(url=url, dir=FOLDER, tenant=tenant, queue=queue, engine=engine(master, conf))
    there = asked.look()
    if not there.queues:
        output.document({"events": 0, "jobs": 0, "findings": []})
        output.say(NOTHING)
        return OK
    line = ProgressLine(output)
    with sparked(asked.engine, line, there.events) as spark:
        from headrace.pipeline.audit.run import audit as compare

        found = compare(spark, asked.store, tenant=tenant, queue=queue, on_progress=line.stage)
    output.document(found)
    rows = [
        (
            *(each.what, f"{each.tenant}/{each.queue}/{each.shard}"),
            *(None if each.id is None else one_line(each.id), each.seq, each.journal, each.store, each.hint),
        )
        for each in found.findings[:limit]
    ]
    if rows:
        output.table(COLUMNS, rows, empty="")
    if len(found.findings) > limit:
        output.say(f"and {len(found.findings) - limit:,} more; --limit shows them, and --json all")
    took = duration_text(monotonic_ms() - began_ms)
    looked = f"{counted(found.jobs, 'job')}, {counted(found.events, 'event')}, {counted(found.shards, 'shard')}; {took}"
    output.say(f"everything adds up ({looked})" if found.ok else f"{_count(len(found.findings))} ({looked})")
    if found.unlisted:
        output.say(f"{found.unlisted:,} more differ or are damaged and are not listed; repair these, then audit again")
    if found.partial:
        output.hint(f"of {counted(found.partial, 'job')} the first events are gone: only the rest was checked")
    if found.moving:
        output.hint(f"{counted(found.moving, 'job')} moved at every look: nothing is said of them")
    return OK if found.ok else NO


def _count(findings: int) -> str:
    return f"{counted(findings, 'thing')} {'does' if findings == 1 else 'do'} not add up"
