"""A tour of Spark, cell by cell: rows become jobs, workers run them, and everything that happened is a DataFrame.

Each `# %%` begins a cell for editors that know notebooks; as a program it runs from top to bottom.
"""

# %% A session, an app on a store of its own, and a handler that stumbles over one photo.
import logging
import tempfile
from pathlib import Path

from pyspark.sql import DataFrameReader
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace import App, Fail
from headrace.pipeline import enqueue, lag, publish, replay, session
from headrace.pipeline.spark_session import SHORT_RUN

folder = Path(tempfile.mkdtemp(prefix="headrace-tour-"))
url = f"sqlite:///{folder}/jobs.db"
spark = session("a tour", "local[2]", **SHORT_RUN)
logging.getLogger("headrace").setLevel(logging.CRITICAL)  # the failures below are on purpose

app = App(url, tenant="studio")
app.blocking_feeds.create("outcomes")  # where the tour ends; it also makes the file
can_read_raw = False


@app.job(queue="photos", max_attempts=2, backoff="1ms", result_ttl="1h")
def thumbnail(photo: str, width: int) -> dict[str, int]:
    """Half the width, if the file can be read."""
    if photo.endswith(".raw") and not can_read_raw:
        raise Fail(f"no codec for {photo}")
    return {"width": width // 2}


# %% Rows become jobs. The key says what makes a row one piece of work.
photos = spark.createDataFrame(
    [(f"p{n}.{'raw' if n == 4 else 'jpg'}", 400 * n) for n in range(1, 7)], "photo string, width int"
)
rows = photos.select(
    F.lit("thumbnail").alias("kind"), F.col("photo").alias("key"), F.struct("photo", "width").alias("payload")
)
print("written: ", enqueue(rows, url, tenant="studio", queue="photos", name="tour"))
print("again:   ", enqueue(rows.repartition(3), url, tenant="studio", queue="photos", name="tour"))

# %% Workers run them, here until nothing is due.
app.run_worker(until_idle=True)
print("drained: ", enqueue(rows, url, tenant="studio", queue="photos", name="tour"))


# %% What a store holds, as DataFrames.
def read(what: str) -> DataFrameReader:
    """Anything of the tenant."""
    return spark.read.format("headrace").options(url=url, what=what, tenant="studio")


journal = read("journal").load()
journal.groupBy("queue", "event").count().orderBy("queue", "event").show()
read("jobs").option("columns", "id,state,kind,attempts").load().groupBy("kind", "state").count().orderBy("state").show()

# %% Payloads and results are JSON.
results = read("results").load().select("id", F.from_json("result", "width int").width.alias("width"))
print("widths:  ", sorted(row.width for row in results.collect()))

# %% SQL alone will do. Dead letters are asked after, put right, and replayed.
spark.sql(f"CREATE TEMPORARY VIEW dead USING headrace OPTIONS (url '{url}', what 'dead', tenant 'studio')")
spark.sql("SELECT reason, error_message, parse_json(payload):photo::string AS photo FROM dead").show(truncate=False)
can_read_raw = True
print("replayed:", replay(spark.table("dead").where("error_message LIKE 'no codec%'"), url, tenant="studio"))
app.run_worker(until_idle=True)

# %% The journal as a stream, in batches of at most 10 events, up to what is there now.
followed = spark.readStream.format("headrace").options(url=url, tenant="studio", maxEventsPerTrigger=10).load()
query = (
    followed.writeStream.format("memory")
    .queryName("followed")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
assert query.lastProgress is not None
print("batches: ", sizes, "lag", lag(query.lastProgress))
print("the same:", spark.table("followed").count() == read("journal").load().count())

# %% A table as a live feed: publishing again edits what has changed, and nothing else.
outcomes = spark.table("followed").where("event IN ('done', 'dead')").groupBy("event").count()
items = outcomes.select(F.col("event").alias("id"), F.struct("count").alias("item"))
print("published:", publish(items, url, tenant="studio", feed="outcomes"))
print("again:    ", publish(items, url, tenant="studio", feed="outcomes"))
read("feed").option("feed", "outcomes").load().select("id", "item").orderBy("id").show()
