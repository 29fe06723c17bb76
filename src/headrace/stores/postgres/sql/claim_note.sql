-- Note what a claim has handed out on a shard.
--
-- args     shard id, now, worker, how many, their lines, nonce, the last place
-- answers  whether a ready job stands behind that place
WITH given AS MATERIALIZED (
  SELECT %b::bigint AS shard_id, %b::bigint AS now_ms, %s::text AS worker, %b::bigint AS taken, %b::bytea AS lines,
    %s::text AS nonce
), noted AS (
  INSERT INTO inbox (shard_id, now_ms, count, ready, active, worker, lines)
  SELECT shard_id, now_ms, taken, -taken, taken, worker, lines FROM given
), seen AS (
  INSERT INTO worker (shard_id, name, nonce, seen_at_ms) SELECT shard_id, worker, nonce, now_ms FROM given
  ON CONFLICT (shard_id, name) DO UPDATE SET nonce = excluded.nonce, seen_at_ms = excluded.seen_at_ms
)
SELECT EXISTS (SELECT FROM job WHERE job.shard_id = (SELECT shard_id FROM given) AND place > %b::bigint)
