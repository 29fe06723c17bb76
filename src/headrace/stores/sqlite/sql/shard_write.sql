-- Write the counters of a shard.
--
-- args     the counters in the order of shard_read, shard_id
UPDATE shard SET epoch = ?, seq = ?, at_ms = ?, fence = ?, number = ?, letter = ?, first_seq = ?, journal_bytes = ?, oldest_at_ms = ?,
       ready = ?, later = ?, blocked = ?, active = ?, done = ?, cancelled = ?, dead = ?, unpinned = ?, ending = ?
WHERE shard_id = ?;
