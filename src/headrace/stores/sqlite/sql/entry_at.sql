-- The first entry from a key on, without its lines: of a whole journal only some entries are looked at.
--
-- args     lowest key, highest key
SELECT entry_id, count, at_ms FROM entry WHERE entry_id BETWEEN ? AND ? ORDER BY entry_id LIMIT 1;
