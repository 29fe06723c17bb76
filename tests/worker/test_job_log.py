"""The job log: its lines are cheap, and the same as those of a record for each."""

import contextlib
import io
import logging
import re
import select
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from headrace.model.claim import Claim, Lease
from headrace.model.job import Record
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.results import Settled
from headrace.stores.contract.store import Store
from headrace.worker.events import ActiveDelivery, JobsClaimed, JobsFinished, Stop
from headrace.worker.handlers import handler_of
from headrace.worker.job_log import JobLog
from headrace.worker.log_format import JOB_LOG
from headrace.worker.logging import setup_logs
from tests.worker.support import MAIL, build_handlers, job, jobs, run_until_idle

LINES = 200
ENDS: list[tuple[Outcome, Any]] = [
    (Done(), {"status": "done"}),
    (Retried(JobError("E", "no")), {"status": "retried", "run_at_ms": 9_000}),
    (Done(b"7"), {"status": "done"}),
    (Failed(JobError("E")), {"status": "dead"}),
    (Released(), {"status": "released", "run_at_ms": 9_000}),
    (Done(), {"status": "not_active"}),
]
Shape = Literal["text", "json"]


class Pipe(io.StringIO):
    """A stream that keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str, /) -> int:
        self.pieces.append(text)
        return super().write(text)


class Kept(logging.Handler):
    """A handler of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


async def _nothing() -> None:
    return


def run_of(id: str, outcome: Outcome, *, queue: Queue = MAIL, stop: Stop | None = None, **given: Any) -> ActiveDelivery:
    """A delivery that has ended."""
    fields: dict[str, Any] = {"kind": "work", "payload": b"{}", "run_at_ms": 600, "enqueued_at_ms": 100} | given
    claim = Claim(Lease(queue, id, "t.7", 7, 31_000), Record(id=id, **fields), "worker-1", 5, 0, 1_000)
    run = ActiveDelivery(1, claim, handler_of("work", _nothing), 30.0, stop=stop)
    run.settlement = claim.settle(outcome, 12)
    return run


def written(
    shape: Shape, runs: Sequence[ActiveDelivery], answers: Sequence[Settled], *, process: int | None = None
) -> str:
    """The lines of such deliveries, without their instants."""
    stream = io.StringIO()
    with setup_logs(shape, stream, process=process) as logs:
        [log] = logs.listeners
        log(JobsClaimed(runs))
        log(JobsFinished(runs, answers))
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "AT", stream.getvalue())


def spelled_out(
    shape: Shape, runs: Sequence[ActiveDelivery], answers: Sequence[Settled], *, process: int | None = None
) -> str:
    """The same by way of a record for each line, as a program's own filter sees them."""
    seen: list[logging.LogRecord] = []

    def look(record: logging.LogRecord) -> bool:
        seen.append(record)
        return True

    JOB_LOG.addFilter(look)
    with contextlib.ExitStack() as stack:
        stack.callback(JOB_LOG.removeFilter, look)
        lines = written(shape, runs, answers, process=process)
    assert len(seen) == lines.count("\n")
    return lines


async def test_lines_of_many_jobs_leave_together_and_whole(store: Store) -> None:
    """No more at once than a pipe takes as a whole, since other processes may write to it as well."""
    await store.jobs.enqueue(jobs(LINES))
    stream = Pipe()

    with setup_logs("json", stream) as logs:
        await run_until_idle(store, build_handlers(work=_nothing), *logs.listeners, capacity=2 * LINES)

    pieces = [piece for piece in stream.pieces if '"id":' in piece]
    assert sum(piece.count("\n") for piece in pieces) == 2 * LINES
    assert len(pieces) <= 2 * LINES / 10
    assert all(len(piece.encode()) <= select.PIPE_BUF and piece.endswith("}\n") for piece in pieces)


@pytest.mark.parametrize("shape", ["json", "text"])
@pytest.mark.parametrize("process", [None, 3])
def test_a_line_says_the_same_alone_and_among_many(shape: Shape, process: int | None) -> None:
    odd = ["a b", 'a"b', "a=b", "redis://u:p@h/0", "a\\b", "ä", "{}", "%s", "0", "token=1"]
    runs = [run_of(f"{at}", outcome) for at, (outcome, _) in enumerate(ENDS)]
    runs += [run_of(id, Done()) for id in odd]
    runs += [run_of(id, Done(), kind=id) for id in odd]
    runs += [run_of(str(at), Done(), attempts=at, stalls=at % 2) for at in range(4)]
    runs += [run_of(str(at), Done(), kind=f"k{at % 2}") for at in range(4)]
    runs += [run_of("a", Done(), queue=queue) for queue in (Queue("mail", tenant="acme"), Queue("987654301"))]
    runs += [run_of("a", Done(), stop="timeout"), run_of("a", Done(), run_at_ms=99_000)]
    runs += [run_of("a", Done(), headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}) for _ in range(2)]
    runs += [run_of("a", Done(), headers={"other": "x"})]
    ends = [given for _, given in ENDS] + [{"status": "done"}] * (len(runs) - len(ENDS))
    answers = [Settled(run.claim.lease.id, **given) for run, given in zip(runs, ends, strict=True)]

    together = written(shape, runs, answers, process=process)

    assert together == spelled_out(shape, runs, answers, process=process)
    assert together.count("\n") == 2 * len(runs) - 1


@pytest.mark.parametrize("where", ["headrace.job", "headrace"])
async def test_a_handler_of_the_programs_own_sees_a_record_of_every_line(store: Store, where: str) -> None:
    await store.jobs.enqueue([job("a"), job("b")])
    stream, kept, logger = io.StringIO(), Kept(), logging.getLogger(where)
    logger.addHandler(kept)

    with setup_logs("json", stream) as logs:
        await run_until_idle(store, build_handlers(work=_nothing), *logs.listeners)
        logger.removeHandler(kept)

    events = [fields["event"] for record in kept.records if "id" in (fields := vars(record)["headrace"])]
    assert sorted(events) == ["claimed", "claimed", "done", "done"]
    assert len([line for line in stream.getvalue().splitlines() if '"id":' in line]) == 4


@pytest.mark.parametrize(("level", "events"), [(logging.WARNING, ["retried", "dead"]), (logging.ERROR, ["dead"])])
def test_a_log_from_a_level_on_holds_nothing_below_it(level: int, events: list[str]) -> None:
    stream = io.StringIO()
    runs = [run_of(f"{at}", outcome) for at, (outcome, _) in enumerate(ENDS)]
    answers = [Settled(f"{at}", **given) for at, (_, given) in enumerate(ENDS)]

    with setup_logs("json", stream, level=level) as logs:
        logs.listeners[0](JobsClaimed(runs))
        logs.listeners[0](JobsFinished(runs, answers))

    assert re.findall(r'"event":"(\w+)"', stream.getvalue()) == events


def test_a_stream_that_fails_costs_no_job_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As any handler of the standard library: the error goes to standard error, and the next line is written."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = io.StringIO()

    with setup_logs("json", stream) as logs:
        stream.close()
        logs.listeners[0](JobsClaimed([run_of("a", Done())]))


def test_a_log_of_jobs_needs_no_set_up_of_ours() -> None:
    kept, log = Kept(), JobLog()
    JOB_LOG.addHandler(kept)
    before, JOB_LOG.level = JOB_LOG.level, logging.INFO

    try:
        log(JobsClaimed([run_of("a", Done())]))
    finally:
        JOB_LOG.removeHandler(kept)
        JOB_LOG.level = before

    assert [record.getMessage() for record in kept.records] == ["claimed work a"]
