"""A Spark Connect server, and its client in the process of the tests, which starts no Java."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.spark_session import session
from tests.support.spark_servers import ConnectServer


@pytest.fixture(scope="session")
def server() -> Iterator[ConnectServer]:
    # Few rows and many plans: to compile each takes longer than to run it.
    codegen = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    with ConnectServer(**codegen).launch() as server:
        yield server


@pytest.fixture(scope="session")
def spark(server: ConnectServer) -> Iterator[SparkSession]:
    client = session("headrace connect tests", server.address)
    yield client
    client.stop()
