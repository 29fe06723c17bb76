"""Starts Spark sessions for Headrace: finds a Java, sets UTC, hides secrets and silences the log."""

import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from headrace.model.errors import BadConfig
from headrace.pipeline.class_data_archive import archive_path, use_archive
from headrace.pipeline.java import JavaStderr, cache_folder, find_java, packaged_java
from headrace.pipeline.source.source import HeadraceSource
from headrace.pipeline.spark_errors import unwrap_errors

LOCAL = "local[*]"
REMOTE = "sc://"
"""The scheme of a Spark Connect server."""
SHUFFLE_PARTITIONS_MAX = 32
"""On one machine more partitions only cost scheduling; Spark's default of 200 slows small queries down."""
TASK_EVENTS_MIN = 10_000
"""Fewer events take less time than the start of another Python task."""
SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings for runs of seconds: a quick compiler instead of an optimising one halves the processor time of a demo."""

OPTIONS = "spark.sql.redaction.options.regex"
"""Names of options whose values Spark hides."""
STRINGS = "spark.sql.redaction.string.regex"
"""Parts of texts that Spark hides in plans and in its event log, which has the requests of Spark Connect clients."""

_URL = "(?i:url)"
# The patterns of headrace.model.redact for Java: everything before the last @ of a host, and options that are secrets.
_SECRETS = (
    r"(?<=://)[^\s/?#'\"@]*(?:@[^\s/?#'\"@]*)*@"
    r"|(?i:password|passwd|secret|token|passfile|sslkey)[\w-]*(?:=|%3D)[^\s&;,'\"\\]+"
)

_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\])?")
_stderr: JavaStderr | None = None


def session(app_name: str = "headrace", master: str = LOCAL, **conf: str) -> SparkSession:
    """The running session, or a new one, with `format("headrace")` registered.

    `master` is a master of Spark, or the address of a Spark Connect server with this package, such as `sc://host:15002`;
    without a master, the environment variable `SPARK_REMOTE` may hold that address.

    `conf` are further settings, which win over the defaults; names with dots are passed as
    `**{"spark.driver.memory": "4g"}`. A running session keeps its master and its Java, and takes the settings that can
    still be changed. Spark hides the passwords of URLs, in addition to your patterns.
    """
    client = _client(master)
    if client is not None:
        return _configure(client, conf)
    settings = settings_for(master, os.cpu_count() or 1) | conf
    builder = SparkSession.builder
    if SparkContext._active_spark_context is not None:
        for name, value in settings.items():
            if not name.startswith(("spark.driver.", "spark.ui.")):
                builder = builder.config(name, value)
        spark = builder.getOrCreate()
    else:
        settings |= redaction(settings)
        spark = _start(SparkConf().setAppName(app_name).setMaster(master).setAll(list(settings.items())))
    for name, value in redaction({name: spark.conf.get(name, "") or "" for name in (OPTIONS, STRINGS)}).items():
        spark.conf.set(name, value)
    spark.dataSource.register(HeadraceSource)
    return spark


@contextmanager
def open_session(app_name: str, master: str, conf: Mapping[str, str], *, quiet: bool = True) -> Iterator[SparkSession]:
    """A session for this block; a running one is used and left running.

    With `quiet` Spark logs nothing, not even errors, which are raised, as Headrace errors where they quote one.
    """
    is_ours = SparkContext._active_spark_context is None and _running_client() is None
    spark = session(app_name, master, **conf)
    if is_ours and quiet and not is_connect(spark):
        spark.sparkContext.setLogLevel("OFF")
    try:
        with unwrap_errors():
            yield spark
    finally:
        if is_ours:
            spark.stop()


def settings_for(master: str, cores: int) -> dict[str, str]:
    """The settings of a session on `master`, on a machine with `cores`."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    local = _LOCAL.fullmatch(master)
    if local is None:
        return settings
    threads = cores if local[1] == "*" else int(local[1] or 1)
    return settings | {
        # A local driver needs no other address, and a host name may not resolve.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(min(max(threads, 1), SHUFFLE_PARTITIONS_MAX)),
    }


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect client, which has no Java, no context and no visible tasks."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def refuse_connect(spark: SparkSession, what: str) -> None:
    """Refuse work that needs a driver in this process."""
    if is_connect(spark):
        raise BadConfig(
            f"{what} cannot run through Spark Connect, which neither shows nor cancels tasks; use a master such as"
            " local[*] or spark://host:7077"
        )


def partition_options(spark: SparkSession, events_max: int) -> dict[str, str]:
    """The option that divides a batch of `events_max` events among all cores, and a small one among fewer tasks."""
    tasks = spark.conf.get("spark.default.parallelism", "1") if is_connect(spark) else None
    count = spark.sparkContext.defaultParallelism if tasks is None else int(tasks)
    return {"maxEventsPerPartition": str(max(-(-events_max // max(count, 1)), TASK_EVENTS_MIN))}


@contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Within this block, describe Spark's jobs by this text; no effect through Spark Connect."""
    if is_connect(spark):
        yield
        return
    spark.sparkContext.setJobDescription(text)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]  # none again


def _client(master: str) -> SparkSession | None:
    """The running Spark Connect client, or one for the given server; else None."""
    if SparkContext._active_spark_context is not None:
        return None
    remote = os.environ.get("SPARK_REMOTE", "") if master == LOCAL else master
    if (client := _running_client()) is None and remote.startswith(REMOTE):
        return SparkSession.builder.remote(remote).getOrCreate()
    return client


def _running_client() -> SparkSession | None:
    """The Spark Connect client of this process."""
    try:
        return SparkSession.active() if is_remote() else None
    except PySparkRuntimeError:
        return None


def _configure(client: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """Set the settings of a client; the server's driver keeps its own, and finds the format itself."""
    settings: dict[str, str] = settings_for("", 1) | dict(conf)
    settings |= redaction({name: client.conf.get(name, "") or "" for name in (OPTIONS, STRINGS)})
    for name, value in settings.items():
        if name.startswith("spark.sql."):
            client.conf.set(name, value)
    return client


def _start(conf: SparkConf) -> SparkSession:
    """Start Java (once per process), then Spark in it; shows Java's stderr only if that fails."""
    # Workers must run this Python with its packages instead of the first one on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    gateway = _launch(conf) if SparkContext._gateway is None else None
    if gateway is None and _stderr is not None:
        _stderr.close()
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("ERROR")
    spark = SparkSession.builder.getOrCreate()
    if _stderr is not None:
        mark = f"headrace-{secrets.token_hex(8)}"
        _stderr.open_after(mark)
        java: Any = context._jvm
        java.java.lang.System.err.println(mark)
        _stderr.wait_open()
    return spark


def _launch(conf: SparkConf) -> Any:
    global _stderr  # noqa: PLW0603  (one Java per process)
    launch: Any = launch_gateway
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit has started Java, and its stderr is the user's.
        return launch(conf)
    java = find_java(os.environ, packaged_java())
    os.environ["JAVA_HOME"] = str(java.home)
    stderr = JavaStderr()
    try:
        with use_archive(archive_path(java, cache_folder(os.environ))):
            gateway = launch(conf, {"stderr": stderr.writer})
    except PySparkRuntimeError as error:
        stderr.close_writer()
        raise BadConfig(
            f"Spark did not start on the Java in {java.home}; its last lines: {_last_lines(stderr.text())}"
        ) from error
    stderr.close_writer()
    _stderr = stderr
    return gateway


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-5:]) or "nothing"


def redaction(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with which Spark hides secrets, in addition to the present ones."""
    return {
        OPTIONS: _either(_URL, settings.get(OPTIONS, "")),
        STRINGS: _either(_SECRETS, settings.get(STRINGS, "")),
    }


def _either(pattern: str, other: str) -> str:
    if pattern in other:
        return other
    # The other comes last: a flag such as (?i) at its beginning applies to everything after it.
    return f"{pattern}|{other}" if other else pattern
