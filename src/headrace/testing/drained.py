"""What a drain has done: every delivery with its outcome, and the errors of those that failed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import Struct

from headrace.model.names import Queue

Outcome = Literal["done", "retried", "released", "dead", "cancelled", "lost"]
FAILED = ("retried", "dead")


class DrainedJob(Struct, frozen=True):
    """One delivery: a job that was tried twice is there twice."""

    id: str
    kind: str
    queue: Queue
    attempt: int
    """Which attempt it was, from 1 on."""
    outcome: Outcome
    """`done`, `retried`, `released`, `dead`, `cancelled`; `lost` when the store did not accept how it ended."""
    error: BaseException | None = None
    """What the handler raised; a `JobFailed` where the worker itself ended the attempt (its time was over, say)."""
    result: Any = None
    """What the handler returned, as it comes back from the store."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r} on {self.queue.full_name!r}, attempt {self.attempt}: {self.outcome}"


class Drained(Struct, frozen=True):
    """The deliveries of one drain, in the order in which they were handed out."""

    jobs: list[DrainedJob]

    @property
    def counts(self) -> dict[str, int]:
        """How many deliveries ended how; what did not occur is not in it: `{"done": 2, "retried": 1}`."""
        return dict(Counter(job.outcome for job in self.jobs))

    def of(self, outcome: Outcome) -> list[DrainedJob]:
        """The deliveries that ended so."""
        return [job for job in self.jobs if job.outcome == outcome]

    @property
    def done(self) -> list[DrainedJob]:
        """The deliveries that ended well."""
        return self.of("done")

    @property
    def retried(self) -> list[DrainedJob]:
        """The attempts that failed, and are to be tried again."""
        return self.of("retried")

    @property
    def released(self) -> list[DrainedJob]:
        """The deliveries that ended with `Release`, and count nothing."""
        return self.of("released")

    @property
    def dead(self) -> list[DrainedJob]:
        """The attempts that failed and were the last."""
        return self.of("dead")

    @property
    def cancelled(self) -> list[DrainedJob]:
        """The deliveries that ended because the job was cancelled."""
        return self.of("cancelled")

    @property
    def failed(self) -> list[DrainedJob]:
        """The attempts that failed, whatever came of it."""
        return [job for job in self.jobs if job.outcome in FAILED]

    def __iter__(self) -> Iterator[DrainedJob]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)

    def __bool__(self) -> bool:
        return bool(self.jobs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.jobs)) or "nothing was due"


class JobsFailed(ExceptionGroup[Exception]):
    """Attempts failed while a test drained: holds what the handlers raised, with their tracebacks, and the `drained`.

    A test that is about failures drains with `raising=False` and looks at the outcomes.
    """

    def __new__(cls, message: str, errors: Sequence[Exception], drained: Drained | None = None) -> Self:  # noqa: ARG004
        """A group of the errors; what was drained comes along."""
        return super().__new__(cls, message, errors)

    def __init__(self, message: str, errors: Sequence[Exception], drained: Drained | None = None) -> None:
        super().__init__(message, errors)
        self.drained = drained or Drained([])

    def derive(self, errors: Sequence[Exception]) -> "JobsFailed":  # type: ignore[override]  # errors of jobs only
        """The same about some of the errors."""
        return JobsFailed(self.message, errors, self.drained)


def users_own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our own frames above those of the handler; whole where there are no others."""
    own = trace
    while own is not None and str(own.tb_frame.f_globals.get("__name__", "")).startswith("headrace."):
        own = own.tb_next
    return own or trace


def failure_of(drained: Drained) -> JobsFailed | None:
    """What to raise when a test did not expect failures; None when there was none."""
    failed = drained.failed
    if not failed:
        return None
    told = f"{len(failed)} of {len(drained)} deliveries failed; drain with raising=False to look at their outcomes"
    return JobsFailed(told, [_raisable(job) for job in failed], drained)


def _raisable(job: DrainedJob) -> Exception:
    error = job.error
    if not isinstance(error, Exception):
        # A handler that raised SystemExit or the like must not end the test run.
        wrapped = RuntimeError(f"the handler raised {error!r}")
        wrapped.__cause__ = error
        error = wrapped
    error.__traceback__ = users_own(error.__traceback__)
    note = str(job)
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error
