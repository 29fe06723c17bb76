-- Statements on queues.

-- name: queue_open
-- Read a queue, its fail queue or main queue, some shards of the queue, and the clock. Counts are those of the shard's
-- row plus the changes in its inbox.
--
-- args     name, indexes of shards, tenant, both names
-- answers  the clock, then per queue and shard: name, queue_id, shards, config, whether a process waits for the end of
--          a job, index, shard_id, calls in the inbox, the journal's counters, the counts
SELECT
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, q.name, q.queue_id, q.shards, q.config,
  q.awaited_until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, s.index, s.shard_id, i.calls,
  s.epoch, s.seq, s.at_ms, s.first_seq, s.journal_bytes, s.oldest_at_ms, s.ready + i.ready, s.later + i.later,
  s.blocked + i.blocked, s.active + i.active, s.done + i.done, s.cancelled + i.cancelled, s.dead + i.dead,
  s.unpinned + i.unpinned
FROM (SELECT %s::text AS name, %s::integer[] AS indexes) AS wanted
LEFT JOIN queue AS q ON q.tenant = %s AND q.name = ANY (%s::text[])
LEFT JOIN shard AS s ON s.queue_id = q.queue_id AND q.name = wanted.name AND s.index = ANY (wanted.indexes)
LEFT JOIN LATERAL (
  SELECT
    count(*) AS calls, coalesce(sum(ready), 0)::bigint AS ready, coalesce(sum(later), 0)::bigint AS later,
    coalesce(sum(blocked), 0)::bigint AS blocked, coalesce(sum(active), 0)::bigint AS active,
    coalesce(sum(done), 0)::bigint AS done, coalesce(sum(cancelled), 0)::bigint AS cancelled,
    coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(unpinned), 0)::bigint AS unpinned
  FROM inbox WHERE inbox.shard_id = s.shard_id) AS i ON true;

-- name: queue_find
-- A queue with its shards.
--
-- args     tenant, name
-- answers  its id, its configuration, the ids of its shards by index
SELECT queue_id, config, array_agg(shard_id ORDER BY index)
FROM queue JOIN shard USING (queue_id)
WHERE tenant = %s::text AND name = %s::text
GROUP BY queue_id

-- name: queue_names
-- Queues of a tenant after a name, by name.
--
-- args     tenant, after name, limit
SELECT name, shards FROM queue WHERE tenant = %s AND name > %s ORDER BY name LIMIT %s;

-- name: queue_tenants
-- Tenants after a name, by name.
--
-- args     after name, limit
SELECT DISTINCT tenant FROM queue WHERE tenant > %s ORDER BY tenant LIMIT %s;

-- name: queue_create
-- Insert a queue; a known one is a unique violation.
--
-- args     tenant, name, shards, config
-- answers  queue_id
INSERT INTO queue (tenant, name, shards, config) VALUES (%s, %s, %s, %s) RETURNING queue_id;

-- name: queue_configure
-- Replace a configuration, if it is still the one that was read.
--
-- args     config, queue_id, config as it was read
UPDATE queue SET config = %s WHERE queue_id = %s AND config = %s;

-- name: queue_await_ends
-- Announce that a process waits for the end of a job of a queue, unless the announcement still lasts long enough.
--
-- args     milliseconds that it lasts, tenant, name, milliseconds that must be left
UPDATE queue SET awaited_until_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + %s
WHERE tenant = %s AND name = %s
  AND awaited_until_ms < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + %s;

-- name: queue_lock
-- Lock all queues against readers until this transaction ends: waits for every transaction that has read one.
LOCK TABLE queue IN ACCESS EXCLUSIVE MODE;

-- name: queue_has_rows
-- Whether shards hold any jobs, or calls in their inboxes.
--
-- args     shard_ids
SELECT 1 WHERE EXISTS (SELECT FROM job WHERE shard_id = ANY (%s::bigint[]))
UNION ALL
SELECT 1 WHERE EXISTS (SELECT FROM inbox WHERE shard_id = ANY (%s::bigint[]));

-- name: queue_forget
-- Forget a queue.
--
-- args     queue_id
DELETE FROM queue WHERE queue_id = %s;
