"""`headrace pipeline audit`: compares the store with its journal and lists differences."""

from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json, option_groups
from headrace.cli.output import Output, counted, one_line
from headrace.cli.pipeline.options import (
    Rows,
    SparkOptions,
    StoreOptions,
)
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import NO_EVENTS, PipelineRequest, spark_session
from headrace.model.clock import monotonic_ms
from headrace.model.times import duration_text

COLUMNS = ("finding", "shard", "id", "seq#", "journal", "store", "what to do")


@option_groups
def audit(
    *,
    source: StoreOptions,
    limit: Rows = 50,
    spark_options: SparkOptions,
    json: Json = False,
) -> int:
    """Compare the store with its journal and list differences.

    Workers may run meanwhile. Exits with 1 when there is a difference.

    Example: headrace pipeline audit --tenant acme
    """
    output, began_ms = Output(json=json), monotonic_ms()
    request = PipelineRequest.of(source, spark_options)
    backlog = request.read_backlog()
    if not backlog.queues:
        output.document({"events": 0, "jobs": 0, "findings": []})
        output.say(NO_EVENTS)
        return OK
    line = ProgressLine(output)
    with spark_session(request.engine, line, backlog.events) as spark:
        from headrace.pipeline.audit.run import audit as audit_store
        from headrace.pipeline.monitor import write_findings

        report = audit_store(spark, request.store, tenant=request.tenant, queue=request.queue, on_progress=line.stage)
        write_findings(spark, report.findings, request.data_dir)
    output.document(report)
    rows = [
        (
            *(each.what, f"{each.tenant}/{each.queue}/{each.shard}"),
            *(None if each.id is None else one_line(each.id), each.seq, each.journal, each.store, each.hint),
        )
        for each in report.findings[:limit]
    ]
    if rows:
        output.table(COLUMNS, rows, empty="")
    if len(report.findings) > limit:
        output.say(f"and {len(report.findings) - limit:,} more; --limit shows them, and --json all")
    took = duration_text(monotonic_ms() - began_ms)
    total = ", ".join((counted(report.jobs, "job"), counted(report.events, "event"), counted(report.shards, "shard")))
    result = "no differences" if report.ok else counted(len(report.findings), "difference")
    output.say(f"{result} ({total}; {took})")
    if report.unlisted:
        output.say(f"{report.unlisted:,} more differ or are damaged and are not listed; repair these, then audit again")
    if report.partial:
        output.hint(
            f"the journal has dropped the first events of {counted(report.partial, 'job')}; only the rest was compared"
        )
    if report.moving:
        output.hint(f"{counted(report.moving, 'job')} moved in every round and could not be compared")
    return OK if report.ok else NO
