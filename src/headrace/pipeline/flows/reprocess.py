"""What can be wrong with the wish to do work again, known without Spark."""

import re

from headrace.model.errors import BadConfig
from headrace.model.limits import DURATION_MS_MAX, KIND_CHARS_MAX
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.times import Duration, duration_ms
from headrace.model.validate import check_text, cut

NAME_CHARS_MAX = 80
"""Of the name of a backfill: it is part of every key."""
_BODIES = re.compile(r"\b(payload|headers|result)\b", re.IGNORECASE)


def check_times(delay: Duration, spread: Duration) -> None:
    """Refuse times that are none, or too long together."""
    if duration_ms("delay", delay) + duration_ms("spread", spread) > DURATION_MS_MAX:
        raise BadConfig("delay and spread together are more than a year; make them shorter")


def check_limit(limit: int | None) -> None:
    """Refuse a limit that lets nothing through."""
    if limit is not None and limit < 1:
        raise BadConfig(f"limit is {limit}; give a number from 1 on, or none for all")


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a backfill."""
    if not 1 <= len(name) <= NAME_CHARS_MAX or "/" in name or not name.isprintable():
        raise BadConfig(
            f"name is {cut(name)!r}; give 1 to {NAME_CHARS_MAX} printable characters other than '/', the same ones"
            " when the backfill is run again"
        )


def check_target(to_queue: str | None, to_kind: str | None, keep: Duration) -> None:
    """Refuse what can be no queue and no kind, and jobs that are not known as made for any time."""
    if to_queue is not None:
        _ = Queue.parse(to_queue, DEFAULT_TENANT, 1)
    if to_kind is not None:
        check_text("kind", to_kind, KIND_CHARS_MAX)
    if not duration_ms("keep", keep):
        raise BadConfig("keep is 0; jobs must be known as made for some time, such as 30d")


def names_bodies(sql: str) -> bool:
    """Whether SQL may be about payloads, headers or results, which are read only for who asks."""
    return _BODIES.search(sql) is not None
