-- Statements on the whole store: its clock, its server, its schema, and what a crash of the server changes.

-- name: now
-- The store's clock, in milliseconds.
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: server_settings
-- Settings of the server that the safety of jobs depends on.
--
-- answers  whether fsync, full_page_writes and autovacuum are on; connections of clients, and how many there may be
SELECT
  current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
  current_setting('autovacuum')::boolean,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint;

-- name: layout_write
-- Record the number of the last migration that was applied.
--
-- args     its number
INSERT INTO store (layout) VALUES (%s) ON CONFLICT (one) DO UPDATE SET layout = excluded.layout

-- name: crash_mark_find
-- Whether the server has run without a crash since the mark was set.
--
-- answers  a row if so
SELECT one FROM crash_mark

-- name: crash_mark_lock
-- Let one connection at a time check and set the crash mark.
LOCK TABLE crash_mark IN SHARE ROW EXCLUSIVE MODE

-- name: crash_mark_write
-- Set the crash mark.
INSERT INTO crash_mark (one) VALUES (true)

-- name: epoch_highest
-- The highest epoch of any shard or feed, and the clock.
SELECT coalesce(max(epoch), 1), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (SELECT epoch FROM shard UNION ALL SELECT epoch FROM feed) AS every;

-- name: next_numbers
-- The next numbers of a sequence, ascending.
--
-- args     sequence, how many
SELECT nextval(%s::regclass) FROM generate_series(1, %s);

-- name: fence_raise
-- Raise the next fence above any that may have been lost: to the clock in microseconds.
--
-- args     the jump to make where the clock was put back
SELECT setval('next_fence', CASE WHEN now_us > known THEN now_us ELSE known + %s::bigint END)
FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us, nextval('next_fence') AS known)
  AS present

-- name: set_lock_timeout
-- Wait no longer than a second for the next locks of this transaction: every reader of a queue waits behind them.
SELECT set_config('lock_timeout', '1000', true);

-- name: caller_tx_enter
-- Let statements find our tables until the caller's transaction ends, or `caller_tx_leave`.
--
-- args     schema
-- answers  the search_path before
WITH before AS MATERIALIZED (SELECT current_setting('search_path') AS path)
SELECT path FROM before, set_config('search_path', %s::text, true)

-- name: caller_tx_leave
-- Restore the caller's search_path, and notify waiters when its transaction commits.
--
-- args     search_path, channel, payloads
SELECT set_config('search_path', %s::text, true),
  (SELECT count(pg_notify(%s::text, payload)) FROM unnest(%s::text[]) AS payload)
