-- Which items come behind a rank.
--
-- args     feed_id, rank, limit
-- answers  id, rank and at_ms of each, in order
SELECT id, rank, at_ms FROM feed_item WHERE feed_id = %s AND rank > %s ORDER BY rank LIMIT %s;
