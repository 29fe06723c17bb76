-- Entries from a key on, oldest first.
--
-- args     lowest key, highest key, limit
SELECT entry_id, count, epoch, at_ms, worker, lines FROM entry WHERE entry_id BETWEEN ? AND ? ORDER BY entry_id LIMIT ?;
