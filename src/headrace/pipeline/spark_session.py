"""A Spark session that is ready for Headrace: Java found, workers on this Python, UTC, Arrow, and quiet."""

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

from headrace.model.errors import BadConfig
from headrace.pipeline.class_data_archive import archive_path, use_archive
from headrace.pipeline.java import cache_folder, find_java, packaged_java
from headrace.pipeline.java_stderr import JavaStderr
from headrace.pipeline.source.source import HeadraceSource
from headrace.pipeline.spark_errors import unwrap_errors

SHUFFLE_PARTITIONS_MAX = 32
"""On one machine more partitions only cost scheduling; Spark's own default of 200 makes small queries slow."""
SHORT_RUN = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings for runs of seconds: Java compiles quickly rather than well, which halves the processor time of a demo."""

OPTIONS = "spark.sql.redaction.options.regex"
"""Names of options whose values Spark hides where it shows options."""
STRINGS = "spark.sql.redaction.string.regex"
"""Parts of texts that Spark hides in plans, and in what it notes of a Spark Connect client's requests, whole as they
came: with them its log of events would hold the password of every URL."""

_URL = "(?i:url)"
# As headrace.model.redact has them, for Java: whatever is before the last @ of a host, and options that are secrets.
_SECRETS = (
    r"(?<=://)[^\s/?#'\"@]*(?:@[^\s/?#'\"@]*)*@"
    r"|(?i:password|passwd|secret|token|passfile|sslkey)[\w-]*(?:=|%3D)[^\s&;,'\"\\]+"
)

_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\])?")
_gate: JavaStderr | None = None


def session(app_name: str = "headrace", master: str = "local[*]", **conf: str) -> SparkSession:
    """The session that runs, or a new one, with `format("headrace")` registered.

    `conf` are further settings and win over ours; names with dots come as `**{"spark.driver.memory": "4g"}`. A session
    that runs already keeps its master and its Java, and takes the settings that can still be changed. Whatever Spark is
    told to hide, it hides the passwords of URLs besides.
    """
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
    """A session for this block; one that runs already is taken and left running.

    With `quiet` Spark itself says nothing, not even its errors: what went wrong is raised, as an error of ours where
    it is one.
    """
    is_ours = SparkContext._active_spark_context is None
    spark = session(app_name, master, **conf)
    if is_ours and quiet:
        spark.sparkContext.setLogLevel("OFF")
    try:
        with unwrap_errors():
            yield spark
    finally:
        if is_ours:
            spark.stop()


def settings_for(master: str, cores: int) -> dict[str, str]:
    """The settings of a session on `master`, on a machine with so many cores."""
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
        # Nobody else needs to reach a local driver, and a host name that does not resolve cannot stop it.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(min(max(threads, 1), SHUFFLE_PARTITIONS_MAX)),
    }


def _start(conf: SparkConf) -> SparkSession:
    """Start Java (once a process), then Spark in it; what Java says meanwhile is shown only if that fails."""
    # Workers must be this Python with these packages, not the first one on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    gateway = _launch(conf) if SparkContext._gateway is None else None
    if gateway is None and _gate is not None:
        _gate.shut()
    context = SparkContext(conf=conf, gateway=gateway)
    context.setLogLevel("ERROR")
    spark = SparkSession.builder.getOrCreate()
    if _gate is not None:
        mark = f"headrace-{secrets.token_hex(8)}"
        _gate.open_after(mark)
        java: Any = context._jvm
        java.java.lang.System.err.println(mark)
        _gate.wait_open()
    return spark


def _launch(conf: SparkConf) -> Any:
    global _gate  # noqa: PLW0603  (one Java a process, so one gate)
    launch: Any = launch_gateway
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Started by spark-submit: Java runs already and is not ours to quieten.
        return launch(conf)
    java = find_java(os.environ, packaged_java())
    os.environ["JAVA_HOME"] = str(java.home)
    gate = JavaStderr()
    try:
        with use_archive(archive_path(java, cache_folder(os.environ))):
            gateway = launch(conf, {"stderr": gate.writing})
    except PySparkRuntimeError as error:
        gate.started()
        raise BadConfig(
            f"Spark did not start on the Java in {java.home}; it said: {_last_words(gate.kept())}"
        ) from error
    gate.started()
    _gate = gate
    return gateway


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " | ".join(lines[-5:]) or "nothing"


def redaction(given: Mapping[str, str]) -> dict[str, str]:
    """Settings under which Spark hides what must be hidden, and what the settings that are given hide besides."""
    return {OPTIONS: _with(_URL, given.get(OPTIONS, "")), STRINGS: _with(_SECRETS, given.get(STRINGS, ""))}


def _with(ours: str, theirs: str) -> str:
    if ours in theirs:
        return theirs
    # Theirs comes last: a flag such as (?i) that stands at its beginning holds for all that follows.
    return f"{ours}|{theirs}" if theirs else ours
