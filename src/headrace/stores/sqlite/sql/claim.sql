-- Hand out the ready jobs of an unbroken run of places: fences count up with them, so that none must be told its own.
--
-- args     fence of place 0, expires_at_ms, nonce, lease, shard_id, first place, last place
UPDATE job SET fence = ? + place, place = NULL, expires_at_ms = ?, nonce = ?, lease = ?
WHERE shard_id = ? AND place BETWEEN ? AND ?;
