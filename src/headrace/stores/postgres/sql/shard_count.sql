-- How many records of a shard stand where, counted from the rows, without what calls in the inbox have changed: what the
-- shard's row should say.
--
-- args     shard_id nine times
-- answers  ready, later, blocked, active, done, cancelled, dead, unpinned
SELECT
  (SELECT count(*) FROM job WHERE shard_id = %s AND order_key IS NOT NULL) - i.ready,
  (SELECT count(*) FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL) - i.later,
  (SELECT count(*) FROM job WHERE shard_id = %s AND blocked_job IS NOT NULL) - i.blocked,
  (SELECT count(*) FROM job WHERE shard_id = %s AND fence IS NOT NULL) - i.active,
  (SELECT count(*) FROM finished_job WHERE shard_id = %s AND state = 'done') - i.done,
  (SELECT count(*) FROM finished_job WHERE shard_id = %s AND state <> 'done') - i.cancelled,
  (SELECT count(*) FROM dead_letter WHERE shard_id = %s) - i.dead,
  (SELECT count(*) FROM finished_job WHERE shard_id = %s AND NOT pinned) - i.unpinned
FROM (
  SELECT
    coalesce(sum(ready), 0)::bigint AS ready, coalesce(sum(later), 0)::bigint AS later,
    coalesce(sum(blocked), 0)::bigint AS blocked, coalesce(sum(active), 0)::bigint AS active,
    coalesce(sum(done), 0)::bigint AS done, coalesce(sum(cancelled), 0)::bigint AS cancelled,
    coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(unpinned), 0)::bigint AS unpinned
  FROM inbox WHERE shard_id = %s) AS i;
