"""Headrace: job queues with leases, tenants and a journal, and a data pipeline on Spark."""

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, Settlement
from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.ids import uuid7
from headrace.model.job import Job, State, UpdateRunAt, new_job
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done, Fail, JobError, Outcome, Release, Retry
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

__all__ = [
    "BadConfig",
    "Cancelled",
    "Claim",
    "ClaimRequest",
    "Claims",
    "Done",
    "Fail",
    "HeadraceError",
    "Job",
    "JobError",
    "Lease",
    "Outcome",
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
    "new_job",
    "open_store",
    "uuid7",
]
