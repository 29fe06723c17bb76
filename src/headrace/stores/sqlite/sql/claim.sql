-- Hand out the ready jobs of an unbroken run of places: fences count up with them, so that none must be told its own.
--
-- args     1 fence of place 0, 2 expires_at_ms, 3 nonce, 4 lease, 5 shard_id, 6 first place, 7 last place
UPDATE job SET fence = ?1 + place, place = NULL, expires_at_ms = ?2, nonce = ?3, lease = ?4
WHERE shard_id = ?5 AND place BETWEEN ?6 AND ?7;
