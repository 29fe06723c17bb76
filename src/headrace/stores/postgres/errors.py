"""Turns PostgreSQL's errors into ours, and knows which of them leave open whether the work was kept."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, StoreUnavailable

RETRYABLE = (pg.UniqueViolation, pg.DeadlockDetected, pg.SerializationFailure)
"""Somebody else was faster: the server has undone the transaction, and running it anew decides on what is there now."""
TRIES = 10
"""How often a transaction is run before the store is called busy."""


@contextmanager
def translate_errors(address: str, *, sent: bool = False) -> Iterator[None]:
    """Turn PostgreSQL's errors into ours, except those of `RETRYABLE`, which are for whoever runs the transaction.

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
    """Our error for one of PostgreSQL's."""
    found = _first_line(error)
    if sent and not _is_undone(error):
        return OutcomeUnknown(f"PostgreSQL at {address} was lost while committing ({found}); look before asking again")
    return StoreUnavailable(f"PostgreSQL at {address} cannot be used now ({found}); {_advice(error)}")


def busy_error(error: psycopg.Error, address: str) -> StoreUnavailable:
    """Our error for a transaction that others got in the way of every time."""
    return StoreUnavailable(
        f"PostgreSQL at {address} undid the same transaction {TRIES} times ({_first_line(error)}); try again"
    )


def connect_error(error: psycopg.Error, address: str) -> HeadraceError:
    """Our error for a first connection that failed: a wrong name or password will not come right by waiting."""
    found = _first_line(error)
    if isinstance(error, pg.InvalidAuthorizationSpecification | pg.InvalidCatalogName) or any(
        mark in found for mark in ("authentication failed", "does not exist", "no password supplied", "invalid")
    ):
        return BadConfig(f"PostgreSQL at {address} refuses the connection ({found}); check the URL")
    return StoreUnavailable(f"PostgreSQL at {address} cannot be reached ({found}); check that it runs, and try again")


def _is_undone(error: psycopg.Error) -> bool:
    # An answer of the server undoes the transaction, with two exceptions: one that ends the connection (class 57) may
    # come while the commit waits for a standby, when it is already on disk here; an internal one may come at any time.
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
    # libpq writes a line per address it tried, and detail below; the first says what happened.
    text = error.diag.message_primary or str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
