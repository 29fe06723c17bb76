"""Real PostgreSQL servers for tests: a database cluster created once per process and copied for each server."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from tests.support.process import NotReady, Server, as_user, new_folder, wait_until
from tools.servers import postgres_folder

USER = DATABASE = "headrace"


def runs_as() -> str | None:
    """The user that PostgreSQL runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def programs() -> Path:
    """The folder of initdb and postgres."""
    folder = postgres_folder()
    if folder is None:
        raise NotReady("there is no PostgreSQL server; type: make servers")
    return folder


@cache
def template() -> Path:
    """The database cluster that every server of this process starts from, with the user and the database of tests."""
    user, folder = runs_as(), new_folder("postgres-template")
    give(folder, user)
    cluster = folder / "cluster"
    initdb = [str(programs() / "initdb"), "-D", str(cluster), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale", "C"]
    single = [str(programs() / "postgres"), "--single", "-F", "-D", str(cluster), "postgres"]
    create = f"CREATE DATABASE {DATABASE}".encode()
    run_as = as_user(user, "KILL")
    subprocess.run([*run_as, *initdb, "--no-sync"], check=True, capture_output=True, cwd=folder)
    subprocess.run([*run_as, *single], check=True, capture_output=True, cwd=folder, input=create)
    return cluster


def give(path: Path, user: str | None) -> None:
    """Give a folder to a user."""
    if user is not None:
        shutil.chown(path, user, pwd.getpwnam(user).pw_gid)


class PostgresServer(Server):
    """One PostgreSQL server with the database `headrace` and its owner of the same name, without a password.

    Without `fsync` it is faster and survives a kill of its processes, but not a power cut. `settings` are those of
    postgresql.conf, as in {"max_connections": 20}.
    """

    name = "postgres"
    death = "QUIT"  # its children go with it at once
    goodbye = signal.SIGINT  # ends the sessions, too

    def __init__(self, *, fsync: bool = False, settings: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.user = runs_as()
        self.cluster = self.folder / "cluster"
        self._settings = {
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "64MB",
            "max_wal_size": "256MB",
            "log_min_messages": "warning",
            **(settings or {}),
        }
        subprocess.run(["cp", "-a", str(template()), str(self.cluster)], check=True)
        give(self.folder, self.user)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"postgres://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A plain connection that commits each statement; close it."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=DATABASE, autocommit=True, connect_timeout=10
        )

    def ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        with self.connect() as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def command(self) -> list[str]:
        """The command line of the server."""
        words = [str(programs() / "postgres"), "-D", str(self.cluster), "-p", str(self.port)]
        return words + [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]

    def is_ready(self) -> bool:
        """Whether the server of this folder answers."""
        try:
            [(folder,)] = self.ask("SHOW data_directory")
        except psycopg.Error:
            return False
        return str(folder) == str(self.cluster)

    def kill(self) -> None:
        """End it and all its processes between two instructions, as a machine that loses its power does."""
        if self._process is None:
            return
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        pids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        super().kill()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of PostgreSQL's processes")


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
