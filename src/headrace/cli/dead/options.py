"""Options of the commands about dead letters, and the selection of dead letters by name or by filter."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from msgspec import Struct

from headrace.cli.bulk import BulkStep, NamedItem, StatusTally, status_text
from headrace.cli.options import TENANT, AnyQueue, Tenant, Url
from headrace.inspect.dead_letters import REASONS, DeadLetterQuery, find_dead_letters
from headrace.inspect.jobs import JobScan
from headrace.inspect.lookup import queues_of
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter
from headrace.model.job import State, check_id
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

OfId = Annotated[str | None, typer.Option("--id", help="Only dead letters of this job.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Only dead letters of this kind.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only dead letters with this tag.")]
OfReason = Annotated[str | None, typer.Option("--reason", help=f"Only this reason of death: {', '.join(REASONS)}.")]
ErrorClass = Annotated[str | None, typer.Option("--error-class", help="Only this class of error, such as ValueError.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only deaths since then: 30m, 2d, or an instant.")
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only deaths until then: 30m, 2d, or an instant.")
]
Everything = Annotated[bool, typer.Option("--all", help="Take all dead letters, without a filter.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID|DEAD_LETTER]...",
        help="Ids of jobs, for the newest dead letter of each, or keys of dead letters (0:17).",
    ),
]


class BulkDeadLetterAnswer(Struct, frozen=True):
    """The status of one named dead letter."""

    name: str
    queue: str | None
    dead_letter: str | None
    id: str | None
    status: str


class DeadLetterOptions(Struct, frozen=True, kw_only=True):
    """The options of the filter of dead letters."""

    url: Url = None
    tenant: Tenant = TENANT
    queue: AnyQueue = None
    id: OfId = None
    kind: Kind = None
    tag: Tag = None
    reason: OfReason = None
    error_class: ErrorClass = None
    since: Since = None
    until: Until = None

    @property
    def query(self) -> DeadLetterQuery:
        """The filter; raises `Refused` for an unknown reason."""
        return DeadLetterQuery(**{name: getattr(self, name) for name in DeadLetterQuery.__struct_fields__})


class DeadLetterSelection(DeadLetterOptions, frozen=True, kw_only=True):
    """Dead letters selected by name or by filter."""

    names: Names = None
    everything: Everything = False

    @property
    def is_named(self) -> bool:
        """Whether the dead letters are named one by one."""
        return bool(self.names)

    def check(self, verb: str) -> None:
        """Refuse impossible names, and an empty or contradictory selection."""
        for name in self.names or ():
            check_id(name, Queue("any").fail_queue)
        if self.names and (self.query.filters or self.everything):
            raise Refused("bad_choice", f"{verb} takes names or a filter, not both; leave one out")
        if not self.names and not self.query.filters and not self.everything:
            raise Refused(
                "bad_choice",
                f"no dead letters to {verb} were selected; give ids or keys, a filter such as --kind, --reason or"
                " --since, or --all",
            )

    def text(self) -> str:
        """The selection in words."""
        filters = ", ".join(f"{name} {text}" for name, text in self.query.filters.items())
        where = f"queue {self.queue}" if self.queue else "all queues"
        return f"{where} of tenant {self.tenant}{f' ({filters})' if filters else ''}"

    async def find(self, store: Store) -> list[NamedItem[DeadLetter]]:
        """The named dead letters in their queues."""
        found = await find_dead_letters(store, self.tenant, self.queue, self.names or ())
        return [NamedItem(each.name, each.queue, each.dead_letter, each) for each in found]

    async def steps(self, store: Store, tally: StatusTally) -> AsyncIterator[BulkStep[DeadLetter]]:
        """The dead letters that match and existed at the beginning: a job that dies again is left alone."""
        begun_at_ms = await store.now_ms()
        # Strictly before: a replayed job may die again within the same millisecond.
        where = self.query.where(begun_at_ms, died_before_ms=begun_at_ms - 1)
        for queue in await queues_of(store, self.tenant, self.queue):
            scan = JobScan(store, [queue], (State.DEAD,), where=where)
            pending: list[DeadLetter] = []
            while not scan.is_over:
                pending += [job.dead_letter for job in await scan.take() if job.dead_letter is not None]
                # In full batches: each call spreads its jobs over the whole time.
                while len(pending) >= BATCH_MAX or (pending and scan.is_over):
                    batch, pending = pending[:BATCH_MAX], pending[BATCH_MAX:]
                    tally.looked += len(batch)
                    yield BulkStep(queue, batch, len(batch))

    def answers(
        self, items: Sequence[NamedItem[DeadLetter]], statuses: Mapping[str, str]
    ) -> list[BulkDeadLetterAnswer]:
        """The status of each named dead letter."""
        return [
            BulkDeadLetterAnswer(
                each.name,
                None if each.queue is None else each.queue.full_name,
                None if each.item is None else str(each.item.key),
                None if each.item is None else each.item.record.id,
                statuses[each.name],
            )
            for each in items
        ]

    def table(self, answers: list[Any], label: str | None) -> tuple[Sequence[str], list[tuple[object, ...]]]:
        """Columns and rows of the answers."""
        rows: list[tuple[object, ...]] = [
            (each.name, each.dead_letter, each.queue, status_text(each.status)) for each in answers
        ]
        return ("name", "key", "queue", label or "now"), rows
