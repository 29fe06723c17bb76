-- The jobs of a batch whose leases have not run out; an id that is named twice comes twice.
--
-- args     ids as a JSON array, shard_id, now_ms
-- answers  job_id, id, fence, nonce and body of each
SELECT job.job_id, job.id, job.fence, job.nonce, job.body
FROM json_each(?) CROSS JOIN job INDEXED BY job_by_id
ON job.shard_id = ? AND job.id = json_each.value AND job.expires_at_ms > ?;
