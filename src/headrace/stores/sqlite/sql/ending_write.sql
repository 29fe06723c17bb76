-- args     ending_id, shard_id, then the columns in the order of ending_find
INSERT INTO ending (ending_id, shard_id, id, state, kind, tag, enqueued_at_ms, ended_at_ms, until_ms, pinned, attempts, stalls, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
