-- Change what belongs to a delivery and leave the job itself alone.
--
-- args     expires_at_ms, fence, nonce, lease, shard_id, id
UPDATE job SET order_key = NULL, expires_at_ms = ?, fence = ?, nonce = ?, lease = ? WHERE shard_id = ? AND id = ?;
