"""Schemas of PostgreSQL that belong to one test each."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tests.support.postgres_servers import PostgresServer
from tests.support.servers import postgres_server

_NUMBERS = count(1)


@contextmanager
def new_schema(server: PostgresServer | None = None) -> Iterator[str]:
    """The URL of a schema of its own; `fast`, since no test cuts the power."""
    server = server or postgres_server()
    schema = f"test_{next(_NUMBERS)}"
    yield f"{server.url}?profile=fast&schema={schema}"
    server.ask(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def schema_of(url: str) -> str:
    """The schema that a URL of `new_schema` names."""
    return url.rpartition("schema=")[2]
