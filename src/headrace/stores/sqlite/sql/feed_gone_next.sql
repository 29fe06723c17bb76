-- The next dropped feed that something may be left of.
--
-- args     feed_id behind which to look
SELECT feed_id FROM feed_gone WHERE feed_id > ? ORDER BY feed_id LIMIT 1;
