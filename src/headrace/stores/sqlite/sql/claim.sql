-- Hand out the ready jobs of an unbroken run of order keys: fences count up with them, so that none must be told its own.
--
-- args     fence of order key 0, expires_at_ms, nonce, lease, shard_id, first order key, last order key
UPDATE job SET fence = ? + order_key, order_key = NULL, expires_at_ms = ?, nonce = ?, lease = ?
WHERE shard_id = ? AND order_key BETWEEN ? AND ?;
