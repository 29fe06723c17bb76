-- args     shard_id
SELECT id, state, kind, tag, enqueued_at_ms, ended_at_ms, until_ms, pinned, attempts, stalls, result
FROM ending WHERE shard_id = ?;
