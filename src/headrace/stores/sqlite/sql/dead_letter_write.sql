-- Write a dead letter.
--
-- args     shard_id, number, id, until_ms, body
INSERT INTO dead_letter (shard_id, number, id, until_ms, body) VALUES (?, ?, ?, ?, ?);
