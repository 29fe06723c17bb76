"""The data pipeline on Spark: queues, feeds and the journal as DataFrames, and tables made from them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.progress import lag, lost, skipped
    from headrace.pipeline.start import session
    from headrace.pipeline.write import Written, enqueue, publish, replay

__all__ = ["Written", "enqueue", "lag", "lost", "publish", "replay", "session", "skipped"]

# Loaded when they are asked for: a task that reads a journal needs none of them.
_HOMES = {
    "headrace.pipeline.progress": ("lag", "lost", "skipped"),
    "headrace.pipeline.start": ("session",),
    "headrace.pipeline.write": ("Written", "enqueue", "publish", "replay"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
