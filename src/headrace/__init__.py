"""Headrace: job queues with leases, tenants and a journal, and a data pipeline on Spark."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.app.app import App as App
    from headrace.app.decorators import DeathInfo as DeathInfo
    from headrace.app.job_function import JobFunction as JobFunction
    from headrace.client.blocking import BlockingClient as BlockingClient
    from headrace.client.client import Client as Client
    from headrace.client.codec import JSON as JSON
    from headrace.client.codec import RAW as RAW
    from headrace.client.codec import Codec as Codec
    from headrace.client.handle import Handle as Handle
    from headrace.feeds.blocking import (
        BlockingFeed as BlockingFeed,
    )
    from headrace.feeds.blocking import (
        BlockingFeeds as BlockingFeeds,
    )
    from headrace.feeds.blocking import (
        BlockingItemQueue as BlockingItemQueue,
    )
    from headrace.feeds.blocking import (
        BlockingSortedFeed as BlockingSortedFeed,
    )
    from headrace.feeds.blocking import (
        BlockingSubscription as BlockingSubscription,
    )
    from headrace.feeds.change import Change as Change
    from headrace.feeds.feed import Feed as Feed
    from headrace.feeds.feed import SortedFeed as SortedFeed
    from headrace.feeds.feeds import Feeds as Feeds
    from headrace.feeds.item_queue import ItemQueue as ItemQueue
    from headrace.feeds.queue_events import QueueEvents as QueueEvents
    from headrace.feeds.subscription import Subscription as Subscription
    from headrace.model.claim import (
        Claim as Claim,
    )
    from headrace.model.claim import (
        ClaimRequest as ClaimRequest,
    )
    from headrace.model.claim import (
        Claims as Claims,
    )
    from headrace.model.claim import (
        Lease as Lease,
    )
    from headrace.model.claim import (
        Settlement as Settlement,
    )
    from headrace.model.errors import (
        BadConfig as BadConfig,
    )
    from headrace.model.errors import (
        HeadraceError as HeadraceError,
    )
    from headrace.model.errors import (
        JobCancelled as JobCancelled,
    )
    from headrace.model.errors import (
        JobFailed as JobFailed,
    )
    from headrace.model.errors import (
        OutcomeUnknown as OutcomeUnknown,
    )
    from headrace.model.errors import (
        Refused as Refused,
    )
    from headrace.model.errors import (
        StoreUnavailable as StoreUnavailable,
    )
    from headrace.model.job import Job as Job
    from headrace.model.job import State as State
    from headrace.model.job import UpdateRunAt as UpdateRunAt
    from headrace.model.job import new_job as new_job
    from headrace.model.names import Queue as Queue
    from headrace.model.names import Shard as Shard
    from headrace.model.names import uuid7 as uuid7
    from headrace.model.policy import Policy as Policy
    from headrace.stores.contract.store import Store as Store
    from headrace.stores.open import open_store as open_store
    from headrace.worker.config import WorkerConfig as WorkerConfig
    from headrace.worker.context import Context as Context
    from headrace.worker.context import current as current
    from headrace.worker.exceptions import Fail as Fail
    from headrace.worker.exceptions import Release as Release
    from headrace.worker.exceptions import Retry as Retry
    from headrace.worker.handlers import Handlers as Handlers
    from headrace.worker.handlers import handler_of as handler_of
    from headrace.worker.worker import Worker as Worker
else:
    from headrace._lazy import attach

    __getattr__, __dir__ = attach(__name__)  # a program pays for the names that it uses
