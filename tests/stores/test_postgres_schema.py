"""The schema on PostgreSQL: its creation, the settings of its tables, and the indexes that statements use."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.postgres.connection import Connection, connect, settings_of
from headrace.stores.postgres.server import migrate
from headrace.stores.postgres.sql import migrations, sql
from headrace.stores.postgres.store import PostgresStore
from tests.support.schemas import new_schema, schema_of
from tests.support.servers import postgres_server

QUEUE = Queue("mail")
CHURNED = 100_000
BATCH = 1_000
BYTES_PER_JOB = 600
"""The size of the three versions of a job and of their index entries until they are vacuumed."""
CATALOG = """
SELECT 'column', c.relname::text, a.attname::text, concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull,
  a.attstorage, pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attcollation::regcollation)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (c.oid, a.attnum)
WHERE c.relnamespace = %(schema)s::text::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'relation', relname::text, relkind::text, concat_ws(' ', relpersistence, reloptions::text)
FROM pg_class WHERE relnamespace = %(schema)s::text::regnamespace
UNION ALL
SELECT 'index', tablename::text, indexname::text, indexdef FROM pg_indexes WHERE schemaname = %(schema)s::text
UNION ALL
SELECT 'function', proname::text, pg_get_function_identity_arguments(oid), concat(prosrc, proconfig)
FROM pg_proc WHERE pronamespace = %(schema)s::text::regnamespace
ORDER BY 1, 2, 3, 4
"""


@pytest.fixture
def url() -> Iterator[str]:
    """A schema of the test's own."""
    with new_schema() as url:
        yield url


def catalog(connection: Connection, url: str) -> list[tuple[str, ...]]:
    """Everything that the database knows of a schema, without its name."""
    schema = schema_of(url)
    found = connection.execute(CATALOG, {"schema": schema}).fetchall()
    return [tuple(text.replace(f"{schema}.", "") for text in columns) for columns in found]


def test_migrating_from_every_earlier_layout_gives_the_schema_of_a_fresh_database(url: str) -> None:
    """T37: numbered migrations, each from where the last one left off."""
    with closing(connect(settings_of(url))) as fresh:
        migrate(fresh, settings_of(url))
        wanted = catalog(fresh, url)

    for number, _ in migrations()[:-1]:
        with new_schema() as old_url, closing(connect(settings_of(old_url))) as connection:
            migrate(connection, settings_of(old_url), upto=number)
            migrate(connection, settings_of(old_url))
            assert catalog(connection, old_url) == wanted, f"from layout {number}"
    assert len(wanted) > 100


def test_a_later_step_is_applied_once_to_a_schema_that_has_the_earlier_ones(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T37: numbered migrations, each from where the last one left off."""
    first, settings = migrations(), settings_of(url)
    with closing(connect(settings)) as connection:
        migrate(connection, settings)
        connection.execute("INSERT INTO queue (tenant, name, shards, config) VALUES ('default', 'mail', 1, '{}')")
        later = (first[-1][0] + 1, ["CREATE TABLE later (one integer);", "INSERT INTO later VALUES (1);"])
        monkeypatch.setattr("headrace.stores.postgres.server.migrations", lambda: [*first, later])

        layouts = [migrate(connection, settings) for _ in range(2)]
        found = connection.execute("SELECT (SELECT count(*) FROM later), (SELECT count(*) FROM queue)").fetchall()

    assert layouts == [later[0]] * 2
    assert found == [(1, 1)]


def test_a_schema_of_a_newer_headrace_is_refused(url: str) -> None:
    with closing(connect(settings_of(url))) as connection:
        newest = migrate(connection, settings_of(url))
        connection.execute(sql("layout_write"), (newest + 1,))

        with pytest.raises(BadConfig) as refused:
            migrate(connection, settings_of(url))

    assert f"layout {newest + 1}" in str(refused.value)


async def test_stores_that_meet_a_new_database_at_once_make_its_schema_once(url: str) -> None:
    stores = await asyncio.gather(*(PostgresStore.open(settings_of(url)) for _ in range(4)))
    answers = [await store.jobs.enqueue([new_job(QUEUE, "send", fresh_id="a")]) for store in stores]
    for store in stores:
        await store.close()

    assert [answer.status for [answer] in answers] == ["created", "updated", "updated", "updated"]


def test_hot_tables_leave_room_and_are_vacuumed_early(url: str) -> None:
    with closing(connect(settings_of(url))) as connection:
        migrate(connection, settings_of(url))
        found = connection.execute(
            "SELECT relname, reloptions FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
            (schema_of(url),),
        ).fetchall()
    options = {name: dict(each.split("=") for each in given or ()) for name, given in found}

    assert int(options["job"]["fillfactor"]) < 100
    assert int(options["shard"]["fillfactor"]) <= 50
    for table in ("job", "inbox", "finished_job", "shard"):
        assert float(options[table]["autovacuum_vacuum_scale_factor"]) <= 0.02, table


def test_journal_lines_are_compressed_by_lz4_wherever_the_server_has_it(url: str) -> None:
    """In the inbox, in every existing partition, and in a later one."""
    with closing(connect(settings_of(url))) as connection:
        migrate(connection, settings_of(url))
        connection.execute("SELECT journal_add_partition(4000000)")
        connection.execute("SELECT journal_add_partition(8000000)")
        found = connection.execute(
            "SELECT attrelid::regclass::text, attcompression::text, attstorage::text FROM pg_attribute"
            " WHERE attname = 'lines' AND attrelid::regclass::text ~ '^(inbox|journal(_[0-9]+)?)$' ORDER BY 1"
        ).fetchall()
        [(has_lz4,)] = connection.execute(
            "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
        ).fetchall()

    assert [name for name, *_ in found] == ["inbox", "journal", "journal_0", "journal_1", "journal_2"]
    wanted = [("l", "x")] * 5 if has_lz4 else [("", "e"), *[("", "x")] * 4]
    assert [tuple(each) for _, *each in found] == wanted


async def test_a_claim_walks_the_index_of_ready_jobs_however_many_there_are(url: str) -> None:
    store = await PostgresStore.open(settings_of(url))
    for number in range(5):
        await store.jobs.enqueue([new_job(QUEUE, "send", fresh_id=f"{number}-{each}") for each in range(BATCH)])
    await store.close()

    with closing(connect(settings_of(url))) as connection:
        text = re.sub(r"%b|%s", "NULL", sql("claim_take").decode()).replace("shard_id = NULL", "shard_id = 1")
        [*plan] = connection.execute(f"EXPLAIN {text.replace('LIMIT NULL', 'LIMIT 100')}".encode()).fetchall()

    shown = "\n".join(line for (line,) in plan)
    assert "Index Scan using job_ready" in shown
    assert "Sort" not in shown
    assert "Seq Scan" not in shown


@pytest.mark.parametrize("name", ["job_scan", "finished_job_scan", "dead_letter_scan"])
def test_a_part_of_a_scan_walks_a_key_in_order_and_never_sorts(url: str, name: str) -> None:
    """Also before statistics of the table were gathered."""
    with closing(connect(settings_of(url))) as connection:
        migrate(connection, settings_of(url))
        after = 1 if name == "dead_letter_scan" else "a"
        payloads = () if name == "dead_letter_scan" else (True,)
        [*plan] = connection.execute(b"EXPLAIN " + sql(name), (*payloads, 1, after, 1_000, 4_000_000)).fetchall()

    shown = "\n".join(line for (line,) in plan)
    assert f"Index Scan using {name.removesuffix('_scan')}_pkey" in shown, shown
    assert not re.search(r"Sort|Seq Scan|Bitmap", shown), shown


@pytest.mark.parametrize("table", ["job", "finished_job"])
def test_ids_that_cut_a_shard_are_read_from_its_key_alone(url: str, table: str) -> None:
    with closing(connect(settings_of(url))) as connection:
        migrate(connection, settings_of(url))
        [*plan] = connection.execute(b"EXPLAIN " + sql(f"{table}_id_behind"), (1, "a", 250_000)).fetchall()

    shown = "\n".join(line for (line,) in plan)
    assert f"Index Only Scan using {table}_pkey" in shown, shown
    assert "Sort" not in shown, shown


ENQUEUE = b"""SELECT enqueue_new(1, (SELECT config FROM queue WHERE queue_id = 1), 1, 1000, 1000000,
  ARRAY[%s::text], ARRAY[0::bigint], ARRAY[NULL::bigint], ARRAY[''::bytea], ARRAY[''::bytea], ARRAY[''::bytea], '')"""
SETTLE = b"""SELECT settle_done(1, 1000, 1000000, 100, 'w', 1, '', ARRAY['unkept'], ARRAY[%s::text],
  ARRAY[5000::bigint], ARRAY[0::bigint], ARRAY[''::bytea], ARRAY[''::bytea])"""
PLAIN = b"""SELECT settle_plain(1, (SELECT config FROM queue WHERE queue_id = 1), 1, 1000, 1000, 1000000, 100, 'w', '',
  ARRAY[0::bigint], ARRAY['active-' || %s::text], ARRAY['n.7'], ARRAY[NULL::bytea])"""
ACTIVE = b"""INSERT INTO job (shard_id, id, run_at_ms, expires_at_ms, fence, nonce, body, payload)
SELECT 1, 'active-' || name, 0, 5000, 7, 'n', '\\x93', '' FROM unnest(%s::text[]) AS name"""
READ_SHARDS = b"SELECT claim_read_shards(1000, ARRAY[1::bigint], ARRAY[''], %s::text)"
RECORD = b"SELECT claim_record(1, 1000, %s::text, 1, '', 'nonce', 50000)"
READ = """SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables
WHERE schemaname = current_schema()"""


async def test_plans_made_while_tables_were_empty_read_little_when_they_are_full(url: str) -> None:
    """The plans of functions, which a connection keeps; here until the tables hold a hundred thousand rows."""
    store = await PostgresStore.open(settings_of(url))
    await store.queues.configure(QUEUE, {"priority": 3})
    await store.close()
    with closing(connect(settings_of(url))) as connection:
        for number in range(3):
            connection.execute(ENQUEUE, (f"early-{number}",))
            connection.execute(SETTLE, (f"early-{number}",))
            connection.execute(ACTIVE, ([f"{number}"],))
            connection.execute(PLAIN, (f"{number}",))
            connection.execute(READ_SHARDS, (f"w-{number}",))
            connection.execute(RECORD, (f"w-{number}",))
        for pinned in (False, True):
            connection.execute(
                "INSERT INTO finished_job (shard_id, until_ms, pinned, state, id, body)"
                " SELECT 1, 5000, %s, 'done', %s || n, '' FROM generate_series(1, 50000) AS n",
                (pinned, f"{pinned}-"),
            )
        connection.execute(ACTIVE, ([str(number) for number in range(50_000)],))
        connection.execute(
            "INSERT INTO job (shard_id, id, order_key, run_at_ms, body, payload)"
            " SELECT 1, 'waiting-' || n, nullif(n, 100000 - n), n, '', '' FROM generate_series(1, 50000) AS n"
        )
        connection.execute(
            "INSERT INTO queue (tenant, name, shards, config)"
            " SELECT 'others', n::text, 1, '' FROM generate_series(1, 999) AS n"
        )
        connection.execute("INSERT INTO shard (queue_id, index) SELECT queue_id, 0 FROM queue WHERE tenant = 'others'")
        connection.execute("INSERT INTO worker SELECT 1, n::text, '', 0 FROM generate_series(1, 999) AS n")

        connection.execute("BEGIN")
        before = connection.execute(READ).fetchall()[0][0] or 0
        connection.execute(ENQUEUE, ("late",))
        connection.execute(SETTLE, ("late",))
        connection.execute(PLAIN, ("30000",))
        connection.execute(READ_SHARDS, ("500",))
        connection.execute(RECORD, ("late",))
        after = connection.execute(READ).fetchall()[0][0]
        connection.execute("ROLLBACK")

    assert after - before < 100


NAMED = ("job_lock", "job_load", "job_update", "job_drop", "settle_drop", "key_lock", "key_update")


@pytest.mark.parametrize("queues", [[QUEUE], [Queue("earlier"), QUEUE]], ids=["without statistics", "after them"])
async def test_rows_are_looked_up_by_id_one_by_one_however_many_there_are(url: str, queues: list[Queue]) -> None:
    """Also before statistics of the table were gathered, and in a shard that is younger than they are, which they take
    for empty."""
    store = await PostgresStore.open(settings_of(url))
    for queue in queues:
        for number in range(5):
            ids = [f"{number}-{each}" for each in range(BATCH)]
            await store.jobs.enqueue([new_job(queue, "send", fresh_id=id, idempotency_key=id) for id in ids])
        if queue != QUEUE:
            for table in ("job", "key"):
                postgres_server().ask(f"ANALYZE {schema_of(url)}.{table}")
    await store.close()

    with closing(connect(settings_of(url))) as connection:
        plans = {name: plan_of(connection, name, len(queues)) for name in NAMED}

    for name, shown in plans.items():
        assert re.search(r"Index Scan using (job|key)_pkey", shown), f"{name}: {shown}"
        assert not re.search(r"Sort|Seq Scan|Filter|Hash|Merge", shown), f"{name}: {shown}"


def plan_of(connection: Connection, name: str, shard: int) -> str:
    """The plan for three ids of a shard."""
    text = re.sub(r"%[sb]::text\[\]", "'{0-1,0-2,0-3}'::text[]", sql(name).decode())
    text = re.sub(r"%[sb]::bigint\[\]", f"'{{{shard},{shard},{shard}}}'::bigint[]", text)
    text = re.sub(r"shard_id = %[sb]", f"shard_id = {shard}", re.sub(r"%[sb]::bigint", f"{shard}::bigint", text))
    text = re.sub(r"%[sb]", "NULL", text)
    return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {text}".encode()).fetchall())


async def test_a_hundred_thousand_jobs_leave_a_small_table_behind(url: str) -> None:
    """Dead versions are vacuumed and their room is used again."""
    store = await PostgresStore.open(settings_of(url))
    sizes = []
    for number in range(CHURNED // BATCH):
        await store.jobs.enqueue([new_job(QUEUE, "send", b"x" * 100, fresh_id=f"{number}-{i}") for i in range(BATCH)])
        request = ClaimRequest(queues=[QUEUE], worker="w", nonce=f"nonce-{number:05}", limit=BATCH)
        claims = await store.jobs.claim(request)
        await store.jobs.settle([claim.settle(Done()) for claim in claims.items])
        if number % 10 == 9:
            postgres_server().ask(f"VACUUM {schema_of(url)}.job")
            [(size,)] = postgres_server().ask(f"SELECT pg_total_relation_size('{schema_of(url)}.job')")
            sizes.append(size)
    counts = await store.queues.counts(QUEUE)
    await store.close()

    assert (counts.waiting, counts.active) == (0, 0)
    assert max(sizes) < CHURNED * BYTES_PER_JOB / 4, f"the table grew: {sizes}"
