"""Headrace: job queues with leases, tenants and a journal, and a data pipeline on Spark."""

from typing import TYPE_CHECKING, Any

from headrace.app.app import App
from headrace.app.deaths import DeathError
from headrace.app.function import JobFunction
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.codec import JSON, RAW, Codec
from headrace.client.handle import Handle
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
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.raising import Fail, Release, Retry

if TYPE_CHECKING:
    from headrace.worker.worker import Worker

__all__ = [
    "JSON",
    "RAW",
    "App",
    "BadConfig",
    "BlockingClient",
    "Claim",
    "ClaimRequest",
    "Claims",
    "Client",
    "Codec",
    "Context",
    "DeathError",
    "Fail",
    "Handle",
    "Handlers",
    "HeadraceError",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFunction",
    "Lease",
    "OutcomeUnknown",
    "Policy",
    "Queue",
    "Refused",
    "Release",
    "Retry",
    "Settlement",
    "Shard",
    "State",
    "Store",
    "StoreUnavailable",
    "UpdateRunAt",
    "Worker",
    "WorkerConfig",
    "current",
    "handler_of",
    "new_job",
    "open_store",
    "uuid7",
]


def __getattr__(name: str) -> Any:
    # Programs that only send jobs do not pay for the machinery that runs them.
    if name == "Worker":
        from headrace.worker.worker import Worker

        return Worker
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
