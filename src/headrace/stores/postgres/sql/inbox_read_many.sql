-- The first calls in the inbox of each of some shards, shard by shard and in order, without their lines.
--
-- args     shard_ids, limit for each
-- answers  shard_id, then as inbox_read
SELECT
  given.shard_id, ticket, now_ms, count, octet_length(lines), ready, later, blocked, active, done, cancelled, dead,
  unpinned
FROM unnest(%s::bigint[]) AS given (shard_id)
CROSS JOIN LATERAL (
  SELECT * FROM inbox WHERE inbox.shard_id = given.shard_id ORDER BY ticket LIMIT %s) AS call
ORDER BY given.shard_id, ticket;
