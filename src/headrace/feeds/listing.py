"""A feed as the list of a tenant's feeds shows it."""

from typing import TypedDict

from msgspec import Struct

from headrace.model.feed import FeedConfig, FeedType


class Listing(Struct, frozen=True):
    """One line of the list: its name and its configuration."""

    name: str
    config: FeedConfig

    @property
    def type(self) -> FeedType:
        """`feed`, `sorted` or `plain`."""
        return self.config.type


class Settings(TypedDict, total=False):
    """What can be set of a feed; `FeedConfig` says what each means."""

    items_max: int
    items_keep_ms: int
    changes_keep_max: int
    changes_keep_ms: int
    changes_bytes_max: int
