"""The blocked twin: what was enqueued for an id while that id was active."""

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.job import ZERO_COUNTS, Job, Record, record_of, upsert
from headrace.model.limits import TIME_MS_MAX

UNBOUNDED_LO_MS = -1
UNBOUNDED_HI_MS = TIME_MS_MAX + 1


class Twin(Struct, frozen=True, gc=False, kw_only=True):
    """A record of its own for the case that the active one ends, and an update for the case that it comes back."""

    record: Record
    update_payload: bool
    update_policy: bool
    reset_counts: bool
    lo_ms: int = UNBOUNDED_LO_MS
    hi_ms: int = UNBOUNDED_HI_MS

    def freed(self) -> Record:
        """The waiting job that the twin becomes when the active one is done, dead or cancelled."""
        return self.record

    def applied(self, active: Record) -> Record:
        """The record that waits again when the active one was retried, released or stalled."""
        changes: dict[str, object] = {"run_at_ms": min(max(active.run_at_ms, self.lo_ms), self.hi_ms)}
        if self.update_payload:
            changes |= {
                "kind": self.record.kind,
                "payload": self.record.payload,
                "headers": self.record.headers,
                "tag": self.record.tag,
            }
        if self.update_policy:
            changes["policy"] = self.record.policy.over(active.policy)
        if self.reset_counts:
            changes |= ZERO_COUNTS
        return replace(active, **changes)


def block(old: Twin | None, job: Job, now_ms: int) -> Twin:
    """The twin after `job` was enqueued behind an active record of its id.

    A first one keeps the whole job and a clamp on the time; a further one merges into it: flags are OR-ed, so what
    one caller asked for is not undone by the next, and the clamp follows the flag of the time.
    """
    if old is None:
        old = Twin(record=record_of(job, now_ms), update_payload=False, update_policy=False, reset_counts=False)
        record = old.record
    else:
        record = upsert(old.record, job, now_ms)
    due_ms, flag = job.due_ms(now_ms), job.run_at_flag
    return Twin(
        record=record,
        update_payload=old.update_payload or job.update_payload,
        update_policy=old.update_policy or job.update_policy,
        reset_counts=old.reset_counts or job.reset_counts,
        lo_ms=flag.merge(old.lo_ms, due_ms),
        hi_ms=flag.merge(old.hi_ms, due_ms),
    )
