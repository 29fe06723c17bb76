"""`headrace dead show`: a whole letter, what killed its job, and the job's life."""

from typing import Annotated

import typer

from headrace.cli.dead.group import commands
from headrace.cli.dead.picking import Named, letters_named
from headrace.cli.exits import NO, OK
from headrace.cli.instants import ago, store_now_ms
from headrace.cli.jobs.portrait import error_text, fact, record_facts
from headrace.cli.jobs.showing import NoPayload, ScanMax, life_dict, print_life
from headrace.cli.journeys import Journey, journey_of
from headrace.cli.opening import with_store
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.shapes import carried_text, key_text, letter_dict, policy_dict
from headrace.model.finished import Letter
from headrace.model.limits import JOURNEY_SCAN_MAX
from headrace.model.queue_config import QueueConfig
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store

Name = Annotated[
    str, typer.Argument(metavar="ID|LETTER", help="A job, whose newest letter is meant, or a letter (0:17).")
]
Looked = tuple[Named, QueueConfig | None, Journey | None, int]


@commands.command("show")
def show(
    name: Name,
    url: Url = None,
    tenant: Tenant = TENANT,
    queue: AnyQueue = None,
    no_payload: NoPayload = False,
    scan_max: ScanMax = JOURNEY_SCAN_MAX,
    json: Json = False,
) -> int:
    """Show a dead letter: why the job died, what it carries, and its whole life. Exits with 1 when there is none."""
    output = Output(json=json)

    async def look(store: Store) -> Looked:
        now_ms = await store_now_ms(store)
        [named] = await letters_named(store, tenant, queue, [name])
        if named.queue is None or named.letter is None:
            return named, None, None, now_ms
        record = named.letter.record
        with output.progress("reading the journal") as advance:
            journey = await journey_of(
                store,
                named.queue.shard_of(record.id),
                record.id,
                since_ms=record.enqueued_at_ms,
                scan_max=scan_max,
                looked=advance,
            )
        return named, await store.queues.configuration(named.queue), journey, now_ms

    named, config, journey, now_ms = with_store(url, look)
    if named.queue is None or named.letter is None or config is None or journey is None:
        output.document({"name": name, "found": False})
        where = f"queue {queue!r}" if queue else "any queue"
        output.hint(f"there is no dead letter {name!r} in {where} of tenant {tenant!r}; see headrace dead list")
        return NO
    letter = named.letter
    known = letter_dict(named.queue, letter, payload=not no_payload)
    policy = policy_dict(letter.record.policy, config)
    output.document({"found": True, **known, "policy": policy, "letters": named.letters, "life": life_dict(journey)})
    output.say(
        f"letter {key_text(letter.key)} of job {letter.record.id} on queue {named.queue.full_name} of tenant {tenant}"
    )
    output.say(letter_text(letter, config, now_ms, payload=not no_payload))
    if named.letters > 1:
        output.say(fact("letters", f"{named.letters:,} of this job; this is the newest"))
    print_life(output, journey)
    return OK


def letter_text(letter: Letter, config: QueueConfig, now_ms: int, *, payload: bool) -> str:
    """A letter in lines."""
    record = letter.record
    lines = [
        fact("died", f"{instant_text(letter.died_at_ms)}, {ago(letter.died_at_ms, now_ms)}"),
        fact("reason", letter.reason),
        fact("error", error_text(letter.error)),
        *record_facts(record, config, now_ms, error=False),
        fact("kept until", instant_text(letter.until_ms)),
    ]
    if payload:
        lines.append(fact("payload", carried_text(record.payload)))
    return "\n".join(lines)
