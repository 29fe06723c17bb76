-- How old and how large the changes from a seq on are.
--
-- args     feed_id, seq, limit
-- answers  seq, at_ms and size of each, in order
SELECT seq, at_ms, octet_length(id) + octet_length(item)
FROM feed_change WHERE feed_id = %s AND seq >= %s ORDER BY seq LIMIT %s;
