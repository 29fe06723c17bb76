-- The counters of a shard, in the order that shard_write takes them.
--
-- args     queue_id, shard
SELECT shard_id, epoch, seq, at_ms, fence, number, dead_letter, first_seq, journal_bytes, oldest_at_ms,
       ready, later, blocked, active, done, cancelled, dead, unpinned, finished_job
FROM shard WHERE queue_id = ? AND shard = ?;
