-- Change what belongs to a delivery and leave the job itself alone.
--
-- args     fence, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, shard_id, id
UPDATE job SET place = NULL, fence = ?, expires_at_ms = ?, claimed_at_ms = ?, cancel_asked = ?, nonce = ?, worker = ?
WHERE shard_id = ? AND id = ?;
