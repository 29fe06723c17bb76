"""Assets for Dagster: the history, its tables and changes, a check by the audit, and a schedule."""

import json
import os
import subprocess
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetSelection,
    Definitions,
    MaterializeResult,
    ScheduleDefinition,
    asset,
    asset_check,
    define_asset_job,
)

COMMAND = os.environ.get("HEADRACE_COMMAND", "headrace")
"""Of this environment or another; HEADRACE_URL and HEADRACE_PIPELINE_DIR say which store and which folder."""


def run(*words: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """What a command of the pipeline says of its run; raises for an exit code that is not expected."""
    done = subprocess.run([COMMAND, "pipeline", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(f"headrace pipeline {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@asset(group_name="headrace")
def history() -> MaterializeResult[None]:
    """Every event of every job, each exactly once."""
    report = run("history", "--once")
    return MaterializeResult(metadata={name: report[name] for name in ("events", "behind", "lost")})


@asset(group_name="headrace", deps=[history])
def tables() -> MaterializeResult[None]:
    """Jobs, attempts, errors, usage and statistics, and the page that shows them."""
    return MaterializeResult(metadata={"report": run("report")["report"]})


@asset(group_name="headrace", deps=[tables])
def changes() -> MaterializeResult[None]:
    """What moved since yesterday."""
    report = run("changes")
    return MaterializeResult(metadata={"rows": report["tables"]["changes"]["rows"], "published": report["items"]})


@asset_check(asset=history)
def audit() -> AssetCheckResult:
    """Whether the store holds what its journal tells."""
    findings = run("audit", codes=(0, 1))["findings"]
    return AssetCheckResult(passed=not findings, metadata={"findings": len(findings)})


hourly = define_asset_job("headrace_hourly", AssetSelection.groups("headrace"))
definitions = Definitions(
    assets=[history, tables, changes],
    asset_checks=[audit],
    schedules=[ScheduleDefinition(job=hourly, cron_schedule="0 * * * *")],
)
