"""What the progress of a streaming query says about the journals and feeds that it follows."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Progress = Mapping[str, Any] | str
"""`query.lastProgress`, the `progress` of a listener's event, or the JSON of either."""


def lag(progress: Progress) -> int:
    """By how many events (or changes of feeds) a query was behind after its batch; 0 at the head.

    Over all sources of `format("headrace")`; others do not count. Spark tells progress after a batch, and every ten
    seconds while a query is idle: an old one says what was true then. Of a batch that is run again after a restart
    it tells nothing, which counts as 0.
    """
    return sum(int(latest["lag"]) for _, latest in _ours(progress))


def skipped(progress: Progress) -> int:
    """How many events were dropped before they were read, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("skipped", 0)) for end, _ in _ours(progress))


def lost(progress: Progress) -> int:
    """How many events were read that the store no longer knows, since the checkpoint began (`failOnDataLoss=false`)."""
    return sum(int(end.get("lost", 0)) for end, _ in _ours(progress))


def _ours(progress: Progress) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Where the batch ended and what was there, of each source that is ours."""
    told: Mapping[str, Any] = json.loads(progress) if isinstance(progress, str) else progress
    for source in told.get("sources", ()):
        latest = _offset(source.get("latestOffset"))
        if "lag" in latest:
            yield _offset(source.get("endOffset")), latest


def _offset(told: object) -> Mapping[str, Any]:
    """An offset, which is JSON in the progress that Python gives and part of it in the progress's own JSON."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    return told if isinstance(told, Mapping) else {}
