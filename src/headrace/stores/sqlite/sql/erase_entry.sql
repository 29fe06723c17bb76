-- Erase what is left of a shard's journal, some entries at a time.
--
-- args     lowest key, highest key, limit
DELETE FROM entry WHERE entry_id IN (SELECT entry_id FROM entry WHERE entry_id BETWEEN ? AND ? LIMIT ?);
