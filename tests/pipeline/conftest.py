"""One Spark for all tests of the pipeline."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.source.compat import HAS_4_2
from headrace.pipeline.spark_session import SHORT_RUN, session
from headrace.pipeline.storage.location import Location
from tests.support.process import free_port
from tests.support.s3_server import S3Server

WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Tests have few rows and many plans: to compile each took a third of the time. Commands, examples, the cluster and the
proofs run in Sparks of their own, which compile as users' do."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Leave out, on Spark 4.1, a test that bounds batches: it is refused there, which has a test of its own."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if not HAS_4_2 and "(maxEventsPerTrigger, --events-max) needs Spark 4.2 or newer" in str(error):
            pytest.skip("Spark 4.1 bounds no batches")
        raise


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session("headrace tests", "local[2]", **(SHORT_RUN | WITHOUT_CODE))
    yield running
    running.stop()


@pytest.fixture
def remote(spark: SparkSession) -> Iterator[str]:
    """The address of a Connect server in the Java of all tests: a Java of its own would take 10 s to start."""
    context, port = spark.sparkContext, free_port()
    java: Any = context._jvm
    scala: Any = context._jsc.sc()
    scala.conf().set("spark.connect.grpc.binding.address", "127.0.0.1").set(
        "spark.connect.grpc.binding.port", str(port)
    )
    server = java.org.apache.spark.sql.connect.SparkConnectPlugin().driverPlugin()
    server.init(scala, None)
    yield f"sc://127.0.0.1:{port}"
    server.shutdown()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The S3 server of all tests."""
    with S3Server().launch() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket; this process and Spark's workers find its server by their environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
        # Java has started before the server: its workers inherit what it had.
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    return s3_server.add_bucket(f"bucket-{secrets.token_hex(8)}")


@pytest.fixture(params=["disk", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A folder for tables, on a local disk and on object storage."""
    if request.param == "disk":
        return Location.parse(tmp_path / "tables")
    return Location.parse(request.getfixturevalue("bucket")).child("tables")
