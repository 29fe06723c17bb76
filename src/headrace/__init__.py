"""Headrace: job queues with leases, tenants and a journal, and a data pipeline on Spark."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.app.app import App
    from headrace.app.fail_handler import DeathInfo
    from headrace.app.job_function import JobFunction
    from headrace.client.blocking import BlockingClient
    from headrace.client.client import Client
    from headrace.client.codec import JSON, RAW, Codec
    from headrace.client.handle import Handle
    from headrace.feeds.blocking import (
        BlockingFeed,
        BlockingFeeds,
        BlockingItemQueue,
        BlockingSortedFeed,
        BlockingSubscription,
    )
    from headrace.feeds.change import Change
    from headrace.feeds.feed import Feed
    from headrace.feeds.feeds import Feeds
    from headrace.feeds.item_queue import ItemQueue
    from headrace.feeds.queue_events import QueueEvents
    from headrace.feeds.sorted_feed import SortedFeed
    from headrace.feeds.subscription import Subscription
    from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, Settlement
    from headrace.model.errors import (
        BadConfig,
        HeadraceError,
        JobCancelled,
        JobFailed,
        OutcomeUnknown,
        Refused,
        StoreUnavailable,
    )
    from headrace.model.ids import uuid7
    from headrace.model.job import Job, State, UpdateRunAt, new_job
    from headrace.model.names import Queue, Shard
    from headrace.model.policy import Policy
    from headrace.stores.contract.store import Store
    from headrace.stores.open import open_store
    from headrace.worker.config import WorkerConfig
    from headrace.worker.context import Context, current
    from headrace.worker.exceptions import Fail, Release, Retry
    from headrace.worker.handlers import Handlers, handler_of
    from headrace.worker.worker import Worker

__all__ = [
    "JSON",
    "RAW",
    "App",
    "BadConfig",
    "BlockingClient",
    "BlockingFeed",
    "BlockingFeeds",
    "BlockingItemQueue",
    "BlockingSortedFeed",
    "BlockingSubscription",
    "Change",
    "Claim",
    "ClaimRequest",
    "Claims",
    "Client",
    "Codec",
    "Context",
    "DeathInfo",
    "Fail",
    "Feed",
    "Feeds",
    "Handle",
    "Handlers",
    "HeadraceError",
    "ItemQueue",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFunction",
    "Lease",
    "OutcomeUnknown",
    "Policy",
    "Queue",
    "QueueEvents",
    "Refused",
    "Release",
    "Retry",
    "Settlement",
    "Shard",
    "SortedFeed",
    "State",
    "Store",
    "StoreUnavailable",
    "Subscription",
    "UpdateRunAt",
    "Worker",
    "WorkerConfig",
    "current",
    "handler_of",
    "new_job",
    "open_store",
    "uuid7",
]

# Whoever wants one name pays for that one: a command line starts in a third of the time that all would take.
_HOMES = {
    "headrace.app.app": "App",
    "headrace.app.fail_handler": "DeathInfo",
    "headrace.app.job_function": "JobFunction",
    "headrace.client.blocking": "BlockingClient",
    "headrace.client.client": "Client",
    "headrace.client.codec": "Codec JSON RAW",
    "headrace.client.handle": "Handle",
    "headrace.feeds.blocking": "BlockingFeed BlockingFeeds BlockingItemQueue BlockingSortedFeed BlockingSubscription",
    "headrace.feeds.change": "Change",
    "headrace.feeds.feed": "Feed",
    "headrace.feeds.feeds": "Feeds",
    "headrace.feeds.item_queue": "ItemQueue",
    "headrace.feeds.queue_events": "QueueEvents",
    "headrace.feeds.sorted_feed": "SortedFeed",
    "headrace.feeds.subscription": "Subscription",
    "headrace.model.claim": "Claim ClaimRequest Claims Lease Settlement",
    "headrace.model.errors": "BadConfig HeadraceError JobCancelled JobFailed OutcomeUnknown Refused StoreUnavailable",
    "headrace.model.ids": "uuid7",
    "headrace.model.job": "Job State UpdateRunAt new_job",
    "headrace.model.names": "Queue Shard",
    "headrace.model.policy": "Policy",
    "headrace.stores.contract.store": "Store",
    "headrace.stores.open": "open_store",
    "headrace.worker.config": "WorkerConfig",
    "headrace.worker.context": "Context current",
    "headrace.worker.handlers": "Handlers handler_of",
    "headrace.worker.exceptions": "Fail Release Retry",
    "headrace.worker.worker": "Worker",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            from importlib import import_module

            found = globals()[name] = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
