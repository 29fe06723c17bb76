"""Compares sent jobs with an expected job, and describes the differences."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from headrace.app.app import App
from headrace.app.job_function import JobTemplate
from headrace.client.codec import Codec
from headrace.client.options import OptionFields, Options
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter
from headrace.model.limits import PRIORITY_DEFAULT
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr, cut, nearest
from headrace.stores.catalog import all_queues, all_tenants
from headrace.stores.memory.store import MemoryStore
from headrace.testing.sent_jobs import SentJob, parameters, sent_job, takes_any
from headrace.testing.store import KitClock, KitStore
from headrace.worker.handlers import Handler

UNSEEN = frozenset(
    ("shards", "idempotency_key", "idempotency_ttl", "update_payload", "update_run_at", "update_policy", "reset_counts")
)
"""Options of an enqueue that are not in the record of the job."""
OPTIONS = frozenset(OptionFields.__annotations__) - UNSEEN
MISSING = object()


class Difference(Struct, frozen=True):
    """A field in which a job differs from the expected one."""

    what: str
    found: object
    wanted: object

    def __str__(self) -> str:
        found = "is not there" if self.found is MISSING else f"is {cut(repr(self.found))}"
        return f"{self.what} {found}, expected {cut(repr(self.wanted))}"


class ExpectedJob:
    """A job as a test describes it: its kind, some of its arguments, some of its options."""

    def __init__(
        self, kind: str, handler: Handler | None, codec: Codec, arguments: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self.kind = kind
        self.arguments = dict(arguments)
        self.options = dict(options)
        self._handler = handler
        self._codec = codec
        # Built from the same options as a job, so that "5m" and 300 are equal.
        compared = Options(**{name: value for name, value in options.items() if name not in ("queue", "tenant")})
        self._job = compared.job(kind, b"", tenant_default="any", queue_default="any", fresh_id=lambda: "any")

    def __str__(self) -> str:
        shown = [f"{name}={cut(repr(value))}" for name, value in (self.arguments | self.options).items()]
        return f"{self.kind}({', '.join(shown)})"

    def differences(self, sent: SentJob) -> list[Difference]:
        """The fields in which a job differs; empty if it matches."""
        if sent.kind != self.kind:
            return [Difference("kind", sent.kind, self.kind)]
        return [*self._in_arguments(sent), *(each for name in self.options for each in self._in_option(name, sent))]

    def _in_arguments(self, sent: SentJob) -> list[Difference]:
        seen = seen_arguments(sent, self._handler)
        return [
            Difference(name, seen.get(name, MISSING), wanted)
            for name, wanted in self.arguments.items()
            if name not in seen or not self._is_same(seen[name], wanted)
        ]

    def _is_same(self, found: object, wanted: object) -> bool:
        codec = self._codec
        try:
            # Compared as encoded: a tuple equals a list, an instant a text, a dataclass an object.
            return bool(codec.decode(codec.encode(found)) == codec.decode(codec.encode(wanted)))
        except Refused:
            return bool(found == wanted)  # an object that only compares, such as mock.ANY

    def _in_option(self, name: str, sent: SentJob) -> list[Difference]:
        wanted, found = self.options[name], self._option(name, sent)
        return [] if found == self._wanted_option(name) else [Difference(name, found, wanted)]

    def _option(self, name: str, sent: SentJob) -> object:
        match name:
            case "queue":
                return sent.queue if isinstance(self.options["queue"], Queue) else sent.queue.name
            case "tenant":
                return sent.queue.tenant
            case "delay":
                return f"{sent.delay_ms} ms"
            case "run_at":
                return sent.record.run_at_ms
            case "id" | "tag" | "headers":
                return getattr(sent.record, name)
        return _policy(sent.record.policy, name)

    def _wanted_option(self, name: str) -> object:
        match name:
            case "queue" | "tenant":
                return self.options[name]
            case "delay":
                return f"{self._job.delay_ms} ms"
            case "run_at":
                return self._job.run_at_ms
            case "id" | "tag" | "headers":
                return getattr(self._job, name)
        return _policy(self._job.policy, name)


def seen_arguments(sent: SentJob, handler: Handler | None) -> dict[str, Any]:
    """The arguments as the handler gets them, defaults included."""
    if handler is None:
        payload = sent.arguments["payload"]
        return {**payload, "payload": payload} if isinstance(payload, dict) else sent.arguments
    defaults = {
        name: each.default for name, each in parameters(handler).items() if each.default is not inspect.Parameter.empty
    }
    return defaults | sent.arguments


def split_arguments(
    handler: Handler | None, args: Sequence[Any], kwargs: Mapping[str, Any], others: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the keywords of a test into arguments of the function and options of the job.

    A parameter of the function is its argument; `others` are the names of options. Any other name is refused: a
    misspelt name would make a test pass and check nothing.
    """
    names = [] if handler is None else list(parameters(handler))
    if handler is None and args:
        return {"payload": args[0]}, dict(kwargs)
    if len(args) > len(names):
        raise Refused(
            "bad_arguments",
            f"{_shown(handler)} takes {len(names)} arguments; found {len(args)} without a name",
        )
    positional = dict(zip(names, args, strict=False))
    arguments, options = dict(positional), {}
    for name, value in kwargs.items():
        if name in positional:
            raise Refused(
                "bad_arguments", f"the argument {bounded_repr(name)} of {_shown(handler)} was given twice; give it once"
            )
        if name in names or (name not in others and (handler is None or takes_any(handler))):
            arguments[name] = value
        elif name in others:
            options[name] = value
        else:
            near = nearest(name, [*names, *sorted(others)])
            hint = f"; did you mean {near!r}?" if near else f"; options of a job are {', '.join(sorted(others))}"
            raise Refused("bad_arguments", f"{_shown(handler)} has no argument {bounded_repr(name)}{hint}")
    return arguments, options


def _shown(handler: Handler | None) -> str:
    return "the job" if handler is None else str(handler.arguments)


def _policy(policy: Any, name: str) -> object:
    fields = asdict(policy)
    renamed = {"backoff_max": "backoff_ms_max"}.get(name, name if name in fields else f"{name}_ms")
    value = fields[renamed]
    return PRIORITY_DEFAULT if name == "priority" and value is None else value


SHOWN_MAX = 5
"""Further jobs are counted, not shown; the nearest ones come first."""


def missing_message(wanted: ExpectedJob, sent: Sequence[SentJob], times: int | None) -> str | None:
    """The message of a failed `assert_enqueued`; None if it holds."""
    compared = [(wanted.differences(each), each) for each in sent]
    count = sum(not differences for differences, _ in compared)
    if count if times is None else count == times:
        return None
    head = f"{_enqueued(wanted, count)}; expected {'at least once' if times is None else _times(times)}"
    return f"{head}; {_describe(compared)}"


def unexpected_message(wanted: ExpectedJob, sent: Sequence[SentJob]) -> str | None:
    """The message of a failed `assert_not_enqueued`; None if it holds."""
    found = [each for each in sent if not wanted.differences(each)]
    if not found:
        return None
    return f"{_enqueued(wanted, len(found))}; expected never; found:" + "".join(map(_line, found[:SHOWN_MAX]))


def _enqueued(wanted: ExpectedJob, count: int) -> str:
    return f"{wanted} was never enqueued" if count == 0 else f"{wanted} was enqueued {_times(count)}"


def _describe(compared: Sequence[tuple[list[Difference], SentJob]]) -> str:
    if not compared:
        return "nothing was enqueued at all"
    ordered = sorted(compared, key=lambda each: (_is_other(each[0]), len(each[0])))
    shown = [_line(sent) + "".join(f"\n      {each}" for each in differences) for differences, sent in ordered]
    left = len(shown) - SHOWN_MAX
    more = f"\n  and {left} more" if left > 0 else ""
    return "found:" + "".join(shown[:SHOWN_MAX]) + more


def _is_other(differences: Sequence[Difference]) -> bool:
    return any(each.what == "kind" for each in differences)


def _line(sent: SentJob) -> str:
    arguments = ", ".join(f"{name}={cut(repr(value))}" for name, value in sent.arguments.items())
    due = f", due after {sent.delay_ms} ms" if sent.delay_ms else ""
    return f"\n  {sent.kind}({arguments}) on queue {sent.queue.full_name!r}, id {sent.id!r}{due}"


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


JobRef = str | JobTemplate[..., Any]
"""A job function, one with `.options(…)`, or a kind by its name."""


class SentJobQueries:
    """The queries of a kit; none of them waits, so they are the same in plain tests and in coroutines."""

    def __init__(self, app: App, store: KitStore) -> None:
        self.app = app
        self.store = store
        """The store in memory, which fails on command: `kit.store.fail("enqueue")`, `with kit.store.down():`."""

    @property
    def clock(self) -> KitClock:
        """The clock of the store: `kit.clock.advance("5m")`."""
        return self.store.clock

    def enqueued(self, job: JobRef | None = None) -> list[SentJob]:
        """The jobs sent in the kit, in order, including jobs that have run; of one kind or all.

        A job that was sent again before its claim is one job.
        """
        kind = None if job is None else _kind_of(job)
        codec = self.app.maker.codec
        return [
            sent_job(sent, self._handler(sent.record.kind), codec)
            for sent in list(self.store.call_log.sent)
            if kind is None or sent.record.kind == kind
        ]

    def assert_enqueued(self, job: JobRef, /, *args: Any, times: int | None = None, **wanted: Any) -> list[SentJob]:
        """Fail unless a matching job was sent; returns the matching jobs. `kit.assert_enqueued(welcome, user_id=42)`.

        Arguments that are not named may have any value; one that was not sent has the function's default. Values are
        compared as encoded, so that a tuple equals a list. Options are named as in `Options` (`queue="mail"`,
        `delay="5m"`, `tag=…`), or set as for an enqueue: `welcome.options(delay="5m")`, which also works if the
        function has an argument of that name. With `times`, exactly this many jobs must match.
        """
        __tracebackhide__ = True
        expected = self._expected(job, args, wanted)
        sent = self.enqueued()
        if (why := missing_message(expected, sent, times)) is not None:
            raise AssertionError(why)
        return [each for each in sent if not expected.differences(each)]

    def assert_not_enqueued(self, job: JobRef, /, *args: Any, **wanted: Any) -> None:
        """Fail if a matching job was sent; see `assert_enqueued`."""
        __tracebackhide__ = True
        if (why := unexpected_message(self._expected(job, args, wanted), self.enqueued())) is not None:
            raise AssertionError(why)

    def dead_letters(self, job: JobRef | None = None) -> list[DeadLetter]:
        """The dead letters, of one kind or all: each with its job, the reason and the error."""
        kind = None if job is None else _kind_of(job)
        return [each for each in self.store.query(_all_dead_letters) if kind is None or each.record.kind == kind]

    def _expected(self, job: JobRef, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> ExpectedJob:
        kind = _kind_of(job)
        handler = self._handler(kind)
        arguments, options = split_arguments(handler, args, keywords, OPTIONS)
        options = own_options(job) | options
        if unseen := sorted(UNSEEN & options.keys()):
            raise Refused(
                "bad_arguments",
                f"{', '.join(unseen)} is not in the record of a sent job; leave it out here",
            )
        codec = self.app.maker.codec if handler is None else handler.codec
        return ExpectedJob(kind, handler, codec, arguments, options)

    def _handler(self, kind: str) -> Handler | None:
        function = self.app.registry.find(kind)
        return None if function is None else function.handler


def own_options(job: JobRef) -> dict[str, Any]:
    """The options set by `.options(…)`, without the defaults of the function."""
    if isinstance(job, str):
        return {}
    return {name: value for name in job.option_names if (value := getattr(job.job_options, name)) is not None}


def _kind_of(job: JobRef) -> str:
    if isinstance(job, str):
        return job
    if isinstance(job, JobTemplate):
        return job.function.kind
    raise Refused(
        "bad_job",
        f"expected a job function or the name of a kind; found {bounded_repr(job)}; decorate it with @app.job",
    )


async def _all_dead_letters(store: MemoryStore) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    for tenant in await all_tenants(store):
        for queue in await all_queues(store, tenant):
            found += await _dead_letters(store, queue)
    return sorted(found, key=lambda dead_letter: dead_letter.died_at_ms)


async def _dead_letters(store: MemoryStore, queue: Queue) -> list[DeadLetter]:
    page = await store.dead.list(queue, limit=1_000)
    found = list(page.rows)
    while page.cursor is not None:
        page = await store.dead.list(queue, cursor=page.cursor, limit=1_000)
        found += page.rows
    return found
