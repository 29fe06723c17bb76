-- Statements on the inbox: calls whose events have no numbers yet.

-- name: inbox_write
-- Append calls to the inbox, in order.
--
-- args     arrays: shard_id, now_ms, count, worker, lines, by how much each count changed
INSERT INTO inbox (
  shard_id, now_ms, count, worker, lines, ready, later, blocked, active, done, cancelled, dead, unpinned)
SELECT * FROM unnest(
  %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::bytea[], %s::integer[], %s::integer[], %s::integer[],
  %s::integer[], %s::integer[], %s::integer[], %s::integer[], %s::integer[]);

-- name: inbox_read
-- The first calls in the inbox of a shard, in order; of their lines only the number of bytes.
--
-- args     shard_id, limit
SELECT
  ticket, now_ms, count, octet_length(lines), ready, later, blocked, active, done, cancelled, dead, unpinned
FROM inbox WHERE shard_id = %s ORDER BY ticket LIMIT %s;

-- name: inbox_read_many
-- The first calls in the inbox of each of some shards, shard by shard and in order, without their lines.
--
-- args     shard_ids, limit for each
-- answers  shard_id, then as inbox_read
SELECT
  wanted.shard_id, ticket, now_ms, count, octet_length(lines), ready, later, blocked, active, done, cancelled, dead,
  unpinned
FROM unnest(%s::bigint[]) AS wanted (shard_id)
CROSS JOIN LATERAL (
  SELECT * FROM inbox WHERE inbox.shard_id = wanted.shard_id ORDER BY ticket LIMIT %s) AS call
ORDER BY wanted.shard_id, ticket;

-- name: inbox_number
-- Move numbered calls from the inbox of a shard to its journal inside the server, since lines are most of their bytes.
-- A call without lines, or one that retention has dropped already, is only deleted.
--
-- args     arrays: ticket, last_seq or NULL, at_ms; then shard_id, epoch, the last seq that retention has dropped
WITH gone AS (
  DELETE FROM inbox USING unnest(%b::bigint[], %b::bigint[], %b::bigint[]) AS numbered (ticket, last_seq, at_ms)
  WHERE inbox.shard_id = %b::bigint AND inbox.ticket = numbered.ticket
  RETURNING inbox.shard_id, numbered.last_seq, numbered.at_ms, inbox.count, inbox.worker, inbox.lines
)
INSERT INTO journal (shard_id, last_seq, epoch, at_ms, count, worker, lines)
SELECT shard_id, last_seq, %b::bigint, at_ms, count, worker, lines FROM gone WHERE last_seq > %b::bigint;
