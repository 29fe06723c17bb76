-- Insert an ending; an id that has one is a constraint error.
--
-- args     ending_id, shard_id, then the columns in the order of ending_find
INSERT INTO ending (ending_id, shard_id, id, state, pinned, until_ms, body, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?);
