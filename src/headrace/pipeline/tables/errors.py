"""The table of errors: failures that differ only in numbers, ids and addresses are one; rows are added to it."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.source.compat import latest_values
from headrace.pipeline.tables.usage import day_of

FOLDS = (
    (r"(?<!\w)[bru]{0,2}'(?:[^'\\]++|\\.)*+'(?!\w)", "<text>"),  # not the apostrophes of "can't" and "don't"
    (r'(?<!\w)[bru]{0,2}"(?:[^"\\]++|\\.)*+"(?!\w)', "<text>"),
    (r"`[^`]*`", "<text>"),
    (r"(?i)\b[a-z][a-z0-9+.-]*://[^\s'\"<>]+", "<url>"),
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "<email>"),
    (r"(?i)\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", "<uuid>"),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?", "<time>"),
    (r"\[?\b(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4}\b)+\]?(?::\d+)?|\[?::1\b\]?(?::\d+)?", "<address>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
    (r"\b(?:localhost|[\w-]+(?:\.[\w-]+)*\.[A-Za-z][\w-]*|\w+(?:-\w+)+):\d{1,5}\b", "<address>"),
    (r"(?:(?<![\w>/.~])(?:~|\.{1,2})?/|(?<!\w)[A-Za-z]:\\)[\w@%+=~.-]+(?:[/\\][\w@%+=~.-]+)*[/\\]?", "<path>"),
    (r"(?i)\b0x[0-9a-f]+\b", "<hex>"),
    (r"(?i)\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}\b", "<hex>"),
    (r"\b(?=\w*[0-9])(?=\w*[A-Za-z])[A-Za-z0-9]{16,}\b", "<id>"),
    (r"(?<!\w)[-+]?\d+(?:[.,_]\d+)*(?:[eE][-+]?\d+)?", "<number>"),
    (r"\d+", "<number>"),  # also inside of words: job17 and user_42 are ids
    (r"\s+", " "),
)
"""What varies between failures of one cause, and what stands for it; the first that fits has it."""
FINGERPRINT_CHARS = 12
"""Of a hash in hexadecimal: among a million fingerprints, one chance in 500 that any two are the same."""


_KEY = ("day", "tenant", "fingerprint", "error_class", "template", "queue", "shard", "id")


def errors(events: DataFrame, samples: int = 3) -> DataFrame:
    """One row per tenant and fingerprint: `error_groups` of `failed_jobs`."""
    return error_groups(failed_jobs(events), samples)


def failed_jobs(events: DataFrame) -> DataFrame:
    """One row per day, fingerprint and job that failed so; this is what the table holds.

    Reads `tenant queue shard epoch seq happened_at event id kind error_class error_message`, in any order.
    A failure is a `retried` or `dead` event with an error.

    Returns
    - `day`: the date of the failures, in UTC
    - `fingerprint`: of class and template, the same in every run, tenant and version of the data
    - `tenant error_class`
    - `template`: the message with numbers, ids, addresses, paths and quoted texts folded into `<…>`
    - `queue shard id`: the job, and its `kinds`, sorted
    - `failures`, and how many of them were `deaths`
    - `first_seen last_seen`
    - `last`: the last failure, with `epoch seq happened_at message`
    """
    failed = (
        events.where(F.col("event").isin("retried", "dead") & F.col("error_class").isNotNull())
        .select("*", template(F.coalesce("error_message", F.lit(""))).alias("template"))
        .select("*", fingerprint(F.col("error_class"), F.col("template")).alias("fingerprint"))
    )
    last = F.struct("epoch", "seq", "happened_at", F.col("error_message").alias("message"))
    return failed.groupBy(day_of("happened_at").alias("day"), *_KEY[1:]).agg(
        F.array_sort(F.collect_set("kind")).alias("kinds"),
        F.count("*").alias("failures"),
        F.count_if(F.col("event") == "dead").alias("deaths"),
        F.min("happened_at").alias("first_seen"),
        F.max("happened_at").alias("last_seen"),
        F.max(last).alias("last"),
    )


def merge_failed_jobs(rows: DataFrame) -> DataFrame:
    """Rows of `failed_jobs` of different events, as one row per day, fingerprint and job."""
    return _merged(rows, _KEY)


def error_groups(failed: DataFrame, samples: int = 3, by: Sequence[str] = ("tenant",)) -> DataFrame:
    """Rows of `failed_jobs` as one row per tenant (or other columns `by`) and fingerprint: what fails, how often, since
    when, and which jobs to look at.

    Returns
    - `fingerprint tenant error_class template`
    - `kinds queues`: where it was seen, sorted
    - `failures deaths first_seen last_seen`
    - `jobs`: how many different ones failed so
    - `sample_jobs`: the last `samples` jobs that failed so, the latest first, each with `queue id happened_at message`
    """
    sample = F.struct("queue", "id", "last.happened_at", "last.message")
    # The last failure of each job: one job that is tried again and again would else be all samples.
    latest = F.struct(F.col("last.happened_at").alias("at"), "queue", "shard", "last.epoch", "last.seq")
    return (
        _merged(failed, _KEY[1:])
        .groupBy("fingerprint", *by, "error_class", "template")
        .agg(
            F.array_sort(F.array_distinct(F.flatten(F.collect_set("kinds")))).alias("kinds"),
            F.array_sort(F.collect_set("queue")).alias("queues"),
            F.sum("failures").alias("failures"),
            F.sum("deaths").alias("deaths"),
            F.count("*").alias("jobs"),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
            latest_values(sample, latest, samples).alias("sample_jobs"),
        )
        .orderBy(F.desc("failures"), *by, "fingerprint")
    )


def _merged(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    return rows.groupBy(*key).agg(
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("kinds")))).alias("kinds"),
        F.sum("failures").alias("failures"),
        F.sum("deaths").alias("deaths"),
        F.min("first_seen").alias("first_seen"),
        F.max("last_seen").alias("last_seen"),
        F.max("last").alias("last"),
    )


def template(message: Column) -> Column:
    """A message with everything folded that varies between failures of one cause."""
    return F.trim(reduce(lambda text, fold: F.regexp_replace(text, fold[0], fold[1]), FOLDS, message))


def fingerprint(error_class: Column, folded: Column) -> Column:
    """A short name for failures of one class and template."""
    return F.substring(F.sha2(F.concat(error_class, F.lit("\n"), folded), 256), 1, FINGERPRINT_CHARS)
