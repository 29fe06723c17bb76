"""One Spark for all tests of the pipeline."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.spark_session import SHORT_RUN, session
from tests.support.process import free_port

WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Tests have few rows and many plans: to compile each took a third of the time. Commands, examples, the cluster and the
proofs run in Sparks of their own, which compile as users' do."""


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
