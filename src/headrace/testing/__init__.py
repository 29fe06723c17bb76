"""The testing kit: a user's own handlers run by the real worker on a store in memory, with a clock that is moved."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.clock import KitClock
    from headrace.testing.drain import Drained, DrainedJob, JobsFailed
    from headrace.testing.faults import FaultyStore, Hold
    from headrace.testing.kit import AsyncKit, Kit, using
    from headrace.testing.sent_jobs import SentJob
    from headrace.testing.store import KitStore

__all__ = [
    "AsyncKit",
    "Drained",
    "DrainedJob",
    "FaultyStore",
    "Hold",
    "JobsFailed",
    "Kit",
    "KitClock",
    "KitStore",
    "SentJob",
    "using",
]

_ROOMS = {
    "AsyncKit": "kit",
    "Drained": "drain",
    "DrainedJob": "drain",
    "FaultyStore": "faults",
    "Hold": "faults",
    "JobsFailed": "drain",
    "Kit": "kit",
    "KitClock": "clock",
    "KitStore": "store",
    "SentJob": "sent_jobs",
    "using": "kit",
}


def __getattr__(name: str) -> Any:
    # pytest imports the plugin beside this in every run, also in those that test no jobs.
    if name in _ROOMS:
        from importlib import import_module

        return getattr(import_module(f"headrace.testing.{_ROOMS[name]}"), name)
    raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
