-- Drop the oldest unpinned finished jobs as long as each is over; what somebody else is at is left to them.
--
-- args     shard_id, limit, now_ms
-- answers  id and state of each
WITH oldest AS MATERIALIZED (
  SELECT shard_id, id, finished_job_id, until_ms FROM finished_job WHERE shard_id = %s AND NOT pinned ORDER BY finished_job_id LIMIT %s
  FOR UPDATE SKIP LOCKED),
over AS (
  SELECT shard_id, id, max(until_ms) OVER (ORDER BY finished_job_id) AS latest_ms FROM oldest)
DELETE FROM finished_job USING over WHERE finished_job.shard_id = over.shard_id AND finished_job.id = over.id AND over.latest_ms <= %s
RETURNING finished_job.id, finished_job.state;
