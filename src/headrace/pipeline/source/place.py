"""Places in journals and feeds as users name them in `startingOffsets` and `endingOffsets`, the way Kafka's are."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig, Refused
from headrace.model.times import read_instant_ms
from headrace.model.validate import cut

EARLIEST, LATEST = -2, -1
"""Kafka's numbers for both ends, where a number is wanted."""


class Place(Struct, frozen=True):
    """Where reading begins or ends: at an end of what is kept, at an instant, or at a seq of each journal.

    As with Kafka, a beginning is included and an end is not: what one run ended with, the next begins with.
    """

    end: Literal["earliest", "latest"] = "earliest"
    """For everything that the other two do not name."""
    at_ms: int | None = None
    seqs: Mapping[str, int] | None = None
    """By `tenant/queue/shard` or `tenant/feed`; -2 is earliest, -1 latest."""

    @staticmethod
    def parse(option: str, text: str) -> "Place":
        """The place that a text names; `BadConfig` when it names none."""
        if text == "earliest":
            return Place("earliest")
        if text == "latest":
            return Place("latest")
        if text.startswith("{"):
            # Who does not name a shard means what holds without the option.
            return Place("latest" if option == "endingOffsets" else "earliest", seqs=_seqs(option, text))
        try:
            return Place(at_ms=read_instant_ms("instant", text))
        except Refused:
            raise _no_place(option, text) from None


def _seqs(option: str, text: str) -> dict[str, int]:
    try:
        seqs = msgspec.json.decode(text, type=dict[str, int])
    except msgspec.DecodeError:
        raise _no_place(option, text) from None
    if any(seq < EARLIEST for seq in seqs.values()):
        raise _no_place(option, text)
    return seqs


def _no_place(option: str, text: str) -> BadConfig:
    return BadConfig(
        f"option {option} is {cut(text)!r}; give earliest, latest, an instant such as 2030-01-31T12:00:00Z or"
        ' milliseconds since 1970, or JSON with a seq for each shard, such as {"default/mail/0": 17}'
    )
