-- Write a letter.
--
-- args     shard_id, number, id, until_ms, body
INSERT INTO letter (shard_id, number, id, until_ms, body) VALUES (?, ?, ?, ?, ?);
