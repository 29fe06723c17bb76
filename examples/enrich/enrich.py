"""Enrich a table through a slow and flaky HTTP service: rows become jobs, Spark's executors do them, failures are put
right and replayed, and the answers are a table again.

    python enrich.py [--rows 100000] [--url redis://127.0.0.1:6379/0] [--folder /data/enrich]

Run it twice with the same --url and --folder: the second run finds everything done, and asks the service nothing.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace import open_store
from headrace.pipeline import MapReport, map_rows, replay_dead_letters, session

NAME = "enrich"
COUNTRIES = ("DK", "EE", "FI", "NO", "SE", *("DE", "FR", "GB", "IT", "PL") * 3)
"""One customer in twenty is Norwegian, and the register of Norway is closed at first."""
RESULT = "company string, industry string, employees int"


def main(arguments: Sequence[str] | None = None) -> None:
    """From the rows to the table."""
    asked = _asked(arguments)
    with _service(asked.rate) if asked.service is None else nullcontext(asked.service) as service:
        # Each worker asks a little more than its share, to show that it slows down when it is told to.
        share = asked.rate * 1.2 / asked.workers
        settings = {"spark.executorEnv.ENRICH_SERVICE": service, "spark.executorEnv.ENRICH_RATE": str(share)}
        run(session("enrich", asked.master, **settings), asked, service)


def run(spark: SparkSession, asked: argparse.Namespace, service: str) -> None:
    """All of it, on a Spark whose executors know where the service is."""
    folder, url = asked.folder, asked.url or f"sqlite:///{asked.folder}/jobs.db"
    asyncio.run(_made(url))
    customers = customers_in(spark, folder / "customers", asked.rows)

    print(f"1. Each of {asked.rows:,} customers is a job, and a fleet of {asked.workers} workers asks the register.")
    found = mapped(customers, asked.workers, url, folder)
    _tell(found)

    print("2. What died, by SQL.")
    dead = spark.read.format("headrace").options(url=url, what="dead", queue=found.queue.name).load()
    dead.createOrReplaceTempView("dead")
    spark.sql(
        "SELECT reason, error_class, parse_json(payload):country::string = "
        "'NO' AS from_norway, count(*) AS dead_letters,"
        " min(error_message) AS message FROM dead GROUP BY ALL ORDER BY dead_letters DESC"
    ).show(truncate=False)

    print("3. The register of Norway is open again. What had used up its attempts is replayed, a hundred a second.")
    _ask(service, "POST", "/registers/NO/open")
    worn_out = "reason = 'attempts'"  # and not 'failed', of which the job itself said that there is no hope
    seen = replay_dead_letters(spark, url, worn_out, queue=found.queue.name, dry_run=True)
    print(f"   {seen}")
    print(f"   {replay_dead_letters(spark, url, worn_out, queue=found.queue.name, spread=seen.found / 100)}")

    print("4. The same call again goes on: nothing that is done is asked for a second time.")
    found = mapped(customers, asked.workers, url, folder)
    _tell(found)

    print(f"5. The table, in {folder}/enriched.")
    enriched = customers.join(found.frame, "customer_id", "left").select(
        *customers.columns, "result.*", "outcome", "error_message"
    )
    enriched.write.mode("overwrite").parquet(str(folder / "enriched"))
    table = spark.read.parquet(str(folder / "enriched"))
    table.createOrReplaceTempView("enriched")
    spark.sql(
        "SELECT industry, count(*) AS customers, round(avg(employees)) AS employees, min(error_message) AS error"
        " FROM enriched GROUP BY industry ORDER BY industry NULLS LAST"
    ).show(truncate=False)
    print(f"   The register has answered {_ask(service, 'GET', '/figures')}.")
    _check(found, table, asked.rows)


def customers_in(spark: SparkSession, folder: Path, rows: int) -> DataFrame:
    """The table to enrich; made here, where yours would be read. One row in a hundred has no domain worth the name."""
    countries = ", ".join(repr(each) for each in COUNTRIES)
    made = spark.range(1, rows + 1).selectExpr(
        "id AS customer_id",
        "concat('Customer ', id) AS name",
        "CASE id % 100 WHEN 7 THEN 'n-a' ELSE concat('mill', id, '.example') END AS domain",
        f"array({countries})[id % {len(COUNTRIES)}] AS country",
    )
    made.write.mode("overwrite").parquet(str(folder))
    return spark.read.parquet(str(folder))


def mapped(customers: DataFrame, workers: int, url: str, folder: Path) -> MapReport:
    """A job for each customer, and what became of it. It can be killed at any time and called again."""
    return map_rows(
        customers,
        "app:app",
        "enrich",
        key="customer_id",
        name=NAME,
        url=url,
        workers=workers,
        schema=RESULT,
        folder=folder / "answers",
        threads=32,
        capacity=64,
    )


def _tell(found: MapReport) -> None:
    print(f"   {found.sentence()}")
    print(f"   {found.fleet.sentence() if found.fleet else 'nothing was left to do'}")


def _check(found: MapReport, table: DataFrame, rows: int) -> None:
    """Counts add up, or this program ends with an error."""
    done, dead = found.outcomes.get("done", 0), found.outcomes.get("dead", 0)
    assert found.outcomes.keys() <= {"done", "dead"}, f"something is open, lost or refused: {found}"
    assert done + dead == rows == table.count(), f"{done:,} done and {dead:,} dead are not {rows:,} rows"
    assert table.where("company IS NOT NULL").count() == done, "a customer that is done has no company"


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="customers to make up (default 10,000)")
    parser.add_argument("--url", help="the store (default: a SQLite file in the folder)")
    parser.add_argument("--folder", type=Path, help="for tables (default: a new one)")
    parser.add_argument("--workers", type=int, default=2, help="slots of the fleet (default 2)")
    parser.add_argument("--rate", type=float, default=800, help="questions a second that the register takes")
    parser.add_argument("--service", help="a register that runs already (default: one is started)")
    parser.add_argument("--master", default="local[*]", help="where Spark runs (default local[*])")
    asked = parser.parse_args(arguments)
    asked.folder = (asked.folder or Path(tempfile.mkdtemp(prefix="enrich-"))).absolute()
    asked.folder.mkdir(parents=True, exist_ok=True)
    return asked


async def _made(url: str) -> None:
    """Let there be a store: Spark uses one, and does not make a new file of a mistyped name."""
    await (await open_store(url)).close()


def _ask(service: str, method: str, path: str) -> str:
    """Ask the register something that has nothing to do with the rows."""
    with closing(HTTPConnection(service.removeprefix("http://"), timeout=10)) as connection:
        connection.request(method, path)
        return connection.getresponse().read().decode()


@contextmanager
def _service(rate: float) -> Iterator[str]:
    """A register of our own, on a free port, as long as the block."""
    words = [sys.executable, str(Path(__file__).with_name("service.py")), "--port", "0", "--rate", str(rate)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
