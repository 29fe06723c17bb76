-- The end of the oldest unpinned finished job, and the first end of a pinned one.
--
-- args     shard_id
SELECT
  (SELECT until_ms FROM finished_job WHERE shard_id = of.shard_id AND NOT pinned ORDER BY finished_job_id LIMIT 1),
  (SELECT until_ms FROM finished_job WHERE shard_id = of.shard_id AND pinned ORDER BY until_ms, id LIMIT 1)
FROM (SELECT %s::bigint AS shard_id) AS of;
