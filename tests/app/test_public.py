"""The names that users import: which there are, and what importing them costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.model import outcome
from headrace.worker import exceptions

NAMES = """
JSON RAW App BadConfig BlockingClient BlockingFeed BlockingFeeds BlockingItemQueue BlockingSortedFeed
BlockingSubscription Change Claim ClaimRequest Claims Client Codec Context DeathInfo Fail Feed Feeds Handle Handlers
HeadraceError ItemQueue Job JobCancelled JobFailed JobFunction Lease OutcomeUnknown Policy Queue QueueEvents Refused
Release Retry Settlement Shard SortedFeed State Store StoreUnavailable Subscription UpdateRunAt Worker WorkerConfig
current handler_of new_job open_store uuid7
"""


def test_the_public_names_are_these() -> None:
    assert headrace.__all__ == NAMES.split()
    assert [name for name in headrace.__all__ if not hasattr(headrace, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'Wroker'"):
        _ = headrace.Wroker


def test_what_handlers_raise_is_public_and_what_stores_are_told_is_not() -> None:
    assert (headrace.Retry, headrace.Fail, headrace.Release) == (exceptions.Retry, exceptions.Fail, exceptions.Release)
    assert [name for name in ("Done", "Cancelled", "Outcome", "JobError") if hasattr(headrace, name)] == []
    assert not issubclass(headrace.Retry, outcome.Retried)


def imported(program: str) -> list[str]:
    """The modules that are there after a program has run."""
    told = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.split()


def test_importing_brings_no_driver_and_nothing_that_only_workers_need() -> None:
    """The machinery of processes, the drivers and their libraries come when they are asked for."""
    told = imported(
        "from headrace import App, BlockingClient, Client, Handlers, Policy, Queue, WorkerConfig, open_store"
    )

    unwanted = {"multiprocessing", "sqlite3", "hiredis", "psycopg", "pyspark", "headrace.worker.worker"}
    assert {"headrace.app.app", "headrace.client.blocking", "headrace.stores.open"} <= set(told)
    assert unwanted & set(told) == set()
    assert [name for name in told if name.startswith("headrace.stores.") and name.split(".")[2] in _DRIVERS] == []


def test_the_package_itself_costs_nothing_and_each_name_brings_its_own() -> None:
    bare, error = imported("import headrace"), imported("from headrace import Refused")

    assert [name for name in bare if name.startswith("headrace.")] == []
    assert [name for name in error if name.startswith("headrace.")] == ["headrace.model", "headrace.model.errors"]


def test_all_names_can_be_seen_and_are_what_type_checkers_are_told() -> None:
    homes = {name: home for home, names in headrace._HOMES.items() for name in names.split()}
    source = ast.parse(Path(headrace.__file__).read_text())
    told = {
        alias.name: node.module
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("headrace.")
        for alias in node.names
    }

    assert homes == told
    assert sorted(homes) == sorted(headrace.__all__)
    assert set(headrace.__all__) <= set(dir(headrace))


_DRIVERS = {"memory", "sqlite", "redis", "postgres"}
