"""The public names, and the cost of importing them."""

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

import headrace
from headrace.model import outcome
from headrace.worker import exceptions

NAMES = {
    "headrace": """
        App BadConfig BlockingClient BlockingFeed BlockingFeeds BlockingItemQueue BlockingSortedFeed
        BlockingSubscription Change Claim ClaimRequest Claims Client Codec Context DeathInfo Fail Feed Feeds Handle
        Handlers HeadraceError ItemQueue JSON Job JobCancelled JobFailed JobFunction Lease OutcomeUnknown Policy Queue
        QueueEvents RAW Refused Release Retry Settlement Shard SortedFeed State Store StoreUnavailable Subscription
        UpdateRunAt Worker WorkerConfig current handler_of new_job open_store uuid7
        """,
    "headrace.testing": """
        AsyncKit Drained DrainedJob FaultyStore Hold JobsFailed Kit KitClock KitStore SentJob using
        """,
    "headrace.pipeline": """
        BackfillReport DataDir Events FleetProgress FleetReport IngestReport MapReport Mapping QueryMetrics ReplayReport
        Written backfill_jobs compact enqueue follow_history follow_rows follow_stats ingest_rows lag lost map_rows
        payloads publish read_history read_ingest_report read_refused read_source read_stats replay replay_dead_letters
        run_fleet serve_metrics session skipped views write_errors write_jobs write_report write_stats write_tables
        write_usage
        """,
    "headrace.pipeline.audit": "audit",
}
"""All that is exported: a name that comes, goes or changes shows here."""

ERRORS = """
    BadConfig Fail HeadraceError JobCancelled JobFailed JobsFailed OutcomeUnknown Refused Release Retry
    StoreUnavailable
"""
PRIVATE_WORDS = {"asked", "built", "given", "held", "made", "meant", "said", "told", "wrapping"}
"""Participles say neither what a function does nor what it returns."""


def exported(package: str) -> dict[str, Any]:
    """The names of a package with what they stand for."""
    module = import_module(package)
    return {name: getattr(module, name) for name in module.__all__}


@pytest.mark.parametrize("package", NAMES)
def test_the_public_names_are_these_and_can_be_seen(package: str) -> None:
    names = exported(package)

    assert list(names) == NAMES[package].split()
    assert set(names) <= set(dir(import_module(package)))


@pytest.mark.parametrize("package", NAMES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'Wroker'"):
        getattr(import_module(package), "Wroker")  # noqa: B009 - a type checker refuses it otherwise


def test_what_ends_in_error_is_an_exception_and_these_are_all() -> None:
    names = {name: value for package in NAMES for name, value in exported(package).items()}
    exceptions = {name for name, value in names.items() if inspect.isclass(value) and issubclass(value, BaseException)}

    assert exceptions == set(ERRORS.split())
    assert {name for name in names if name.endswith("Error")} <= exceptions


def test_no_public_name_or_method_is_a_private_word() -> None:
    names = {name: value for package in NAMES for name, value in exported(package).items()}
    methods = {
        f"{name}.{method}"
        for name, value in names.items()
        if inspect.isclass(value)
        for method in dir(value)
        if method in PRIVATE_WORDS
    }

    assert PRIVATE_WORDS & set(names) == set()
    assert methods == set()


def test_exceptions_of_handlers_are_public_and_outcomes_of_stores_are_not() -> None:
    assert (headrace.Retry, headrace.Fail, headrace.Release) == (exceptions.Retry, exceptions.Fail, exceptions.Release)
    assert [name for name in ("Done", "Cancelled", "Outcome", "JobError") if hasattr(headrace, name)] == []
    assert not issubclass(headrace.Retry, outcome.Retried)


def imported(program: str) -> list[str]:
    """The modules that are there after a program has run."""
    run = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()


def test_importing_brings_no_driver_and_nothing_that_only_workers_need() -> None:
    """The machinery of processes, the drivers and their libraries come with their first use."""
    modules = imported(
        "from headrace import App, BlockingClient, Client, Handlers, Policy, Queue, WorkerConfig, open_store"
    )

    unwanted = {"multiprocessing", "sqlite3", "hiredis", "psycopg", "pyspark", "headrace.worker.worker"}
    assert {"headrace.app.app", "headrace.client.blocking", "headrace.stores.open"} <= set(modules)
    assert unwanted & set(modules) == set()
    assert [name for name in modules if name.startswith("headrace.stores.") and name.split(".")[2] in _DRIVERS] == []


def test_the_package_itself_costs_nothing_and_each_name_brings_its_own() -> None:
    bare, error = imported("import headrace"), imported("from headrace import Refused")

    assert [name for name in bare if name.startswith("headrace.")] == ["headrace._lazy"]
    assert [name for name in error if name.startswith("headrace.")] == [
        "headrace._lazy",
        "headrace.model",
        "headrace.model.errors",
    ]
    assert "ast" not in bare


_DRIVERS = {"memory", "sqlite", "redis", "postgres"}
