-- Drop an active job whose lease holds; nothing happens to any other.
--
-- args     shard_id, id, fence, nonce, now_ms
DELETE FROM job WHERE shard_id = ? AND id = ? AND fence = ? AND nonce = ? AND expires_at_ms > ?;
