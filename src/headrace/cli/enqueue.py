"""`headrace enqueue`: sends a job, or the jobs of a file."""

import asyncio
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from headrace.cli import jsonl
from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import QUEUE, TENANT, AppName, Json, Url, is_typed, load_placed_app, place_app
from headrace.cli.output import Output
from headrace.cli.parse import pairs, typed_duration, typed_payload, value_of
from headrace.cli.send import (
    OPTIONS,
    JobFactory,
    SendAnswer,
    await_result,
    interrupted_text,
    is_worked_on,
    option_fields,
    paused_among,
    paused_text,
    send,
    worker_command,
)
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import PAUSED_LOOKS_MAX
from headrace.model.times import duration_ms, read_instant_ms
from headrace.model.validate import bounded_repr, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.client.client import Client
    from headrace.model.job import Job
    from headrace.model.names import Queue

PLACES = ("queue", "tenant", "shards")
LINE_FIELDS = ("kind", "payload", *OPTIONS)
"""The fields of a line of a file."""


def command(
    context: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="Kind of the job, usually one of your app.", show_default=False)
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAYLOAD]",
            help="JSON ('{\"user_id\": 42}'), or arguments as pairs (user_id=42 name=Ada), or - to read stdin.",
            show_default=False,
        ),
    ] = None,
    payload_file: Annotated[Path | None, typer.Option("--payload-file", help="Read the payload from a file.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help='Send many: one JSON object a line, {"kind": …, "payload": …} and options; - reads stdin.',
        ),
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", help="Wait at most this long (30s) for the result and print it.")
    ] = None,
    app: AppName = None,
    no_app: Annotated[bool, typer.Option("--no-app", help="Send the job without looking it up in the app.")] = False,
    url: Url = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", "-q", envvar="HEADRACE_QUEUE", help="Queue to use; by default as the app says."),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", envvar="HEADRACE_TENANT", help="Tenant to use; by default as the app says."),
    ] = None,
    shards: Annotated[int | None, typer.Option("--shards", help="Shards of the queue, for its first job.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of the job; a waiting job of this id is updated.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Run the job after this time (5m).")] = None,
    run_at: Annotated[
        str | None,
        typer.Option("--run-at", help="Run the job at this instant (2030-01-31T12:00:00Z, or milliseconds)."),
    ] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="Priority from 0 to 9, higher first.")] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Time limit of one attempt; 0 is no limit.")] = None,
    max_attempts: Annotated[int | None, typer.Option("--max-attempts", help="Attempts before the job is dead.")] = None,
    max_stalls: Annotated[int | None, typer.Option("--max-stalls", help="Lost workers that the job survives.")] = None,
    backoff: Annotated[
        str | None, typer.Option("--backoff", help="Pause after the first failed attempt; doubles with each.")
    ] = None,
    backoff_max: Annotated[str | None, typer.Option("--backoff-max", help="Longest pause between attempts.")] = None,
    result_ttl: Annotated[str | None, typer.Option("--result-ttl", help="Time for which the result is kept.")] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", help="Last instant at which the job may start.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Tag to find the job by.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Header of the job; repeat for more.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Key under which the job is accepted only once.")
    ] = None,
    idempotency_ttl: Annotated[
        str | None, typer.Option("--idempotency-ttl", help="Time for which the key is remembered.")
    ] = None,
    update_payload: Annotated[
        bool | None, typer.Option(help="Give a waiting job of this --id this payload; the default.")
    ] = None,
    update_run_at: Annotated[
        Literal["always", "never", "if_later", "if_earlier"] | None,
        typer.Option("--update-run-at", help="When to give a waiting job of this --id this time."),
    ] = None,
    update_policy: Annotated[
        bool | None, typer.Option(help="Give a waiting job of this --id these limits; the default.")
    ] = None,
    reset_counts: Annotated[
        bool | None, typer.Option("--reset-counts", help="Reset the failed attempts of a waiting job of this --id.")
    ] = None,
    json: Json = False,
) -> int:
    """Send a job, or many from a file.

    With an app (--app, HEADRACE_APP, or app in [tool.headrace]) the kind is looked up in it: the queue and options of
    its function are the defaults, and the payload must fit its arguments. In pairs, a valid JSON value is taken as such
    (42, true, null) and everything else as text; a parameter annotated as str is always text.

    Example: headrace enqueue greet name=Ada --delay 5m
    """
    durations = {
        "delay": delay,
        "timeout": timeout,
        "backoff": backoff,
        "backoff_max": backoff_max,
        "result_ttl": result_ttl,
        "idempotency_ttl": idempotency_ttl,
    }
    options: dict[str, object] = {name: typed_duration(text) for name, text in durations.items() if text is not None}
    for name, text in (("run_at", run_at), ("expires_at", expires_at)):
        options[name] = None if text is None else read_instant_ms(name, text)
    options |= {
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
    factory = _factory(context, None if no_app else app, url, options)
    if source is not None:
        _check_many(payload, payload_file, wait, id, idempotency_key)
        return asyncio.run(_send_file(output, factory, kind, source))
    if kind is None:
        known = f"; {app} has {', '.join(factory.app.registry.kinds)}" if factory.is_checked else ""
        raise BadConfig(f"a job needs a kind, as in: headrace enqueue greet name=Ada{known}")
    wait_ms = None if wait is None else duration_ms("wait", typed_duration(wait))
    typed = typed_payload(payload or [], payload_file)
    job = factory.job(kind, value_of(typed, factory.function(kind)))
    typed_url = url if is_typed(context, "url") else None
    start_hint = partial(_start_hint, factory, _typed_app(context, app), typed_url)
    return asyncio.run(_send_one(output, factory, job, wait_ms, typed_url, start_hint))


def _factory(context: typer.Context, name: str | None, url: str | None, options: dict[str, object]) -> JobFactory:
    if name is not None:
        for place in PLACES:
            if not is_typed(context, place):
                options[place] = None  # as the app says
        return JobFactory(load_placed_app(name, context, url), option_fields(options), is_checked=True)
    from headrace.app.app import App

    queue, tenant = str(options.pop("queue") or QUEUE), str(options.pop("tenant") or TENANT)
    app = place_app(App(tenant=tenant, queue=queue), context, url)
    return JobFactory(app, option_fields(options), is_checked=False)


def _typed_app(context: typer.Context, app: str | None) -> str | None:
    """The app as an argument of `headrace worker`; None if the project names it."""
    if app is None:
        return "APP"
    return app if is_typed(context, "app") else None


def _start_hint(factory: JobFactory, app: str | None, url: str | None, queue: "Queue") -> str:
    command = worker_command(factory, queue, app, url)
    if command is None:
        return (
            f"a worker needs a function in its app with queue=Queue({queue.name!r}, {queue.tenant!r}, {queue.shards})"
        )
    return f"start one with: {command}"


async def _send_one(
    output: Output,
    factory: JobFactory,
    job: "Job",
    wait_ms: int | None,
    url: str | None,
    start_hint: "Callable[[Queue], str]",
) -> int:
    function = factory.function(job.kind)
    codec = factory.app.maker.codec if function is None else function.handler.codec
    async with factory.app:
        client = await factory.app.client()
        answer, handle = await send(client, job, codec)
        output.say(answer.text)
        answer.paused = handle is not None and bool(await paused_among(client.store, [job.queue]))
        if answer.paused:
            output.hint(paused_text(job.queue))
        elif handle is not None and not output.json and not await is_worked_on(client, job.queue):
            output.hint(f"no worker has polled {answer.place} within the last minute; {start_hint(job.queue)}")
        if handle is not None and wait_ms is not None:
            try:
                await await_result(answer, handle, wait_ms / 1_000)
            except asyncio.CancelledError:  # Ctrl-C
                answer.outcome = "open"
                answer.error = interrupted_text(answer.id, answer.queue, answer.tenant, url)
                output.hint(answer.error)
                output.document(answer)
                raise
            _print_result(output, answer)
    output.document(answer)
    return OK if answer.ok else NO


def _print_result(output: Output, answer: SendAnswer) -> None:
    if answer.outcome == "done":
        output.say(msgspec.json.encode(answer.result).decode())
        return
    output.say(str(answer.error))
    if answer.outcome == "dead":
        output.hint(f"see it with: headrace dead show {answer.id}")


def _check_many(
    payload: list[str] | None, file: Path | None, wait: str | None, id: str | None, key: str | None
) -> None:
    """Refuse options for one job beside a file of many."""
    for option, value in (
        ("a payload", payload),
        ("--payload-file", file),
        ("--wait", wait),
        ("--id", id),
        ("--idempotency-key", key),
    ):
        if value:
            raise BadConfig(
                f"{option} applies to one job, and --from sends many; put it into the lines, or leave it out"
            )


async def _send_file(output: Output, factory: JobFactory, kind: str | None, source: str) -> int:
    report, queues = jsonl.LineReport(), set["Queue"]()
    with ExitStack() as stack:
        file = jsonl.open_lines(stack, source, "jobs")
        advance = stack.enter_context(output.progress("sending"))
        async with factory.app:
            client = await factory.app.client()
            await jsonl.send(file, line_sender(client, factory, kind, queues), report, advance)
            paused = await paused_among(client.store, queues)
    document: dict[str, object] = {
        "sent": report.sent - report.refusals,
        "statuses": report.statuses,
        "refused": report.refused,
    }
    if paused:
        document["paused"] = [{"tenant": queue.tenant, "queue": queue.full_name} for queue in paused]
    output.document(document)
    output.say(f"{report.sent:,} jobs: {report}" if report.sent else f"{source} holds no job")
    for queue in paused:
        output.hint(paused_text(queue))
    for each in report.refused:
        output.say(f"line {each.line:,}, job {each.id}: {each.error or each.status}")
    if report.refusals > len(report.refused):
        output.say(f"and {report.refusals - len(report.refused):,} more refused jobs")
    return NO if report.refusals else OK


def line_sender(
    client: "Client", factory: JobFactory, kind: str | None, queues: "set[Queue]"
) -> "jsonl.LineSender[Job]":
    """The sender for a file of jobs; it adds their queues to `queues`, up to a limit."""

    async def submit(jobs: "Sequence[Job]") -> list[jsonl.LineAnswer]:
        handles = await client.enqueue_many(jobs)
        if len(queues) < PAUSED_LOOKS_MAX:
            queues.update(islice({job.queue for job in jobs}, PAUSED_LOOKS_MAX))
        return [
            jsonl.LineAnswer(each.id, each.status, not each.ok, None if each.error is None else str(each.error))
            for each in handles
        ]

    return jsonl.LineSender(partial(job_of_line, factory, kind), submit, "sent", "headrace jobs list")


def job_of_line(factory: JobFactory, kind: str | None, line: bytes) -> "Job":
    """The job of a line; raises `Refused` for a line without a valid job."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Refused(
            "bad_line", f'not a valid JSON object; write {{"kind": "greet", "payload": {{}}}} ({error})'
        ) from error
    for name in fields:
        if name not in LINE_FIELDS:
            near = nearest(name, LINE_FIELDS)
            hint = f"did you mean {near!r}?" if near else f"known fields: {', '.join(LINE_FIELDS)}"
            raise Refused("bad_line", f"a job has no {bounded_repr(name)}; {hint}")
    if not isinstance(own_kind := fields.pop("kind", kind), str):
        raise Refused("bad_kind", 'the job has no kind; add one ("kind": "greet"), or give one KIND for all lines')
    payload = fields.pop("payload", None)
    for name in ("run_at", "expires_at"):
        if isinstance(fields.get(name), str):
            fields[name] = read_instant_ms(name, fields[name])
    return factory.job(own_kind, payload, option_fields(fields))
