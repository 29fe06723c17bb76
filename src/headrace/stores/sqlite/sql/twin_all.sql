-- args     shard_id
SELECT body FROM twin WHERE shard_id = ?;
