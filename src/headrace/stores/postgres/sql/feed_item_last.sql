-- Which items come before a rank, or all.
--
-- args     feed_id, rank, limit
-- answers  id, rank and at_ms of each, backwards
SELECT id, rank, at_ms FROM feed_item WHERE feed_id = %s AND rank < %s ORDER BY rank DESC LIMIT %s;
