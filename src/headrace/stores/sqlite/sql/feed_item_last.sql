-- Items before a rank, backwards.
--
-- args     feed_id, rank, limit
SELECT id, item, rank, at_ms FROM feed_item WHERE feed_id = ? AND rank < ? ORDER BY rank DESC LIMIT ?;
