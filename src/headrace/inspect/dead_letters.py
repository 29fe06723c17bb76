"""Lists dead letters, and finds them by the id of their job or by their key."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from headrace.inspect.job_ids import whole_id
from headrace.inspect.jobs import JobScan
from headrace.inspect.lookup import look_at_each, queues_of
from headrace.inspect.search import Advance
from headrace.inspect.timeline import Timeline, TimelineView, read_timeline
from headrace.inspect.views import DeadLetterRow, PolicySetting, dead_letter_row, policy_view
from headrace.model.decision import Reason
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.job import State
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.policy import QueueConfig
from headrace.model.times import read_past_ms
from headrace.model.validate import bounded_repr, check_storable
from headrace.stores.contract.dead_letters import DeadLetterFilter
from headrace.stores.contract.store import Store
from headrace.stores.shared.cursors import write_cursor

REASONS: tuple[str, ...] = get_args(Reason)


class DeadLetterQuery(Struct, frozen=True, kw_only=True):
    """Selects dead letters by typed texts; None matches all. Refuses an unknown reason and unstorable texts."""

    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    reason: str | None = None
    error_class: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for option, text in self.filters.items():
            check_storable(option, text)
        if self.reason is not None and self.reason not in REASONS:
            raise Refused(
                "bad_reason", f"{bounded_repr(self.reason)} is not a reason of death; reasons: {', '.join(REASONS)}"
            )

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are set, by the name of their option."""
        return {name.replace("_", "-"): text for name, text in asdict(self).items() if text is not None}

    def where(self, now_ms: int, *, died_before_ms: int | None = None) -> DeadLetterFilter:
        """The filter of the store, with a further bound; raises `Refused` for an invalid time."""
        until_ms = None if self.until is None else read_past_ms("until", self.until, now_ms)
        bounds_ms = [each for each in (until_ms, died_before_ms) if each is not None]
        return DeadLetterFilter(
            id=self.id,
            kind=self.kind,
            tag=self.tag,
            reason=self.reason,
            error_class=self.error_class,
            # The store excludes its lower bound; `since` includes the instant itself.
            died_after_ms=None if self.since is None else read_past_ms("since", self.since, now_ms) - 1,
            died_before_ms=min(bounds_ms, default=None),
        )


class DeadLetterPage(Struct, frozen=True):
    """A page of a list of dead letters; `cursor` is None on the last one."""

    dead_letters: list[DeadLetterRow]
    cursor: str | None


async def list_dead_letters(
    store: Store, tenant: str, queue: str | None, query: DeadLetterQuery, *, cursor: str | None, limit: int
) -> DeadLetterPage:
    """The dead letters of a queue or of all queues of a tenant, the oldest of each queue first, without payloads."""
    queues, where = await queues_of(store, tenant, queue), query.where(await store.now_ms())
    jobs, following = await JobScan(store, queues, (State.DEAD,), cursor=cursor, where=where).page(limit)
    found = [(job.queue, job.dead_letter) for job in jobs if job.dead_letter is not None]
    return DeadLetterPage([dead_letter_row(*each, payload=False) for each in found], following)


class NamedDeadLetter(Struct, frozen=True):
    """A dead letter with its requested name; `queue` and `dead_letter` are None if it was not found."""

    name: str
    queue: Queue | None = None
    dead_letter: DeadLetter | None = None
    dead_letters: int = 0
    """Dead letters of the same job."""

    @property
    def key(self) -> str | None:
        """The key as text."""
        return None if self.dead_letter is None else str(self.dead_letter.key)


async def find_dead_letters(
    store: Store, tenant: str, queue: str | None, names: Sequence[str]
) -> list[NamedDeadLetter]:
    """The dead letters of these names, in their order, each once.

    A name is the id of a job, which stands for its newest dead letter, or the key of a dead letter. Raises `Refused`
    for a name in several queues.
    """
    queues = await queues_of(store, tenant, queue)
    names = list(dict.fromkeys([await whole_id(store, queues, name) for name in names]))
    matches: dict[str, list[NamedDeadLetter]] = {name: [] for name in names}
    for start in range(0, len(names), BATCH_MAX):
        part = names[start : start + BATCH_MAX]
        async for each, answers in look_at_each(queues, partial(store.reads.find, ids=part)):
            for id, found in zip(part, answers, strict=True):
                if found is not None and found.dead_letters:
                    newest = max(found.dead_letters, key=lambda dead_letter: dead_letter.key)
                    matches[id].append(NamedDeadLetter(id, each, newest, len(found.dead_letters)))
    for name in names:
        key = DeadLetterKey.parse(name)
        if not matches[name] and key is not None:
            async for each, dead_letter in look_at_each(queues, partial(_dead_letter_at, store, key)):
                if dead_letter is not None:
                    matches[name].append(NamedDeadLetter(name, each, dead_letter, 1))
    return [_only(name, matches[name]) for name in names]


async def _dead_letter_at(store: Store, key: DeadLetterKey, queue: Queue) -> DeadLetter | None:
    if key.shard >= queue.shards or key.number < 1:
        return None
    page = await store.dead.list(queue, cursor=write_cursor(key.shard, str(key.number - 1)), limit=1)
    return next((dead_letter for dead_letter in page.rows if dead_letter.key == key), None)


def _only(name: str, matches: Sequence[NamedDeadLetter]) -> NamedDeadLetter:
    if len(matches) > 1:
        queues = " and ".join(each.queue.full_name for each in matches if each.queue is not None)
        raise Refused(
            "several_queues", f"{bounded_repr(name)} names dead letters of the queues {queues}; choose one with --queue"
        )
    return matches[0] if matches else NamedDeadLetter(name)


class DeadLetterView(DeadLetterRow, frozen=True, kw_only=True):
    """A dead letter with everything around it."""

    found: Literal[True] = True
    policy: dict[str, PolicySetting]
    dead_letters: int
    life: TimelineView


class DeadLetterDetails(Struct, frozen=True):
    """A dead letter with everything around it."""

    queue: Queue
    dead_letter: DeadLetter
    dead_letters: int
    """Dead letters of the same job."""
    config: QueueConfig
    timeline: Timeline
    now_ms: int

    def view(self, *, payload: bool = True) -> DeadLetterView:
        """The JSON of the dead letter, with or without the payload of its job."""
        row = dead_letter_row(self.queue, self.dead_letter, payload=payload)
        policy = policy_view(self.dead_letter.record.policy, self.config)
        return DeadLetterView(**asdict(row), policy=policy, dead_letters=self.dead_letters, life=self.timeline.view())


async def show_dead_letter(
    store: Store, tenant: str, queue: str | None, name: str, *, scan_max: int, advance: Advance | None = None
) -> DeadLetterDetails | None:
    """The dead letter of this name with the timeline of its job; None for an unknown name."""
    now_ms = await store.now_ms()
    [named] = await find_dead_letters(store, tenant, queue, [name])
    if named.queue is None or named.dead_letter is None:
        return None
    record = named.dead_letter.record
    since_ms, shard = record.enqueued_at_ms, named.queue.shard_of(record.id)
    timeline = await read_timeline(store, shard, record.id, since_ms=since_ms, scan_max=scan_max, advance=advance)
    config = await store.queues.configuration(named.queue)
    return DeadLetterDetails(named.queue, named.dead_letter, named.dead_letters, config, timeline, now_ms)
