"""Turns PostgreSQL's errors into Headrace's, and marks those that leave open whether the work was committed."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable

RETRYABLE = (pg.UniqueViolation, pg.DeadlockDetected, pg.SerializationFailure)
"""Conflicts with another transaction: the server has rolled this one back, and it may be run again."""
TRIES = 10
"""How often a transaction is run before the store is called busy."""


@contextmanager
def translate_errors(address: str, *, sent: bool = False) -> Iterator[None]:
    """Turn PostgreSQL's errors into Headrace's, except `RETRYABLE` ones: the transaction is run again after those.

    `sent` says that a statement which commits by itself may be on its way: a connection lost now leaves open whether
    it was carried out.
    """
    try:
        yield
    except RETRYABLE:
        raise
    except psycopg.Error as error:
        raise headrace_error(error, address, sent=sent) from error


def headrace_error(error: psycopg.Error, address: str, *, sent: bool = False) -> HeadraceError:
    """The Headrace error for one of PostgreSQL's."""
    found = _first_line(error)
    if sent and not _is_undone(error):
        return OutcomeUnknown(
            f"PostgreSQL at {address} was lost while committing ({found}); check the outcome before trying again"
        )
    return StoreUnavailable(f"PostgreSQL at {address} cannot be used now ({found}); {_advice(error)}")


def busy_error(error: psycopg.Error, address: str) -> StoreUnavailable:
    """The error for a transaction that met a conflict every time."""
    return StoreUnavailable(
        f"PostgreSQL at {address} undid the same transaction {TRIES} times ({_first_line(error)}); try again"
    )


def connect_error(error: psycopg.Error, address: str) -> HeadraceError:
    """The error for a failed first connection: waiting does not correct a wrong name or password."""
    found = _first_line(error)
    if isinstance(error, pg.InvalidAuthorizationSpecification | pg.InvalidCatalogName) or any(
        mark in found for mark in ("authentication failed", "does not exist", "no password supplied", "invalid")
    ):
        return BadConfig(f"PostgreSQL at {address} refuses the connection ({found}); check the URL")
    return StoreUnavailable(f"PostgreSQL at {address} cannot be reached ({found}); check that it runs, and try again")


def _is_undone(error: psycopg.Error) -> bool:
    # An error of the server undoes the transaction, with two exceptions: one that ends the connection (class 57) may
    # come while the commit waits for a standby and is already on disk here; an internal one may come at any time.
    return error.sqlstate is not None and error.sqlstate[:2] not in ("57", "58", "XX", "08")


def _advice(error: psycopg.Error) -> str:
    if isinstance(error, PoolClosed):
        return "the store was closed; open a new one"
    if isinstance(error, PoolTimeout):
        return "no connection came in time; check that the server runs and takes more connections, then try again"
    if isinstance(error, pg.UndefinedTable | pg.UndefinedColumn | pg.UndefinedFunction | pg.UndefinedObject):
        return "the schema is not what this Headrace made; check that nobody changed it"
    if isinstance(error, pg.InsufficientPrivilege):
        return "grant the user what it needs on the schema"
    if isinstance(error, pg.DiskFull | pg.OutOfMemory):
        return "make room on the server and try again"
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return "this server is a standby; name the primary, or add target_session_attrs=read-write to the URL"
    return "nothing was changed; try again"


def _first_line(error: psycopg.Error) -> str:
    # libpq writes a line per address that it tried, with details below; the first line says what happened.
    text = error.diag.message_primary or str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
