-- Write the counters of a shard.
--
-- args     the counters in the order of shard_read, shard_id
UPDATE shard SET epoch = ?, seq = ?, at_ms = ?, fence = ?, number = ?, dead_letter = ?, first_seq = ?, journal_bytes = ?, oldest_at_ms = ?,
       ready = ?, later = ?, blocked = ?, active = ?, done = ?, cancelled = ?, dead = ?, unpinned = ?, finished_job = ?
WHERE shard_id = ?;
