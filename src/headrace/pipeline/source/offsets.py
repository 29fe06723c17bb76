"""Parses offsets as users give them in options, as for Kafka, and as Spark keeps them in checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig, Refused
from headrace.model.times import read_instant_ms
from headrace.model.validate import cut

EARLIEST, LATEST = -2, -1
"""Kafka's numbers for both ends."""


class OffsetLimit(Struct, frozen=True):
    """Where reading begins or ends: at the earliest or latest event, at an instant, or at a seq or instant of each
    journal.

    As with Kafka, a beginning is inclusive and an end exclusive, so that the end of one run is the beginning of the
    next."""

    end: Literal["earliest", "latest"] = "earliest"
    """For the shards and feeds that the other fields do not name."""
    at_ms: int | None = None
    seqs: Mapping[str, int] = {}
    """By `tenant/queue/shard` or `tenant/feed`; -2 is earliest, -1 latest."""
    instants_ms: Mapping[str, int] = {}
    """By the same names, each in one of the two only."""

    @property
    def names(self) -> list[str]:
        """The named shards or feeds."""
        return [*self.seqs, *self.instants_ms]

    @staticmethod
    def parse(option: str, text: str) -> "OffsetLimit":
        """The limit of a text; raises `BadConfig` for an invalid one."""
        if text == "earliest":
            return OffsetLimit("earliest")
        if text == "latest":
            return OffsetLimit("latest")
        if text.startswith("{"):
            # Other shards are read as without the option.
            return _named_limit(option, text, "latest" if option == "endingOffsets" else "earliest")
        try:
            return OffsetLimit(at_ms=read_instant_ms("instant", text))
        except Refused:
            raise _bad_limit(option, text) from None


def _named_limit(option: str, text: str, end: Literal["earliest", "latest"]) -> OffsetLimit:
    try:
        limits = msgspec.json.decode(text, type=dict[str, int | str])
        instants_ms = {
            name: read_instant_ms("instant", value) for name, value in limits.items() if isinstance(value, str)
        }
    except (msgspec.DecodeError, Refused):
        raise _bad_limit(option, text) from None
    seqs = {name: value for name, value in limits.items() if isinstance(value, int)}
    # Digits in quotes are ambiguous, so an instant must be a date here.
    if any(seq < EARLIEST for seq in seqs.values()) or any(
        str(value).isdigit() for value in limits.values() if isinstance(value, str)
    ):
        raise _bad_limit(option, text)
    return OffsetLimit(end, seqs=seqs, instants_ms=instants_ms)


def _bad_limit(option: str, text: str) -> BadConfig:
    return BadConfig(
        f"option {option} is {cut(text)!r}; give earliest, latest, an instant such as 2030-01-31T12:00:00Z or"
        " milliseconds since 1970, or JSON with a seq or an instant for each shard, such as"
        ' {"default/mail/0": 17, "default/news/0": "2030-01-31T12:00:00Z"}'
    )


VERSION = 1


class Versioned(Protocol):
    """An offset with the version of its format."""

    @property
    def v(self) -> int:
        """The version."""


Kind = TypeVar("Kind", bound=Versioned)


def read_offset(stored: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """The offset of a checkpoint; raises `BadConfig` for a foreign one."""
    try:
        offset = msgspec.convert(stored, kind)
    except msgspec.ValidationError:
        offset = None
    if offset is None or offset.v != VERSION:
        raise unknown_form()
    return offset


def unknown_form() -> BadConfig:
    """The refusal of a foreign offset."""
    return BadConfig(
        "the checkpoint was written by another version of Headrace or by another source and cannot be read; use a"
        " new checkpoint, or the version that wrote it"
    )


GO_ON = "or set option failOnDataLoss=false to continue"


def raise_data_loss(sentences: Sequence[str], things: str) -> None:
    """Raise `Refused` with the first of these sentences, if there are any."""
    if sentences:
        more = f" ({len(sentences) - 1:,} more {things} have losses)" if len(sentences) > 1 else ""
        raise Refused("data_loss", sentences[0] + more)
