"""The names that users import: which there are, and what importing them costs."""

import subprocess
import sys

import pytest

import headrace
from headrace.model import outcome
from headrace.worker import raising

NAMES = """
JSON RAW App BadConfig BlockingClient Claim ClaimRequest Claims Client Codec Context DeathError Fail Handle Handlers
HeadraceError Job JobCancelled JobFailed JobFunction Lease OutcomeUnknown Policy Queue Refused Release Retry Settlement
Shard State Store StoreUnavailable UpdateRunAt Worker WorkerConfig current handler_of new_job open_store uuid7
"""


def test_the_public_names_are_these() -> None:
    assert headrace.__all__ == NAMES.split()
    assert [name for name in headrace.__all__ if not hasattr(headrace, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'Wroker'"):
        _ = headrace.Wroker


def test_what_handlers_raise_is_public_and_what_stores_are_told_is_not() -> None:
    assert (headrace.Retry, headrace.Fail, headrace.Release) == (raising.Retry, raising.Fail, raising.Release)
    assert [name for name in ("Done", "Cancelled", "Outcome", "JobError") if hasattr(headrace, name)] == []
    assert not issubclass(headrace.Retry, outcome.Retry)


def test_importing_brings_no_driver_and_nothing_that_only_workers_need() -> None:
    """The machinery of processes, the drivers and their libraries come when they are asked for."""
    program = "import sys, headrace; print(*sorted(sys.modules))"

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    unwanted = {"multiprocessing", "sqlite3", "hiredis", "psycopg", "pyspark", "headrace.worker.worker"}
    assert unwanted & set(told) == set()
    assert [name for name in told if name.startswith("headrace.stores.") and name.split(".")[2] in _DRIVERS] == []


_DRIVERS = {"memory", "sqlite", "redis", "postgres"}
