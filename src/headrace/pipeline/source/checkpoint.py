"""Offsets as Spark keeps them in checkpoints: ours are known by their version."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from headrace.model.errors import BadConfig

VERSION = 1


class Versioned(Protocol):
    """An offset with the version of its form."""

    @property
    def v(self) -> int:
        """The version."""


Kind = TypeVar("Kind", bound=Versioned)


def read_offset(told: Mapping[str, Any], kind: type[Kind]) -> Kind:
    """The offset that Spark has kept; `BadConfig` when it is none of this kind."""
    try:
        offset = msgspec.convert(told, kind)
    except msgspec.ValidationError:
        offset = None
    if offset is None or offset.v != VERSION:
        raise unknown_form()
    return offset


def unknown_form() -> BadConfig:
    """The refusal of an offset that is none of ours."""
    return BadConfig(
        "the checkpoint was written by another version of Headrace, or by another source, and cannot be read; use a"
        " new checkpoint, or the version that wrote it"
    )
