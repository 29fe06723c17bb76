"""The bare fetch-and-parse: pages of a journal straight from the server, their lines joined and parsed into Arrow, in
one plain process with nothing around it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import unquote, urlsplit

import psycopg
import pyarrow as pa
import pyarrow.json as pj

from benchmarks.load import QUEUE
from benchmarks.raw_redis import RawRedis
from headrace.pipeline.source.schema import JSON_SCHEMA
from headrace.stores.redis.journal import lines_of
from headrace.stores.redis.keys import journal_key

PAGE_ENTRIES = 100
"""With entries of 200 events, 20,000 rows: the size of the batches that Spark is given."""
_READ = pj.ReadOptions(use_threads=False, block_size=1 << 20)
_FIELDS = pa.schema([field for field in JSON_SCHEMA if field.name != "payload"])
"""What the journal gives unless payloads are asked for."""
_PARSE = pj.ParseOptions(explicit_schema=_FIELDS, unexpected_field_behavior="ignore")


def bare_rows(url: str) -> int:
    """Read the long journal of the store at `url` and parse it; says how many rows it had."""
    pages = {"redis": _redis, "postgres": _postgres, "sqlite": _sqlite}[urlsplit(url).scheme]
    rows = 0
    for lines in pages(url):
        text = pa.BufferReader(pa.py_buffer(b"".join(lines)))
        rows += pj.read_json(text, read_options=_READ, parse_options=_PARSE).num_rows
    return rows


def _redis(url: str) -> Iterator[list[bytes]]:
    connection = RawRedis(urlsplit(url).port or 0)
    key, last = journal_key(QUEUE.all_shards()[0]), "0"
    while True:
        reply = connection.command("XRANGE", key, f"({last}", "+", "COUNT", str(PAGE_ENTRIES))
        assert isinstance(reply, list)
        if not reply:
            break
        # Entries of enqueues and claims are packed: without their lines there is nothing to parse.
        yield [lines_of(dict(zip(fields[::2], fields[1::2], strict=True))) for _, fields in reply]
        last = reply[-1][0].decode()
    connection.close()


def _postgres(url: str) -> Iterator[list[bytes]]:
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        cursor = connection.cursor(binary=True)
        longest = "SELECT shard_id FROM headrace.journal GROUP BY shard_id ORDER BY sum(count) DESC LIMIT 1"
        [(shard_id,)] = cursor.execute(longest).fetchall()
        page = "SELECT last_seq, lines FROM headrace.journal WHERE shard_id = %s AND last_seq > %s"
        last = 0
        while rows := cursor.execute(f"{page} ORDER BY last_seq LIMIT %s", (shard_id, last, PAGE_ENTRIES)).fetchall():
            yield [lines for _, lines in rows]
            last = rows[-1][0]


def _sqlite(url: str) -> Iterator[list[bytes]]:
    with closing(sqlite3.connect(unquote(urlsplit(url).path))) as connection:
        # The queue was made first, so its entries come first; those of the many others stand behind the first gap.
        upto = connection.execute("SELECT min(entry_id) + (1 << 40) FROM journal").fetchone()[0]
        page, last = (
            "SELECT entry_id, lines FROM journal WHERE entry_id > ? AND entry_id < ? ORDER BY entry_id LIMIT ?",
            0,
        )
        while rows := connection.execute(page, (last, upto, PAGE_ENTRIES)).fetchall():
            yield [lines for _, lines in rows]
            last = rows[-1][0]
