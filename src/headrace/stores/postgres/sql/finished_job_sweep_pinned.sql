-- Drop pinned finished jobs whose time is over, by its end; what somebody else is at is left to them.
--
-- args     shard_id, now_ms, limit
-- answers  id and state of each
WITH over AS MATERIALIZED (
  SELECT shard_id, id FROM finished_job WHERE shard_id = %s AND pinned AND until_ms <= %s ORDER BY until_ms, id LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM finished_job USING over WHERE finished_job.shard_id = over.shard_id AND finished_job.id = over.id
RETURNING finished_job.id, finished_job.state;
