-- The items of a batch.
--
-- args     feed_id, ids as a JSON array
SELECT id, item, rank, at_ms FROM feed_item
WHERE feed_id = ? AND id IN (SELECT CAST(value AS BLOB) FROM json_each(?));
