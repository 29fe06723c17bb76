-- Drop an item.
--
-- args     feed_id, id
DELETE FROM feed_item WHERE feed_id = ? AND id = ?;
