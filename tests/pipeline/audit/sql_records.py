"""Fills a store with a job in every role, and plants inconsistencies in its rows."""

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.finished import DeadLetterKey
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome, Retried
from headrace.stores.contract.store import Store
from headrace.stores.engine.row_codec import pack, unpack_dead_letter
from tests.support.servers import postgres_server

MAIL = Queue("mail", "acme", 2)
LONG_MS = 3_600_000
BOOM = JobError("Boom", "it broke")
Expected = set[tuple[str, str | None]]
"""Findings with the role of their job; None for a finding of a shard."""


def id_of(role: str) -> str:
    """The id of the job in a role; all belong to the first shard."""
    return next(id for n in count() if MAIL.index_of(id := f"{role}-{n}") == 0)


def role_of(id: str | None) -> str | None:
    """The role of a job."""
    return None if id is None else id.rpartition("-")[0]


LATER = ("lost", "bodiless", "twice", "payload", "due", "counts", "template")
ACTIVE = ("state", "fence", "without_blocked_job", "behind")
DONE = ("stray", "finished_job", "impossible")
DEAD = ("lost_dead_letter", "dead")


async def fill_roles(store: Store) -> None:
    """A job in each role; each claim, and the second configuration, is an entry of its own in the journal."""
    await store.queues.configure(MAIL, {"priority": 7})
    await store.jobs.enqueue([_job(role, delay_ms=LONG_MS) for role in LATER])
    # Due later than those above, even within the same millisecond.
    await _run(store, "tried", Retried(BOOM, delay_ms=LONG_MS + 1))
    await store.queues.configure(MAIL, {"priority": 6})
    for role in DONE:
        await _run(store, role, Done(b"1"))
    for role in DEAD:
        await _run(store, role, Failed(BOOM))
    await store.jobs.enqueue([_job("cancelled", delay_ms=LONG_MS)])
    await store.jobs.cancel(MAIL, [id_of("cancelled")])
    for role in ACTIVE:
        await _claim(store, role)
    await store.jobs.enqueue([_job("without_blocked_job"), _job("behind")])


def _job(role: str, **fields: Any) -> Job:
    return Job(queue=MAIL, id=id_of(role), kind="send", payload=b'{"n":1}', **fields)


async def _claim(store: Store, role: str) -> Claim:
    await store.jobs.enqueue([_job(role)])
    request = ClaimRequest(queues=[MAIL], worker="one", nonce=token_hex(8), lease_ms=LONG_MS)
    [claim] = (await store.jobs.claim(request)).items
    return claim


async def _run(store: Store, role: str, outcome: Outcome) -> None:
    await store.jobs.settle([(await _claim(store, role)).settle(outcome, 1)])


class SqlFaults:
    """Plants faults in the tables of SQLite or PostgreSQL, which are alike."""

    def __init__(self, name: str, folder: Path) -> None:
        self._file = folder / "headrace.db" if name == "sqlite" else None
        self._journal_key = "entry_id" if self._file else "last_seq"

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement without the store."""
        if self._file:
            with closing(sqlite3.connect(self._file)) as connection, connection:
                return connection.execute(statement, values).fetchall()
        with postgres_server().connect() as served:
            served.execute("SET search_path TO headrace")
            done = served.execute(statement.replace("?", "%s").encode(), values)
            return done.fetchall() if done.description else []

    def plant(self) -> Expected:
        """Plant all faults; return the findings that the audit must report, and no others."""
        self._in_jobs()
        self._in_finished_jobs_and_dead_letters()
        self._in_the_journal()
        self.run("UPDATE shard SET active = active + 3")
        return {
            ("lost", "lost"),
            ("twice", "twice"),
            ("unknown", "unknown"),
            ("stray", "stray"),
            ("state", "state"),
            ("fence", "fence"),
            ("payload", "payload"),
            ("due", "due"),
            ("counts", "counts"),
            ("blocked_job", "without_blocked_job"),
            ("damage", "template"),
            ("finished_job", "finished_job"),
            ("lost_dead_letter", "lost_dead_letter"),
            ("stray_dead_letter", "stray_dead_letter"),
            ("impossible", "impossible"),
            ("gap", None),
            ("count", None),
        }

    def _in_jobs(self) -> None:
        columns = "order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload"
        copy = f"INSERT INTO job (shard_id, id, {columns}) SELECT shard_id, ?, {columns} FROM job WHERE id = ?"  # noqa: S608 - our own names
        self.run("DELETE FROM job WHERE id = ?", id_of("lost"))
        self.run(copy, id_of("unknown"), id_of("template"))
        self.run(copy, id_of("stray"), id_of("template"))
        self.run(
            "INSERT INTO job (shard_id, id, run_at_ms, body, payload)"
            " SELECT o.shard_id, j.id, j.run_at_ms, j.body, j.payload"
            " FROM job j JOIN shard m ON m.shard_id = j.shard_id JOIN shard o ON o.queue_id = m.queue_id"
            " WHERE o.shard_id <> m.shard_id AND j.id = ?",
            id_of("twice"),
        )
        self.run(
            "UPDATE job SET fence = NULL, expires_at_ms = NULL, nonce = NULL, lease = NULL WHERE id = ?", id_of("state")
        )
        self.run("UPDATE job SET fence = fence + 100 WHERE id = ?", id_of("fence"))
        self.run("UPDATE job SET payload = ? WHERE id = ?", b"[]", id_of("payload"))
        self.run("UPDATE job SET run_at_ms = run_at_ms + 1 WHERE id = ?", id_of("due"))
        self.run(
            "UPDATE job SET body = (SELECT body FROM job WHERE id = ?) WHERE id = ?", id_of("tried"), id_of("counts")
        )
        self._move_blocked_job()

    def _move_blocked_job(self) -> None:
        """Move the blocked job of an active job behind a waiting one."""
        if self._file:
            self.run("UPDATE blocked_job SET id = ? WHERE id = ?", id_of("template"), id_of("without_blocked_job"))
            return
        [(blocked_job,)] = self.run("SELECT blocked_job FROM job WHERE id = ?", id_of("without_blocked_job"))
        self.run("UPDATE job SET blocked_job = NULL WHERE id = ?", id_of("without_blocked_job"))
        self.run("UPDATE job SET blocked_job = ? WHERE id = ?", blocked_job, id_of("template"))

    def _in_finished_jobs_and_dead_letters(self) -> None:
        self.run("UPDATE finished_job SET state = 'cancelled' WHERE id = ?", id_of("finished_job"))
        self.run("DELETE FROM dead_letter WHERE id = ?", id_of("lost_dead_letter"))
        [(shard_id, until_ms, body)] = self.run(
            "SELECT shard_id, until_ms, body FROM dead_letter WHERE id = ?", id_of("dead")
        )
        dead, id = unpack_dead_letter(body), id_of("stray_dead_letter")
        dead_letter = replace(dead, key=DeadLetterKey(0, 9_999), record=replace(dead.record, id=id))
        self.run(
            "INSERT INTO dead_letter (shard_id, number, until_ms, id, body) VALUES (?, 9999, ?, ?, ?)",
            shard_id, until_ms, id, pack(dead_letter),
        )  # fmt: skip

    def _in_the_journal(self) -> None:
        key = self._journal_key
        entries = sorted(self.run(f"SELECT {key}, lines FROM journal"))  # noqa: S608 - our own names
        configured = [(seq, lines) for seq, lines in entries if is_second(lines)]
        claimed = [(seq, lines) for seq, lines in entries if b'"claimed"' in lines and names(lines, "impossible")]
        for found in configured:
            self.run(f"DELETE FROM journal WHERE {key} = ? AND lines = ?", *found)  # noqa: S608
        [(seq, lines)] = claimed
        altered = lines.replace(b'"claimed"', b'"updated"')
        self.run(f"UPDATE journal SET lines = ? WHERE {key} = ? AND lines = ?", altered, seq, lines)  # noqa: S608


def is_second(lines: bytes) -> bool:
    """Whether an entry is the second configuration of the queue."""
    return b'"configured"' in lines and b'"version":2' in lines


def names(lines: bytes, role: str) -> bool:
    """Whether an entry names the job in a role."""
    return b'"%s"' % id_of(role).encode() in lines
