"""Servers of Spark from the package: a Spark Connect server, and the Master and the Workers of a standalone cluster."""

import json
import os
import socket
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pyspark

from headrace.pipeline.class_data_archive import OPTIONS, archive_path
from headrace.pipeline.java import cache_folder, find_java, packaged_java
from headrace.pipeline.spark_session import SHORT_RUN
from tests.support.process import Server, free_port

QUICK = SHORT_RUN["spark.driver.extraJavaOptions"]


class SparkServer(Server):
    """A class of Spark as a server on the loopback; `words` are its arguments."""

    main = ""
    memory = "256m"

    def words(self) -> Sequence[str]:
        """The arguments of the class."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        home, java = Path(pyspark.__file__).parent, find_java(os.environ, packaged_java())
        archive = archive_path(java, cache_folder(os.environ))
        settings = {
            "JAVA_HOME": str(java.home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_DAEMON_MEMORY": self.memory,
        }
        if archive.is_file():
            settings[OPTIONS] = f"-XX:SharedArchiveFile={archive}"
        env = ["env", *(f"{name}={value}" for name, value in settings.items())]
        return [*env, str(home / "bin" / "spark-class"), self.main, *self.words()]


class ConnectServer(SparkServer):
    """A Spark Connect server with a local Spark of two threads."""

    name = "connect"
    memory = "1g"
    main = "org.apache.spark.deploy.SparkSubmit"

    def __init__(self, **conf: str) -> None:
        super().__init__()
        self._conf = conf

    @property
    def address(self) -> str:
        """Where a client finds it."""
        return f"sc://127.0.0.1:{self.port}"

    def words(self) -> Sequence[str]:
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            **SHORT_RUN,
            **self._conf,
        }
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        return ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]", *options]

    def is_ready(self) -> bool:
        return accepts(self.port)


class SparkMaster(SparkServer):
    """The Master of a standalone cluster."""

    name = "spark-master"
    main = "org.apache.spark.deploy.master.Master"

    def __init__(self) -> None:
        super().__init__()
        self._page_port = free_port()

    @property
    def address(self) -> str:
        """What a session is given as its master."""
        return f"spark://127.0.0.1:{self.port}"

    def words(self) -> Sequence[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._page_port)]

    def is_ready(self) -> bool:
        return accepts(self.port) and accepts(self._page_port)

    def workers(self) -> int:
        """How many Workers it has."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page_port}/json/", timeout=10) as answer:
            return int(json.load(answer)["aliveworkers"])


class SparkWorker(SparkServer):
    """A Worker of a standalone cluster, which has one core."""

    name = "spark-worker"
    main = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, master: SparkMaster) -> None:
        super().__init__()
        self._master = master

    def words(self) -> Sequence[str]:
        work = ["--work-dir", str(self.folder / "work"), "--cores", "1", "--memory", "1g"]
        return ["--host", "127.0.0.1", "--webui-port", str(self.port), *work, self._master.address]

    def is_ready(self) -> bool:
        return "Successfully registered with master" in self.log.read_text(errors="replace")


def accepts(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
