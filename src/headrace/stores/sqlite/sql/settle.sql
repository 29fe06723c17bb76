-- Drop the jobs of a batch whose leases have not run out; the caller compares the tokens and rolls back if one differs.
--
-- args     shard_id, ids as a JSON array, now_ms
-- answers  id, fence, nonce and body of each
DELETE FROM job INDEXED BY job_by_id
WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
RETURNING id, fence, nonce, body;
