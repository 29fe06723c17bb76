-- Erase what is left of a dropped feed, some rows at a time.
--
-- args     feed_id, limit
DELETE FROM feed_change USING (SELECT feed_id, seq FROM feed_change WHERE feed_id = %s LIMIT %s) AS few
WHERE feed_change.feed_id = few.feed_id AND feed_change.seq = few.seq;
