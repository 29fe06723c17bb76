-- The ends of the oldest unpinned endings, oldest first.
--
-- args     lowest key, highest key, limit
SELECT until_ms FROM ending WHERE ending_id BETWEEN ? AND ? ORDER BY ending_id LIMIT ?;
