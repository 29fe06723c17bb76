-- Nothing is left of a dropped feed.
--
-- args     feed_id
DELETE FROM feed_gone WHERE feed_id = ?;
