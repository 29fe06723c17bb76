"""Acts on many jobs or dead letters: on named ones, or by filter in bounded steps."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from headrace.cli.exit_codes import NO, OK, STOPPED
from headrace.cli.output import Advance, Output, counted
from headrace.cli.store_access import with_store
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.stores.contract.store import Store

T = TypeVar("T")
Apply = Callable[[Store, Queue, Sequence[T]], Awaitable[list[str]]]
"""Acts on items of one queue, at most a batch, and returns a status for each."""


class StatusTally:
    """Counts items by status, and scanned items."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.looked = 0
        self.stopped_early = False
        """Whether new items arrived faster than they were scanned."""

    def add(self, statuses: Iterable[str]) -> None:
        """Count the statuses of one step."""
        self.statuses.update(statuses)

    @property
    def matched(self) -> int:
        """The number of selected items."""
        return self.statuses.total()

    def text(self, empty: str = "") -> str:
        """The counts for people; `empty` if there are none."""
        return ", ".join(f"{count:,} {status_text(status)}" for status, count in self.statuses.items()) or empty


class BulkAction(Struct, Generic[T], frozen=True, kw_only=True):
    """An action on many items: cancel, remove, replay, purge."""

    verb: str
    noun: str
    apply: Apply[T]
    foresee: Apply[T]
    """The statuses of a dry run."""
    dry_label: str
    """The words before the statuses of a dry run."""
    succeeded: frozenset[str]
    """The statuses with which a named item counts as done."""
    hints: Mapping[str, str] = {}
    """Hints by the status of a named item."""
    reports_looked: bool = False
    """Whether to report the number of scanned items; a store that filters scans only matches."""


class NamedItem(Struct, Generic[T], frozen=True):
    """An item with its typed name; `item` is None if there is nothing to act on."""

    name: str
    queue: Queue | None = None
    item: T | None = None
    known: Any = None
    """The record under this name, also if there is nothing to act on."""


class BulkStep(Struct, Generic[T], frozen=True):
    """Selected items of one queue, and the number of items scanned for them."""

    queue: Queue
    items: Sequence[T]
    looked: int


class Selection(Protocol[T]):
    """Items selected by name or by filter."""

    @property
    def url(self) -> str | None:
        """The store."""

    @property
    def is_named(self) -> bool:
        """Whether the items are named one by one."""

    def check(self, verb: str) -> None:
        """Refuse an empty or contradictory selection."""

    def text(self) -> str:
        """The selection in words."""

    async def find(self, store: Store) -> Sequence[NamedItem[T]]:
        """The named items."""

    def steps(self, store: Store, tally: StatusTally) -> AsyncIterator[BulkStep[T]]:
        """The items that match the filter and existed at the beginning."""

    def answers(self, items: Sequence[NamedItem[T]], statuses: Mapping[str, str]) -> list[Any]:
        """The JSON of named items, with a status for each name."""

    def table(self, answers: list[Any], label: str | None) -> tuple[Sequence[str], list[tuple[object, ...]]]:
        """Columns and rows of those answers; the label heads the statuses of a dry run."""


def run(output: Output, action: BulkAction[T], selection: Selection[T], *, dry_run: bool, yes: bool) -> int:
    """Act on the selected items, with a confirmation for a filter; returns the exit code."""
    selection.check(action.verb)
    if selection.is_named:
        return _run_named(output, action, selection, dry_run=dry_run)
    if dry_run or not yes:
        foreseen = _run_filtered(output, action, selection, dry_run=True)
        if dry_run or not foreseen.matched:
            return report(output, action, foreseen, dry_run=dry_run)
        output.confirm(
            f"{action.verb.capitalize()} {counted(foreseen.matched, action.noun)} of {selection.text()}?", yes=yes
        )
    return report(output, action, _run_filtered(output, action, selection, dry_run=False), dry_run=False)


def report(output: Output, action: BulkAction[Any], tally: StatusTally, *, dry_run: bool) -> int:
    """Print the outcome of an action by filter, and return its exit code."""
    output.document(_document(action, tally, dry_run=dry_run))
    text = tally.text(f"no {action.noun} matches")
    if action.reports_looked:
        text += f"; scanned {counted(tally.looked, action.noun)}"
    output.say(f"{action.dry_label}: {text}" if dry_run and tally.matched else text)
    if not tally.stopped_early:
        return OK
    output.hint(f"stopped early: new {action.noun}s arrived faster than they were scanned; run it again")
    return STOPPED


async def act_on_named(
    store: Store, action: BulkAction[T], selection: Selection[T], *, dry_run: bool
) -> tuple[Sequence[NamedItem[T]], dict[str, str]]:
    """Act on the named items; returns them with a status for each name."""
    found = await selection.find(store)
    statuses = {each.name: "not_found" for each in found}
    tally, act = StatusTally(), action.foresee if dry_run else action.apply
    with keep_tally(tally):
        for queue in dict.fromkeys(each.queue for each in found if each.queue is not None):
            own = [(each.name, each.item) for each in found if each.queue == queue and each.item is not None]
            for part in batches(own):
                step = await act(store, queue, [item for _, item in part])
                statuses.update(zip((name for name, _ in part), step, strict=True))
                tally.add(step)
    return found, statuses


async def act_on_matches(
    store: Store, action: BulkAction[T], selection: Selection[T], *, dry_run: bool, advance: Advance
) -> StatusTally:
    """Act on the items that match the filter."""
    tally, act = StatusTally(), action.foresee if dry_run else action.apply
    with keep_tally(tally):
        async for step in selection.steps(store, tally):
            if step.items:
                tally.add(await act(store, step.queue, step.items))
            advance(step.looked)
    return tally


def _run_named(output: Output, action: BulkAction[T], selection: Selection[T], *, dry_run: bool) -> int:
    async def use(store: Store) -> tuple[Sequence[NamedItem[T]], dict[str, str]]:
        return await act_on_named(store, action, selection, dry_run=dry_run)

    found, statuses = with_store(selection.url, use)
    answers = selection.answers(found, statuses)
    tally = StatusTally()
    tally.add(statuses[each.name] for each in found)
    plural = f"{action.noun.replace(' ', '_')}s"
    output.document(_document(action, tally, dry_run=dry_run) | {plural: answers})
    columns, rows = selection.table(answers, action.dry_label if dry_run else None)
    output.table(columns, rows, empty="")
    for status, hint in action.hints.items():
        if tally.statuses[status]:
            output.hint(hint)
    return OK if tally.statuses.keys() <= action.succeeded else NO


def _run_filtered(output: Output, action: BulkAction[T], selection: Selection[T], *, dry_run: bool) -> StatusTally:
    async def use(store: Store) -> StatusTally:
        with output.progress(f"{action.noun}s to {action.verb}") as advance:
            return await act_on_matches(store, action, selection, dry_run=dry_run, advance=advance)

    return with_store(selection.url, use)


def _document(action: BulkAction[Any], tally: StatusTally, *, dry_run: bool) -> dict[str, object]:
    counts: dict[str, object] = {"matched": tally.matched, "statuses": dict(tally.statuses)}
    if action.reports_looked:
        counts |= {"looked": tally.looked, "stopped_early": tally.stopped_early}
    return {"action": action.verb, "dry_run": dry_run, **counts}


def status_text(status: str) -> str:
    """A status for people."""
    return status.replace("_", " ")


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in parts of one call each."""
    return (items[start : start + BATCH_MAX] for start in range(0, len(items), BATCH_MAX))


@contextmanager
def keep_tally(tally: StatusTally) -> Iterator[None]:
    """Within this block, add the counts so far to the error of a store that becomes unavailable."""
    try:
        yield
    except (StoreUnavailable, OutcomeUnknown) as error:
        if not tally.statuses:
            raise
        text = f"{tally.text()}, and then: {str(error).rstrip('.')}; run it again for the rest"
        raise OutcomeUnknown(text) from error
