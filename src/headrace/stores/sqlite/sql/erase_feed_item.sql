-- Erase what a dropped feed held, some rows at a time.
--
-- args     feed_id, limit
DELETE FROM feed_item WHERE item_id IN (SELECT item_id FROM feed_item WHERE feed_id = ? LIMIT ?);
