"""`headrace dead show`: a whole dead letter, what killed its job, and the job's life."""

from typing import Annotated

import typer

from headrace.cli.dead.group import commands
from headrace.cli.dead.lookup import Named, dead_letters_named
from headrace.cli.exit_codes import NO, OK
from headrace.cli.job_timeline import Journey, journey_of
from headrace.cli.jobs.details import error_text, fact, record_facts
from headrace.cli.jobs.show import NoPayload, ScanMax, life_dict, print_life
from headrace.cli.options import TENANT, AnyQueue, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.cli.parse import ago
from headrace.cli.render import carried_text, dead_letter_dict, key_text, policy_dict
from headrace.cli.store_access import with_store
from headrace.model.finished import DeadLetter
from headrace.model.limits import JOURNEY_SCAN_MAX
from headrace.model.queue_config import QueueConfig
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store

Name = Annotated[
    str,
    typer.Argument(metavar="ID|DEAD_LETTER", help="A job, whose newest dead letter is meant, or a dead letter (0:17)."),
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
        now_ms = await store.now_ms()
        [named] = await dead_letters_named(store, tenant, queue, [name])
        if named.queue is None or named.dead_letter is None:
            return named, None, None, now_ms
        record = named.dead_letter.record
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
    if named.queue is None or named.dead_letter is None or config is None or journey is None:
        output.document({"name": name, "found": False})
        where = f"queue {queue!r}" if queue else "any queue"
        output.hint(f"there is no dead letter {name!r} in {where} of tenant {tenant!r}; see headrace dead list")
        return NO
    dead_letter = named.dead_letter
    known = dead_letter_dict(named.queue, dead_letter, payload=not no_payload)
    policy = policy_dict(dead_letter.record.policy, config)
    output.document(
        {"found": True, **known, "policy": policy, "dead_letters": named.dead_letters, "life": life_dict(journey)}
    )
    output.say(
        f"dead letter {key_text(dead_letter.key)} of job {dead_letter.record.id} "
        f"on queue {named.queue.full_name} of tenant {tenant}"
    )
    output.say(dead_letter_text(dead_letter, config, now_ms, payload=not no_payload))
    if named.dead_letters > 1:
        output.say(fact("of this job", f"{named.dead_letters:,} dead letters; this is the newest"))
    print_life(output, journey)
    return OK


def dead_letter_text(dead_letter: DeadLetter, config: QueueConfig, now_ms: int, *, payload: bool) -> str:
    """A dead letter in lines."""
    record = dead_letter.record
    lines = [
        fact("died", f"{instant_text(dead_letter.died_at_ms)}, {ago(dead_letter.died_at_ms, now_ms)}"),
        fact("reason", dead_letter.reason),
        fact("error", error_text(dead_letter.error)),
        *record_facts(record, config, now_ms, error=False),
        fact("kept until", instant_text(dead_letter.until_ms)),
    ]
    if payload:
        lines.append(fact("payload", carried_text(record.payload)))
    return "\n".join(lines)
