-- Erase what is left of a dropped feed, some rows at a time.
--
-- args     feed_id, limit
DELETE FROM feed_item USING (SELECT feed_id, id FROM feed_item WHERE feed_id = %s LIMIT %s) AS few
WHERE feed_item.feed_id = few.feed_id AND feed_item.id = few.id;
