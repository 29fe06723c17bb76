"""Compares the jobs that were sent with the one that a test wants, and says how they differ."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from headrace.client.codec import Codec
from headrace.client.options import OptionFields, Options
from headrace.model.errors import Refused
from headrace.model.limits import PRIORITY_DEFAULT
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr, cut, nearest
from headrace.testing.sent import SentJob, parameters, takes_any
from headrace.worker.handlers import Handler

UNSEEN = frozenset(
    ("shards", "idempotency_key", "idempotency_ttl", "update_payload", "update_run_at", "update_policy", "reset_counts")
)
"""Options that steer an enqueue and leave no trace in the job."""
OPTIONS = frozenset(OptionFields.__annotations__) - UNSEEN
MISSING = object()


class Difference(Struct, frozen=True):
    """Where a job is not the wanted one."""

    what: str
    found: object
    wanted: object

    def __str__(self) -> str:
        found = "is not there" if self.found is MISSING else f"is {cut(repr(self.found))}"
        return f"{self.what} {found}, wanted {cut(repr(self.wanted))}"


class Wanted:
    """A job as a test describes it: its kind, some of its arguments, some of its options."""

    def __init__(
        self, kind: str, handler: Handler | None, codec: Codec, arguments: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self.kind = kind
        self.arguments = dict(arguments)
        self.options = dict(options)
        self._handler = handler
        self._codec = codec
        # Made of the same options as a job, so that "5m" and 300 are the same.
        given = Options(**{name: value for name, value in options.items() if name not in ("queue", "tenant")})
        self._job = given.job(kind, b"", tenant_default="any", queue_default="any", fresh_id=lambda: "any")

    def __str__(self) -> str:
        said = [f"{name}={cut(repr(value))}" for name, value in (self.arguments | self.options).items()]
        return f"{self.kind}({', '.join(said)})"

    def differences(self, sent: SentJob) -> list[Difference]:
        """What is not as wanted; empty when the job is the one."""
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
            # As it travels: a tuple is a list, an instant a text, a dataclass an object.
            return bool(codec.decode(codec.encode(found)) == codec.decode(codec.encode(wanted)))
        except Refused:
            return bool(found == wanted)  # something that only compares, such as mock.ANY

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
    """The arguments as the handler sees them, with the defaults of those that were not sent."""
    if handler is None:
        payload = sent.arguments["payload"]
        return {**payload, "payload": payload} if isinstance(payload, dict) else sent.arguments
    defaults = {
        name: each.default for name, each in parameters(handler).items() if each.default is not inspect.Parameter.empty
    }
    return defaults | sent.arguments


def divided(
    handler: Handler | None, args: Sequence[Any], kwargs: Mapping[str, Any], others: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of a test's words are arguments of the function, and what is said about the job.

    A name that the function has is its argument; `others` are the words about the job. Anything else is refused: a
    wrong name would make a test pass that says nothing.
    """
    names = [] if handler is None else list(parameters(handler))
    if handler is None and args:
        return {"payload": args[0]}, dict(kwargs)
    if len(args) > len(names):
        raise Refused(
            "bad_arguments",
            f"{_shown(handler)} takes {len(names)} arguments; found {len(args)} without a name",
        )
    by_place = dict(zip(names, args, strict=False))
    arguments, said = dict(by_place), {}
    for name, value in kwargs.items():
        if name in by_place:
            raise Refused(
                "bad_arguments", f"the argument {bounded_repr(name)} of {_shown(handler)} was given twice; give it once"
            )
        if name in names or (name not in others and (handler is None or takes_any(handler))):
            arguments[name] = value
        elif name in others:
            said[name] = value
        else:
            near = nearest(name, [*names, *sorted(others)])
            hint = f"; did you mean {near!r}?" if near else f"; said of a job can be {', '.join(sorted(others))}"
            raise Refused("bad_arguments", f"{_shown(handler)} has no argument {bounded_repr(name)}{hint}")
    return arguments, said


def _shown(handler: Handler | None) -> str:
    return "the job" if handler is None else str(handler.arguments)


def _policy(policy: Any, name: str) -> object:
    fields = asdict(policy)
    renamed = {"backoff_max": "backoff_ms_max"}.get(name, name if name in fields else f"{name}_ms")
    value = fields[renamed]
    return PRIORITY_DEFAULT if name == "priority" and value is None else value
