"""Runs a deed that a person asked for: checks what was chosen, counts and asks first, and tells what came of it."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.cli.bulk import StepTally, words
from headrace.cli.exit_codes import NO, OK, STOPPED
from headrace.cli.jobs.acting import JobAction, JobAnswer, by_filter, by_ids
from headrace.cli.jobs.filters import job_filter
from headrace.cli.output import Output, counted
from headrace.cli.store_access import with_store
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.stores.contract.store import Store


class JobChoice(Struct, frozen=True, kw_only=True):
    """Which jobs a person chose."""

    url: str | None
    tenant: str
    queue: str | None
    ids: Sequence[str]
    kind: str | None
    tag: str | None
    state: State | None
    older_than: str | None
    everything: bool

    @property
    def filtered(self) -> bool:
        """Whether a filter was given; a queue alone is none, since it may come from the environment."""
        return any(each is not None for each in (self.kind, self.tag, self.state, self.older_than))

    def check(self, verb: str) -> None:
        """Refuse a choice of nothing, and one that says two things."""
        if self.ids and (self.filtered or self.everything):
            raise Refused("bad_choice", f"{verb} takes ids or a filter, not both; leave one out")
        if not self.ids and not self.filtered and not self.everything:
            raise Refused(
                "bad_choice",
                f"nothing says which jobs to {verb}; give ids, or --kind, --tag, --state or --older-than, or --all",
            )

    def text(self) -> str:
        """Which jobs, in words."""
        parts = [("kind", self.kind), ("tag", self.tag), ("state", self.state), ("older than", self.older_than)]
        told = ", ".join(f"{name} {value}" for name, value in parts if value is not None)
        where = f"queue {self.queue}" if self.queue else "all queues"
        return f"{where} of tenant {self.tenant}{f' ({told})' if told else ''}"


def run(
    output: Output,
    choice: JobChoice,
    deed: JobAction,
    states: Sequence[State],
    fine: Sequence[str],
    *,
    dry_run: bool,
    yes: bool,
) -> int:
    """Do it to the jobs that were chosen. `fine` are the statuses with which a named job counts as done."""
    choice.check(deed.verb)
    if choice.ids:
        return _named(output, choice, deed, fine, dry_run=dry_run)
    if dry_run or not yes:
        would = _filtered(output, choice, deed, states, dry_run=True)
        if dry_run or not would.matched:
            return tell(output, deed.verb, would, dry_run=dry_run)
        output.confirm(f"{deed.verb.capitalize()} {counted(would.matched, 'job')} of {choice.text()}?", yes=yes)
    done = _filtered(output, choice, deed, states, dry_run=False)
    return tell(output, deed.verb, done, dry_run=False)


def tell(output: Output, verb: str, tally: StepTally, *, dry_run: bool) -> int:
    """Print what was done by filter, or would be, and return the exit code."""
    output.document({"action": verb, **tally.document(dry_run=dry_run)})
    told = f"{tally.text('no job matches')}; looked at {counted(tally.looked, 'job')}"
    output.say(f"would {verb}: {told}" if dry_run and tally.matched else told)
    if not tally.stopped_early:
        return OK
    output.hint("stopped early: new jobs came faster than they could be looked at; run it again")
    return STOPPED


def _named(output: Output, choice: JobChoice, deed: JobAction, fine: Sequence[str], *, dry_run: bool) -> int:
    async def use(store: Store) -> list[JobAnswer]:
        return await by_ids(store, choice.tenant, choice.queue, choice.ids, deed, dry_run=dry_run)

    answers = with_store(choice.url, use)
    tally = StepTally()
    tally.add(answer.status for answer in answers)
    output.document({"action": deed.verb, **tally.document(dry_run=dry_run), "jobs": answers})
    rows = [(answer.id, answer.queue, answer.state, words(answer.status)) for answer in answers]
    output.table(("id", "queue", "was", f"{'would ' if dry_run else ''}{deed.verb}"), rows, empty="")
    if any(answer.status == "active" for answer in answers):
        output.hint("active jobs were left alone; --running asks them to stop")
    return OK if all(answer.status in fine or answer.status == "found" for answer in answers) else NO


def _filtered(
    output: Output, choice: JobChoice, deed: JobAction, states: Sequence[State], *, dry_run: bool
) -> StepTally:
    async def use(store: Store) -> StepTally:
        where = job_filter(await store.now_ms(), kind=choice.kind, tag=choice.tag, older_than=choice.older_than)
        what = "counting jobs" if dry_run else f"going through jobs to {deed.verb}"
        with output.progress(what) as advance:
            return await by_filter(
                store, choice.tenant, choice.queue, states, where, deed, dry_run=dry_run, advance=advance
            )

    return with_store(choice.url, use)
