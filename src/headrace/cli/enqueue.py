"""`headrace enqueue`: sends a job, or the many jobs of a file."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from headrace.cli.exit_codes import NO, OK
from headrace.cli.jsonl import LineTally, opened, send_lines
from headrace.cli.options import QUEUE, TENANT, AppName, Json, Url, found_app, is_typed, placed
from headrace.cli.output import Output
from headrace.cli.parse import pairs, typed_payload, value_of, written
from headrace.cli.send import (
    Making,
    SendAnswer,
    await_result,
    broken_off_text,
    is_worked_on,
    option_fields,
    paused_among,
    paused_text,
    send,
    worker_command,
)
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms, read_instant_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.model.job import Job
    from headrace.model.names import Queue

PLACES = ("queue", "tenant", "shards")


def command(
    context: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="What is to be done; a kind of your app.", show_default=False)
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAYLOAD]",
            help="JSON ('{\"user_id\": 42}'), or arguments as pairs (user_id=42 name=Ada), or - for what is piped in.",
            show_default=False,
        ),
    ] = None,
    payload_file: Annotated[Path | None, typer.Option("--payload-file", help="Take the payload from a file.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help='Send many: one JSON object a line, {"kind": …, "payload": …} and options; - is what is piped in.',
        ),
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", help="Wait for the result, at most this long (30s), and print it.")
    ] = None,
    app: AppName = None,
    no_app: Annotated[bool, typer.Option("--no-app", help="Send it as it is, whatever the app says.")] = False,
    url: Url = None,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", envvar="HEADRACE_QUEUE", help="Which queue; else as the app says.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", envvar="HEADRACE_TENANT", help="Whose queue; else as the app says.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option("--shards", help="Into how many shards the queue is cut, for its first job.")
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Names the job; sent again, the waiting one is updated.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Not before this long has passed (5m).")] = None,
    run_at: Annotated[
        str | None, typer.Option("--run-at", help="Not before this instant (2030-01-31T12:00:00Z, or milliseconds).")
    ] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="0 to 9, higher first.")] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="How long it may run; 0 is no limit.")] = None,
    max_attempts: Annotated[int | None, typer.Option("--max-attempts", help="It dies after so many.")] = None,
    max_stalls: Annotated[
        int | None, typer.Option("--max-stalls", help="It dies after its worker vanished more often than this.")
    ] = None,
    backoff: Annotated[
        str | None, typer.Option("--backoff", help="The wait after the first failed attempt; doubles with each.")
    ] = None,
    backoff_max: Annotated[str | None, typer.Option("--backoff-max", help="The longest such wait.")] = None,
    result_ttl: Annotated[str | None, typer.Option("--result-ttl", help="How long its result is kept.")] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="The last instant at which it may start.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="A text to find it by.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Goes with the job; again for more.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Sent twice with the same key, it runs once.")
    ] = None,
    idempotency_ttl: Annotated[
        str | None, typer.Option("--idempotency-ttl", help="How long the key is remembered.")
    ] = None,
    update_payload: Annotated[
        bool | None, typer.Option(help="Whether a waiting job of this --id gets this payload; it does.")
    ] = None,
    update_run_at: Annotated[
        Literal["always", "never", "if_later", "if_earlier"] | None,
        typer.Option("--update-run-at", help="When a waiting job of this --id gets this time."),
    ] = None,
    update_policy: Annotated[
        bool | None, typer.Option(help="Whether a waiting job of this --id gets these limits; it does.")
    ] = None,
    reset_counts: Annotated[
        bool | None, typer.Option("--reset-counts", help="A waiting job of this --id forgets its failed attempts.")
    ] = None,
    json: Json = False,
) -> int:
    """Send a job, or many from a file.

    With an app (--app, HEADRACE_APP, or app in [tool.headrace]) the kind is looked up in it: the queue and the options
    of its function hold unless typed here, and the payload must fit its arguments. In pairs, a value that is JSON is
    taken so (42, true, null); the rest is text, and so is all that the function wants as text.
    """
    durations = {
        "delay": delay,
        "timeout": timeout,
        "backoff": backoff,
        "backoff_max": backoff_max,
        "result_ttl": result_ttl,
        "idempotency_ttl": idempotency_ttl,
    }
    given: dict[str, object] = {name: written(text) for name, text in durations.items() if text is not None}
    for name, text in (("run_at", run_at), ("expires_at", expires_at)):
        given[name] = None if text is None else read_instant_ms(name, text)
    given |= {
        "queue": queue,
        "tenant": tenant,
        "shards": shards,
        "id": id,
        "priority": priority,
        "max_attempts": max_attempts,
        "max_stalls": max_stalls,
        "tag": tag,
        "headers": pairs("--header", header) if header else None,
        "idempotency_key": idempotency_key,
        "update_payload": update_payload,
        "update_run_at": update_run_at,
        "update_policy": update_policy,
        "reset_counts": reset_counts,
    }
    output = Output(json=json)
    making = _making(context, None if no_app else app, url, given)
    if source is not None:
        _check_many(payload, payload_file, wait, id, idempotency_key)
        return asyncio.run(_many(output, making, kind, source))
    if kind is None:
        known = f"; {app} has {', '.join(making.app.registry.kinds)}" if making.is_checked else ""
        raise BadConfig(f"a job needs a kind, as in: headrace enqueue greet name=Ada{known}")
    wait_ms = None if wait is None else duration_ms("wait", written(wait))
    typed = typed_payload(payload or [], payload_file)
    job = making.job(kind, value_of(typed, making.function(kind)))
    typed_url = url if is_typed(context, "url") else None
    start = partial(_start, making, _typed_app(context, app), typed_url)
    return asyncio.run(_one(output, making, job, wait_ms, typed_url, start))


def _making(context: typer.Context, name: str | None, url: str | None, given: dict[str, object]) -> Making:
    if name is not None:
        for place in PLACES:
            if not is_typed(context, place):
                given[place] = None  # the app knows where its jobs go
        return Making(found_app(name, context, url), option_fields(given), is_checked=True)
    from headrace.app.app import App

    queue, tenant = str(given.pop("queue") or QUEUE), str(given.pop("tenant") or TENANT)
    bare = App(tenant=tenant, queue=queue)
    return Making(placed(bare, context, url), option_fields(given), is_checked=False)


def _typed_app(context: typer.Context, app: str | None) -> str | None:
    """What a worker's command names as its app: nothing where the project says which one is meant."""
    if app is None:
        return "APP"
    return app if is_typed(context, "app") else None


def _start(making: Making, app: str | None, url: str | None, queue: "Queue") -> str:
    command = worker_command(making, queue, app, url)
    if command is None:
        return f"one needs a function in its app with queue=Queue({queue.name!r}, {queue.tenant!r}, {queue.shards})"
    return f"start one with: {command}"


async def _one(
    output: Output,
    making: Making,
    job: "Job",
    wait_ms: int | None,
    url: str | None,
    start: "Callable[[Queue], str]",
) -> int:
    function = making.function(job.kind)
    codec = making.app.maker.codec if function is None else function.handler.codec
    async with making.app:
        client = await making.app.client()
        answer, handle = await send(client, job, codec)
        output.say(answer.told)
        answer.paused = handle is not None and bool(await paused_among(client.store, [job.queue]))
        if answer.paused:
            output.hint(paused_text(job.queue))
        elif handle is not None and not output.json and not await is_worked_on(client, job.queue):
            output.hint(f"no worker asked for jobs of {answer.place} within the last minute; {start(job.queue)}")
        if handle is not None and wait_ms is not None:
            try:
                await await_result(answer, handle, wait_ms / 1_000)
            except asyncio.CancelledError:  # Ctrl-C
                answer.outcome = "open"
                answer.error = broken_off_text(answer.id, answer.queue, answer.tenant, url)
                output.hint(answer.error)
                output.document(answer)
                raise
            _tell_result(output, answer)
    output.document(answer)
    return OK if answer.ok else NO


def _tell_result(output: Output, answer: SendAnswer) -> None:
    if answer.outcome == "done":
        output.say(msgspec.json.encode(answer.result).decode())
        return
    output.say(str(answer.error))
    if answer.outcome == "dead":
        output.hint(f"see it with: headrace dead show {answer.id}")


def _check_many(
    payload: list[str] | None, file: Path | None, wait: str | None, id: str | None, key: str | None
) -> None:
    """Refuse what is about one job beside a file of many."""
    for wrong, found in (
        ("a payload", payload),
        ("--payload-file", file),
        ("--wait", wait),
        ("--id", id),
        ("--idempotency-key", key),
    ):
        if found:
            raise BadConfig(f"{wrong} is for one job, and --from sends many; write it into the lines, or leave it out")


async def _many(output: Output, making: Making, kind: str | None, source: str) -> int:
    tally = LineTally()
    with ExitStack() as stack:
        file = opened(stack, source, "jobs")
        advance = stack.enter_context(output.progress("sending"))
        async with making.app:
            client = await making.app.client()
            await send_lines(client, making, kind, file, tally, advance)
            paused = await paused_among(client.store, tally.queues)
    shown: dict[str, object] = {
        "sent": tally.sent - tally.refusals,
        "statuses": tally.statuses,
        "refused": tally.refused,
    }
    if paused:
        shown["paused"] = [{"tenant": queue.tenant, "queue": queue.full_name} for queue in paused]
    output.document(shown)
    output.say(f"{tally.sent:,} jobs: {tally}" if tally.sent else f"{source} holds no job")
    for queue in paused:
        output.hint(paused_text(queue))
    for each in tally.refused:
        output.say(f"line {each.line:,}, job {each.id}: {each.error or each.status}")
    if tally.refusals > len(tally.refused):
        output.say(f"and {tally.refusals - len(tally.refused):,} more that were refused")
    return NO if tally.refusals else OK
