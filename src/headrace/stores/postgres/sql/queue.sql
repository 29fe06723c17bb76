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

-- name: queue_overview
-- Queues of a tenant by name, with their counts: those of some names, or those after a name. Counts are those of the
-- shards' rows plus the changes in their inboxes, and the first ready job of each priority and the first later one, if
-- its time has come, tell since when the oldest has been due.
--
-- args     tenant, names or NULL, after name, now_ms or NULL for the clock, limit, bits of a number twice
-- answers  per queue: name, shards, config, ready, later, blocked, active, done, cancelled, dead, events; run_at_ms and
--          body of the first jobs, as arrays or NULL
WITH arg AS MATERIALIZED (
  SELECT
    %s::text AS tenant, %s::text[] AS names, %s::text AS after,
    coalesce(%s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms, %s::integer AS most),
page AS MATERIALIZED (
  SELECT queue_id, name, shards, config FROM arg JOIN queue ON queue.tenant = arg.tenant AND queue.name = ANY (arg.names)
  UNION ALL
  SELECT next.* FROM arg CROSS JOIN LATERAL (
    SELECT queue_id, name, shards, config FROM queue
    WHERE arg.names IS NULL AND queue.tenant = arg.tenant AND queue.name > arg.after
    ORDER BY queue.name LIMIT arg.most) AS next),
counted AS (
  SELECT
    page.queue_id, sum(s.ready + i.ready)::bigint, sum(s.later + i.later)::bigint, sum(s.blocked + i.blocked)::bigint,
    sum(s.active + i.active)::bigint, sum(s.done + i.done)::bigint, sum(s.cancelled + i.cancelled)::bigint,
    sum(s.dead + i.dead)::bigint, sum(s.seq + i.events)::bigint
  FROM page JOIN shard AS s USING (queue_id)
  CROSS JOIN LATERAL (
    SELECT
      coalesce(sum(count), 0) AS events, coalesce(sum(ready), 0) AS ready, coalesce(sum(later), 0) AS later,
      coalesce(sum(blocked), 0) AS blocked, coalesce(sum(active), 0) AS active, coalesce(sum(done), 0) AS done,
      coalesce(sum(cancelled), 0) AS cancelled, coalesce(sum(dead), 0) AS dead
    FROM inbox WHERE inbox.shard_id = s.shard_id) AS i
  GROUP BY page.queue_id),
due AS (
  SELECT page.queue_id, array_agg(first.run_at_ms) AS run_at_ms, array_agg(first.body) AS body
  FROM arg CROSS JOIN page JOIN shard AS s USING (queue_id)
  CROSS JOIN LATERAL (
    SELECT ready.run_at_ms, ready.body FROM generate_series(0, 9) AS rank, LATERAL (
      SELECT run_at_ms, body FROM job
      WHERE job.shard_id = s.shard_id
        AND order_key >= rank::bigint << %s::integer AND order_key < (rank + 1)::bigint << %s::integer
      ORDER BY order_key LIMIT 1) AS ready
    UNION ALL
    (SELECT run_at_ms, body FROM (
      SELECT run_at_ms, body FROM job WHERE job.shard_id = s.shard_id AND order_key IS NULL AND fence IS NULL
      ORDER BY run_at_ms, id LIMIT 1) AS later
    WHERE run_at_ms <= arg.now_ms)) AS first
  GROUP BY page.queue_id)
SELECT page.name, page.shards, page.config, counted.*, due.run_at_ms, due.body
FROM page JOIN counted USING (queue_id) LEFT JOIN due USING (queue_id)
ORDER BY page.name;

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
