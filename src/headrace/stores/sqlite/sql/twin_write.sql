-- Write a blocked twin.
--
-- args     shard_id, id, body
INSERT OR REPLACE INTO twin (shard_id, id, body) VALUES (?, ?, ?);
