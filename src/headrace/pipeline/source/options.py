"""Parses and checks the options of `format("headrace")` when a query is planned."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName
from headrace.model.limits import ID_CHARS_MAX, KEY_KEEP_MS, KIND_CHARS_MAX, PARTITIONS_MAX, SHARDS_MAX
from headrace.model.names import DEFAULT_TENANT, Queue, check_tenant
from headrace.model.redact import redact_url
from headrace.model.times import duration_ms
from headrace.model.validate import cut
from headrace.pipeline.source.offsets import OffsetLimit
from headrace.pipeline.source.store_access import check_url

ALL = "*"
What = Literal["journal", "jobs", "results", "dead", "feed"]
WHATS: tuple[str, ...] = get_args(What)
EVENTS_PER_TRIGGER_MAX = 2**53
EVENTS_PER_PARTITION = 250_000
"""About half a second of reading, against the 60 ms that a Python task costs Spark; little to repeat after a
failure."""
TRIGGER_DELAY_MS = 900_000
"""Kafka's default of maxTriggerDelay."""

_COMMON = ("url", "what", "tenant")
_PARTITIONS = ("minPartitions", "maxEventsPerPartition")
_QUEUES = ("queue", "queuePattern")
_MAX, _MIN = ("maxEventsPerTrigger", "maxOffsetsPerTrigger"), ("minEventsPerTrigger", "minOffsetsPerTrigger")
_STREAMED = ("columns", "startingOffsets", *_MAX, *_MIN, "maxTriggerDelay", "failOnDataLoss")
_READ: dict[str, tuple[str, ...]] = {
    "journal": (*_QUEUES, *_STREAMED, "payloads", "endingOffsets", *_PARTITIONS),
    "jobs": (*_QUEUES, "columns", "payloads", *_PARTITIONS),
    "results": (*_QUEUES, *_STREAMED, *_PARTITIONS),
    "dead": (*_QUEUES, "columns", "payloads", *_PARTITIONS),
    "feed": ("feed", *_STREAMED),
}
_WRITE: dict[str, tuple[str, ...]] = {
    "jobs": ("queue", "shards", "kind", "name", "keyTtl", "refusals", "refusedDir", "report", "run"),
    "dead": ("queue", "keepCounts", "delay", "spread", "refusals", "report", "run"),
    "feed": ("feed", "refusals", "report", "run"),
}
_OF_SPARK = ("checkpointlocation", "path", "queryname")
"""Options that Spark itself passes to the sink of a stream."""


class SourceOptions(Struct, frozen=True, kw_only=True):
    """The options of a read."""

    url: str
    what: What = "journal"
    tenant: str = DEFAULT_TENANT
    """A name, or `*` for all."""
    names: tuple[str, ...] = ()
    """Names of queues (fail queues end in `.fail`) or feeds; empty for all."""
    pattern: str | None = None
    """A regular expression for the whole name of a queue, instead of `names`."""
    columns: tuple[str, ...] = ()
    """The columns in their order; empty for all."""
    payloads: bool = False
    """Whether to read payloads, headers and results, too; the default for jobs and dead letters."""
    starting: OffsetLimit | None = None
    """None means earliest."""
    ending: OffsetLimit | None = None
    events_max: int | None = None
    """The most events in a batch of a stream."""
    events_min: int | None = None
    """The events that a batch of a stream waits for, up to `trigger_delay_ms` after the last batch."""
    trigger_delay_ms: int = TRIGGER_DELAY_MS
    fails_on_loss: bool = True
    partitions_min: int = 1
    partition_events_max: int = EVENTS_PER_PARTITION
    """The approximate number of events or records of a task."""

    def __repr__(self) -> str:
        return _redacted(self)

    def selects(self, name: str) -> bool:
        """Whether a queue or a feed of this name is read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name) is not None
        return not self.names or name in self.names

    @staticmethod
    def parse(settings: Mapping[str, str]) -> "SourceOptions":
        """The options of a read; raises `BadConfig` for invalid ones."""
        options, what = _known_options(settings, _READ, "journal", "read")
        tenant = options.get("tenant", DEFAULT_TENANT)
        if tenant != ALL:
            check_tenant(tenant)
        name_option = "feed" if what == "feed" else "queue"
        if "queue" in options and "queuepattern" in options:
            raise BadConfig("options queue and queuePattern both select the queues; give one of them")
        events_max, events_min = _trigger_events(_MAX, options), _trigger_events(_MIN, options)
        if events_min is None and "maxtriggerdelay" in options:
            raise BadConfig("option maxTriggerDelay bounds the wait for minEventsPerTrigger; give both")
        if events_min is not None and events_max is not None and events_min > events_max:
            raise BadConfig(
                f"option minEventsPerTrigger is {events_min:,} and maxEventsPerTrigger {events_max:,}; lower the"
                " minimum"
            )
        return SourceOptions(
            url=check_url(options.get("url", "")),
            what=what,  # type: ignore[arg-type]  # checked against the table of reads
            tenant=tenant,
            names=_names(name_option, options.get(name_option, ALL)),
            pattern=_pattern("queuePattern", options["queuepattern"]) if "queuepattern" in options else None,
            columns=_list("columns", options["columns"]) if "columns" in options else (),
            payloads=_flag("payloads", options.get("payloads", "true" if what in ("jobs", "dead") else "false")),
            starting=_limit("startingOffsets", options),
            ending=_limit("endingOffsets", options),
            events_max=events_max,
            events_min=events_min,
            trigger_delay_ms=duration_ms("maxTriggerDelay", options.get("maxtriggerdelay", "15m")),
            fails_on_loss=_flag("failOnDataLoss", options.get("failondataloss", "true")),
            partitions_min=_number("minPartitions", options.get("minpartitions", "1"), PARTITIONS_MAX),
            partition_events_max=_number(
                "maxEventsPerPartition",
                options.get("maxeventsperpartition", str(EVENTS_PER_PARTITION)),
                EVENTS_PER_TRIGGER_MAX,
            ),
        )


class WriteOptions(Struct, frozen=True, kw_only=True):
    """The options of a write; the columns of a row override them."""

    url: str
    what: What
    tenant: str = DEFAULT_TENANT
    name: str | None = None
    """The queue or feed of rows that name none."""
    shards: int | None = None
    """Shards of new queues; None means one."""
    kind: str | None = None
    """The kind of rows that name none."""
    key_space: str = "spark"
    """The namespace of the rows' keys: option `name`."""
    key_keep_ms: int = KEY_KEEP_MS
    """How long keys are remembered."""
    keep_counts: bool = False
    delay_ms: int = 0
    spread_ms: int = 0
    fails_on_refusal: bool = True
    refused_dir: str | None = None
    """The folder for refused rows; None drops them."""
    report: str | None = None
    """The feed for the counts of each write."""
    run: str | None = None
    """The id of the counts in the feed; None generates one. A stream names each batch itself."""

    def __repr__(self) -> str:
        return _redacted(self)

    @staticmethod
    def parse(settings: Mapping[str, str]) -> "WriteOptions":
        """The options of a write; `BadConfig` with a sentence to act on when they make no sense."""
        options, what = _known_options(settings, _WRITE, "jobs", "write")
        tenant = options.get("tenant", DEFAULT_TENANT)
        check_tenant(tenant)
        name_option = "feed" if what == "feed" else "queue"
        name = options.get(name_option)
        if name is not None:
            # Refuses invalid names, with the usual errors.
            _ = FeedName(name, tenant) if what == "feed" else Queue.parse(name, tenant, 1)
        if "report" in options:
            _ = FeedName(options["report"], tenant)
        return WriteOptions(
            url=check_url(options.get("url", "")),
            what=what,  # type: ignore[arg-type]  # looked up in the table of what can be written
            tenant=tenant,
            name=name,
            shards=_number("shards", options["shards"], SHARDS_MAX) if "shards" in options else None,
            kind=_text("kind", options["kind"], KIND_CHARS_MAX) if "kind" in options else None,
            key_space=_text("name", options.get("name", "spark"), 100),
            key_keep_ms=duration_ms("keyTtl", options["keyttl"]) if "keyttl" in options else KEY_KEEP_MS,
            keep_counts=_flag("keepCounts", options.get("keepcounts", "false")),
            delay_ms=duration_ms("delay", options.get("delay", "0s")),
            spread_ms=duration_ms("spread", options.get("spread", "0s")),
            fails_on_refusal=_choice("refusals", options.get("refusals", "fail"), ("fail", "count")) == "fail",
            refused_dir=_folder("refusedDir", options["refuseddir"]) if "refuseddir" in options else None,
            report=options.get("report"),
            run=_text("run", options["run"], ID_CHARS_MAX) if "run" in options else None,
        )


def _redacted(options: SourceOptions | WriteOptions) -> str:
    # The URL may hold a password, which a debugger or a log would show.
    fields = {**asdict(options), "url": redact_url(options.url)}
    return f"{type(options).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def _known_options(
    settings: Mapping[str, str], table: Mapping[str, tuple[str, ...]], default: str, verb: str
) -> tuple[dict[str, str], str]:
    """The options by lower-case names, and `what`; refuses unknown ones."""
    options = {name.lower(): value.strip() for name, value in settings.items()}
    what = options.get("what", default)
    if what not in table:
        can = ", ".join(table)
        also = "; it can only be read" if verb == "write" and what in WHATS else ""
        raise BadConfig(f"option what is {cut(what)!r}, which format headrace cannot {verb}{also}; give one of {can}")
    known = (*_COMMON, *table[what])
    lowered = {name.lower() for name in known} | (set(_OF_SPARK) if verb == "write" else set())
    for name in settings:
        if name.lower() not in lowered:
            raise BadConfig(
                f"format headrace has no option {cut(name)!r} to {verb} {what}; known options: {', '.join(known)}"
            )
    return options, what


def _names(option: str, text: str) -> tuple[str, ...]:
    if text == ALL:
        return ()
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names or ALL in names:
        raise BadConfig(f"option {option} is {cut(text)!r}; give a name, several names with commas between them, or *")
    return tuple(dict.fromkeys(names))


def _pattern(option: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadConfig(
            f"option {option} is {cut(text)!r}, which is not a valid regular expression ({error}); give one that"
            " matches whole names, such as mail-.*"
        ) from None
    return text


def _list(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names or len(set(names)) < len(names):
        raise BadConfig(f"option {option} is {cut(text)!r}; give names with commas between them, each once")
    return names


def _limit(option: str, options: Mapping[str, str]) -> OffsetLimit | None:
    text = options.get(option.lower())
    return None if text is None else OffsetLimit.parse(option, text)


def _trigger_events(names: Sequence[str], options: Mapping[str, str]) -> int | None:
    texts = [options[name.lower()] for name in names if name.lower() in options]
    if len(texts) > 1:
        raise BadConfig(f"options {' and '.join(names)} mean the same; give one of them")
    return _number(names[0], texts[0], EVENTS_PER_TRIGGER_MAX) if texts else None


def _flag(option: str, text: str) -> bool:
    return _choice(option, text.lower(), ("true", "false")) == "true"


def _choice(option: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise BadConfig(f"option {option} is {cut(text)!r}; give {' or '.join(choices)}")
    return text


def _text(option: str, text: str, chars_max: int) -> str:
    if not 1 <= len(text) <= chars_max:
        raise BadConfig(f"option {option} is {cut(text)!r}; give 1 to {chars_max} characters")
    return text


def _folder(option: str, text: str) -> str:
    if "://" in text or not Path(text).is_absolute():
        raise BadConfig(
            f"option {option} is {cut(text)!r}; give a folder by its whole path (/data/refused), which the driver and"
            " all executors see"
        )
    return text


def _number(option: str, text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise BadConfig(f"option {option} is {cut(text)!r}; give a whole number from 1 to {most:,}")
    return int(text)
