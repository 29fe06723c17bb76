"""Settings of a queue, each beside its default, and the changes that people write: `timeout=30s`, `paused=true`."""

from collections.abc import Sequence

from msgspec import Struct

from headrace.cli.parse import read_settings, value_text
from headrace.model.names import Queue
from headrace.model.queue_config import SETTABLE, QueueConfig, first_config


class Setting(Struct, frozen=True):
    """One setting beside its default."""

    name: str
    value: bool | int
    default: bool | int

    @property
    def differs(self) -> bool:
        """Whether somebody has changed it."""
        return self.value != self.default

    @property
    def text(self) -> str:
        """The value for people."""
        return value_text(self.name, self.value)

    @property
    def default_text(self) -> str:
        """The default for people."""
        return value_text(self.name, self.default)


def settings_of(queue: Queue, config: QueueConfig) -> list[Setting]:
    """All settings of a queue, each beside what the queue started with."""
    default = first_config(queue)
    return [Setting(field, getattr(config, field), getattr(default, field)) for field in SETTABLE]


def read_changes(written: Sequence[str]) -> dict[str, bool | int]:
    """The changes that `key=value` texts ask for; refuses unknown keys, and a key that is there twice."""
    default = QueueConfig()
    return read_settings("queues", {field: getattr(default, field) for field in SETTABLE}, written)
