-- Insert a run of endings that differ in id and body only; an id that has one is a constraint error.
--
-- args     ending_id of the first, shard_id, state, pinned, until_ms, bodies of one length as one blob, that length
--          twice, result, ids as a JSON array
INSERT INTO ending (ending_id, shard_id, id, state, pinned, until_ms, body, result)
SELECT ? + key, ?, value, ?, ?, ?, substr(?, key * ? + 1, ?), ? FROM json_each(?);
