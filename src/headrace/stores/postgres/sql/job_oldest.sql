-- The first ready job of each priority, and the first later one if its time has come.
--
-- args     shard_id, bits of a number, bits of a number, shard_id, now_ms
-- answers  run_at_ms and body of each
SELECT first.run_at_ms, first.body
FROM (SELECT %s::bigint AS shard_id) AS of, generate_series(0, 9) AS rank, LATERAL (
  SELECT run_at_ms, body FROM job
  WHERE job.shard_id = of.shard_id
    AND order_key >= rank::bigint << %s::integer AND order_key < (rank + 1)::bigint << %s::integer
  ORDER BY order_key LIMIT 1) AS first
UNION ALL
(SELECT run_at_ms, body FROM (
  SELECT run_at_ms, body FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL
  ORDER BY run_at_ms, id LIMIT 1) AS later
WHERE run_at_ms <= %s);
