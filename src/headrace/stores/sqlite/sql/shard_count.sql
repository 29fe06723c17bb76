-- How many records of a shard stand where, counted from the indexes of the rows themselves.
--
-- args     shard_id, by name
-- answers  ready, later, blocked, active, done, cancelled, dead, unpinned
SELECT
  (SELECT count(*) FROM job WHERE shard_id = :shard_id AND order_key IS NOT NULL),
  (SELECT count(*) FROM job WHERE shard_id = :shard_id AND order_key IS NULL AND fence IS NULL),
  (SELECT count(*) FROM blocked_job WHERE shard_id = :shard_id),
  (SELECT count(*) FROM job WHERE shard_id = :shard_id AND fence IS NOT NULL),
  (SELECT count(*) FROM finished_job WHERE shard_id = :shard_id AND state = 'done'),
  (SELECT count(*) FROM finished_job WHERE shard_id = :shard_id AND state <> 'done'),
  (SELECT count(*) FROM dead_letter WHERE shard_id = :shard_id),
  (SELECT count(*) FROM finished_job WHERE shard_id = :shard_id AND pinned = 0);
