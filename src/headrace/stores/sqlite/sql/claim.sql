-- Hand out the first ready jobs: each gets the next fence, in order of place.
--
-- args     1 last fence, 2 expires_at_ms, 3 nonce, 4 lease, 5 shard_id, 6 limit
-- answers  what a claim needs of each, in no order: sort by fence
UPDATE job SET place = NULL, fence = ?1 + picked.rank, expires_at_ms = ?2, nonce = ?3, lease = ?4
FROM (
  SELECT job_id, row_number() OVER (ORDER BY place) AS rank
  FROM job WHERE shard_id = ?5 AND place IS NOT NULL ORDER BY place LIMIT ?6
) AS picked
WHERE job.job_id = picked.job_id
RETURNING job.fence, job.id, job.run_at_ms, job.body, job.payload;
