-- Erase the log of a dropped feed, some rows at a time.
--
-- args     feed_id, limit
DELETE FROM feed_change WHERE change_id IN (SELECT change_id FROM feed_change WHERE feed_id = ? LIMIT ?);
