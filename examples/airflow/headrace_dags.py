"""Two DAGs for Airflow: history, tables and changes each hour, and compaction and an audit each night."""

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG

PIPELINE = os.environ.get("HEADRACE_COMMAND", "headrace") + " pipeline"
"""The command, which may be of another environment than Airflow's. HEADRACE_URL and HEADRACE_PIPELINE_DIR say which
store and which folder."""
COMMON: dict[str, Any] = {
    "start_date": datetime(2025, 1, 1, tzinfo=UTC),
    "catchup": False,  # one run takes all that is new, however long ago the last one was
    "max_active_runs": 1,
    "default_args": {"retries": 2, "retry_delay": timedelta(minutes=1)},  # every command may be run again
}


def has_events(report: str) -> bool:
    """Whether the history got any; if not, what follows is skipped."""
    return bool(json.loads(report)["events"])


with DAG("headrace_hourly", schedule="@hourly", **COMMON) as hourly:
    history = BashOperator(task_id="history", bash_command=f"{PIPELINE} history --once --json")
    news = ShortCircuitOperator(task_id="news", python_callable=has_events, op_args=[history.output])
    tables = BashOperator(task_id="tables", bash_command=f"{PIPELINE} report --json")
    changes = BashOperator(task_id="changes", bash_command=f"{PIPELINE} changes --json")
    freshness = BashOperator(task_id="freshness", bash_command=f"{PIPELINE} freshness --behind-max 100000 --json")
    history >> news >> tables >> changes
    history >> freshness

with DAG("headrace_nightly", schedule="30 3 * * *", **COMMON) as nightly:
    compact = BashOperator(task_id="compact", bash_command=f"{PIPELINE} compact --json")
    # Fails when something does not add up: its exit code is 1 then, and the table findings says what.
    audit = BashOperator(task_id="audit", bash_command=f"{PIPELINE} audit --json", retries=0)
    compact >> audit
