-- A used idempotency key.
--
-- args     shard_id, id, key
SELECT fingerprint, until_ms FROM idempotency WHERE shard_id = ? AND id = ? AND key = ?;
