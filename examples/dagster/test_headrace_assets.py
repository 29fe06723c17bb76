"""The assets of this folder are materialized from a store with jobs, and the check says what it found."""

import os
import sqlite3

from dagster import materialize
from headrace_assets import audit, changes, definitions, history, hourly, tables


def test_the_assets_are_materialized_and_checked_and_a_broken_store_fails_the_check() -> None:
    sound = materialize([history, tables, changes, audit])
    with sqlite3.connect(os.environ["HEADRACE_URL"].removeprefix("sqlite:///")) as store:
        store.execute("DELETE FROM dead_letter")
    broken = materialize([history, audit])

    facts = {
        each.asset_key.to_user_string(): {name: value.value for name, value in each.materialization.metadata.items()}
        for each in sound.get_asset_materialization_events()
    }
    assert facts["history"]["events"] > 0
    assert facts["changes"]["rows"] == facts["changes"]["published"] > 0
    assert [each.passed for each in (*sound.get_asset_check_evaluations(), *broken.get_asset_check_evaluations())] == [
        True,
        False,
    ]


def test_the_schedule_runs_all_assets() -> None:
    schedule = definitions.get_schedule_def(f"{hourly.name}_schedule")

    assert (schedule.cron_schedule, schedule.job_name) == ("0 * * * *", "headrace_hourly")
