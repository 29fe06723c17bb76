-- Leave what calls have done, in order.
--
-- args     arrays: shard_id, now_ms, count, worker, lines, by how much each count changed
INSERT INTO inbox (
  shard_id, now_ms, count, worker, lines, ready, later, blocked, active, done, cancelled, dead, unpinned)
SELECT * FROM unnest(
  %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::bytea[], %s::integer[], %s::integer[], %s::integer[],
  %s::integer[], %s::integer[], %s::integer[], %s::integer[], %s::integer[]);
