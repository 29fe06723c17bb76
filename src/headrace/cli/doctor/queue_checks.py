"""The doctor's judgement on one queue."""

from collections.abc import Callable, Sequence

from headrace.cli.doctor.facts import QueueFacts
from headrace.cli.doctor.verdicts import Check, look, together, wrong
from headrace.cli.output import counted
from headrace.model.limits import LATE_MS, NEARLY_FULL_PERCENT, WORKER_LATELY_MS
from headrace.model.times import duration_text


def of_queues(queues: Sequence[QueueFacts], now_ms: int) -> list[Check]:
    """What is not well with queues, finding by finding."""
    checks: list[Check] = []
    for examine, words in FINDINGS:
        found = [(queue.name, check) for queue in queues if (check := examine(queue, now_ms)) is not None]
        checks += together(found, words)
    return checks


def _paused(queue: QueueFacts, _: int) -> Check | None:
    if not queue.config.paused or not queue.counts.waiting:
        return None
    told = f"{queue.name!r} is paused with {counted(queue.counts.waiting, 'job')} waiting"
    return look("queues", told, f"headrace queues resume {_named(queue)}")


def _forsaken(queue: QueueFacts, now_ms: int) -> Check | None:
    due_ms, seen_ms = queue.counts.oldest_due_ms, queue.seen_at_ms
    if queue.config.paused or due_ms is None or now_ms - due_ms <= LATE_MS:
        return None
    if seen_ms is not None and now_ms - seen_ms <= WORKER_LATELY_MS:
        return None
    seen = "no worker was seen" if seen_ms is None else f"no worker was seen for {duration_text(now_ms - seen_ms)}"
    told = f"{queue.name!r} has had jobs due for {duration_text(now_ms - due_ms)} and {seen}"
    return wrong("queues", told, f"start one: headrace worker --queues {_named(queue)}")


def _leases(queue: QueueFacts, _: int) -> Check | None:
    over = sum(parts[0].leases_over for parts in queue.shards)
    if not over:
        return None
    told = f"{queue.name!r} has {counted(over, 'lease')} that ran out more than {duration_text(LATE_MS)} ago"
    return wrong("leases", told, "start a worker, or headrace doctor --repair")


def _dead_letters(queue: QueueFacts, _: int) -> Check | None:
    most = queue.config.keep_dead_max * queue.queue.shards
    if not queue.counts.dead or queue.counts.dead * 100 < most * NEARLY_FULL_PERCENT:
        return None
    told = f"{queue.name!r} has {queue.counts.dead:,} of {most:,} dead letters; beyond that the oldest are dropped"
    return look("queues", told, f"replay or purge them with headrace dead, or raise keep_dead_max of {_named(queue)}")


def _waiting(queue: QueueFacts, _: int) -> Check | None:
    held, most = queue.counts.waiting + queue.counts.blocked, queue.config.waiting_max * queue.queue.shards
    if not held or held * 100 < most * NEARLY_FULL_PERCENT:
        return None
    told = f"{queue.name!r} has {held:,} of {most:,} waiting jobs; beyond that new ones are refused as full"
    return look("queues", told, f"start more workers, or raise waiting_max of {_named(queue)}")


def _named(queue: QueueFacts) -> str:
    name, tenant = queue.queue.full_name, queue.queue.tenant
    return name if queue.name == name else f"{name} --tenant {tenant}"


FINDINGS: tuple[tuple[Callable[[QueueFacts, int], Check | None], str], ...] = (
    (_paused, "are paused with jobs waiting"),
    (_forsaken, f"have had jobs due for more than {duration_text(LATE_MS)} and no worker was seen"),
    (_leases, f"have leases that ran out more than {duration_text(LATE_MS)} ago"),
    (_dead_letters, "have nearly as many dead letters as they keep; beyond that the oldest are dropped"),
    (_waiting, "have nearly as many waiting jobs as they take; beyond that new ones are refused as full"),
)
"""What may be amiss with a queue, and how it is said of many."""
