-- Drop the oldest unpinned finished jobs; what somebody else is at is left to them.
--
-- args     shard_id, limit
-- answers  id and state of each
WITH over AS MATERIALIZED (
  SELECT shard_id, id FROM finished_job WHERE shard_id = %s AND NOT pinned ORDER BY finished_job_id LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM finished_job USING over WHERE finished_job.shard_id = over.shard_id AND finished_job.id = over.id
RETURNING finished_job.id, finished_job.state;
