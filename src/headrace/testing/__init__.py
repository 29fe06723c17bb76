"""The testing kit runs a user's handlers with the real worker, on a store in memory, with a clock that the test
moves."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.drain import Drained as Drained
    from headrace.testing.drain import DrainedJob as DrainedJob
    from headrace.testing.drain import JobsFailed as JobsFailed
    from headrace.testing.faults import FaultyStore as FaultyStore
    from headrace.testing.faults import Hold as Hold
    from headrace.testing.kit import AsyncKit as AsyncKit
    from headrace.testing.kit import Kit as Kit
    from headrace.testing.kit import using as using
    from headrace.testing.sent_jobs import SentJob as SentJob
    from headrace.testing.store import KitClock as KitClock
    from headrace.testing.store import KitStore as KitStore
else:
    from headrace._lazy import attach

    # pytest imports the plugin beside this in every run, also in those that test no jobs.
    __getattr__, __dir__ = attach(__name__)
