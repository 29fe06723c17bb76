"""Runs a deed that a person asked for: checks what was chosen, counts and asks first, and tells what came of it."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.cli.bulk import StepTally, words
from headrace.cli.dead.acting import DeadLetterAction, DeadLetterAnswer, by_filter, by_names
from headrace.cli.dead.group import Meant
from headrace.cli.dead.lookup import check_names
from headrace.cli.exit_codes import NO, OK
from headrace.cli.output import Output, counted
from headrace.cli.store_access import with_store
from headrace.model.errors import Refused
from headrace.stores.contract.store import Store


class DeadLetterChoice(Struct, frozen=True, kw_only=True):
    """Which dead letters a person chose."""

    url: str | None
    tenant: str
    queue: str | None
    names: Sequence[str]
    meant: Meant
    everything: bool

    def check(self, verb: str) -> None:
        """Refuse a choice of nothing, and one that says two things."""
        self.meant.check()
        check_names(self.names)
        if self.names and (self.meant.given or self.everything):
            raise Refused("bad_choice", f"{verb} takes names or a filter, not both; leave one out")
        if not self.names and not self.meant.given and not self.everything:
            raise Refused(
                "bad_choice",
                f"nothing says which dead letters to {verb}; give ids or dead letters, "
                "or a filter such as --kind, --reason or"
                " --since, or --all",
            )

    def text(self) -> str:
        """Which dead letters, in words."""
        told = ", ".join(f"{name} {value}" for name, value in self.meant.given.items())
        where = f"queue {self.queue}" if self.queue else "all queues"
        return f"{where} of tenant {self.tenant}{f' ({told})' if told else ''}"


def run(output: Output, choice: DeadLetterChoice, deed: DeadLetterAction, *, dry_run: bool, yes: bool) -> int:
    """Do it to the dead letters that were chosen."""
    choice.check(deed.verb)
    if choice.names:
        return _named(output, choice, deed, dry_run=dry_run)
    if dry_run or not yes:
        would = _filtered(output, choice, deed, dry_run=True)
        if dry_run or not would.matched:
            _tell(output, deed, would, dry_run=dry_run)
            return OK
        output.confirm(f"{deed.verb.capitalize()} {counted(would.matched, 'dead letter')} of {choice.text()}?", yes=yes)
    _tell(output, deed, _filtered(output, choice, deed, dry_run=False), dry_run=False)
    return OK


def _named(output: Output, choice: DeadLetterChoice, deed: DeadLetterAction, *, dry_run: bool) -> int:
    async def use(store: Store) -> list[DeadLetterAnswer]:
        return await by_names(store, choice.tenant, choice.queue, choice.names, deed, dry_run=dry_run)

    answers = with_store(choice.url, use)
    tally = StepTally()
    tally.add(answer.status for answer in answers)
    output.document({**_document(deed, tally, dry_run=dry_run), "dead_letters": answers})
    rows = [(answer.name, answer.dead_letter, answer.queue, words(answer.status)) for answer in answers]
    output.table(("name", "key", "queue", "would be" if dry_run else "now"), rows, empty="")
    return OK if all(answer.status == deed.done for answer in answers) else NO


def _filtered(output: Output, choice: DeadLetterChoice, deed: DeadLetterAction, *, dry_run: bool) -> StepTally:
    async def use(store: Store) -> StepTally:
        with output.progress("counting dead letters" if dry_run else f"dead letters to {deed.verb}") as advance:
            return await by_filter(
                store, choice.tenant, choice.queue, choice.meant, deed, dry_run=dry_run, advance=advance
            )

    return with_store(choice.url, use)


def _tell(output: Output, deed: DeadLetterAction, tally: StepTally, *, dry_run: bool) -> None:
    output.document(_document(deed, tally, dry_run=dry_run))
    told = tally.text("no dead letter matches")
    output.say(f"would be: {told}" if dry_run and tally.matched else told)


def _document(deed: DeadLetterAction, tally: StepTally, *, dry_run: bool) -> dict[str, object]:
    counts = {"matched": tally.matched, "statuses": dict(tally.statuses)}
    return {"action": deed.verb, "dry_run": dry_run, **counts}
