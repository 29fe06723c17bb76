-- An item by id.
--
-- args     feed_id, id
SELECT item, rank, at_ms FROM feed_item WHERE feed_id = ? AND id = ?;
