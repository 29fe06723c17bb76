-- Forget a dropped feed of which nothing is left.
--
-- args     feed_id
DELETE FROM feed_gone WHERE feed_id = %s;
