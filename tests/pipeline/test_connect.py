"""Spark Connect: a client without Java reads the journal through a server that knows nothing but the package."""

import os
import subprocess
import sys
from pathlib import Path

from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.pipeline.stories import tell, url_of

PATIENCE_S = 120

# A client must be another process: a session of Connect and one of the common kind cannot share one.
CLIENT = """
import sys
from pyspark.sql import SparkSession

_, remote, url = sys.argv
spark = SparkSession.builder.remote(remote).getOrCreate()
journal = spark.read.format("headrace").option("url", url).option("queue", "mail").load()
print(type(journal).__module__, sorted(map(tuple, journal.groupBy("queue", "event").count().collect())))
spark.stop()
"""


def test_a_client_of_spark_connect_reads_the_journal_without_registering_anything(remote: str, tmp_path: Path) -> None:
    """The session of a client is a new one on the server, so that Spark finds the format by itself."""
    mail = Queue("mail")

    async def story(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=mail, id=f"job-{number}", kind="welcome") for number in range(30)])
        await store.jobs.remove(mail, ["job-7"])

    tell(url_of(tmp_path / "headrace.db"), story)
    env = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}

    client = subprocess.run(
        [sys.executable, "-c", CLIENT, remote, url_of(tmp_path / "headrace.db")],
        cwd=tmp_path,
        env={**env, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert client.returncode == 0, client.stderr
    assert client.stdout == ("pyspark.sql.connect.dataframe [('mail', 'enqueued', 30), ('mail', 'removed', 1)]\n")
