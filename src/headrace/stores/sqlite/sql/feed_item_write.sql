-- Keep an item, new or in order key of the one with its id.
--
-- args     feed_id, id, rank, at_ms, item
INSERT INTO feed_item (feed_id, id, rank, at_ms, item) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (feed_id, id) DO UPDATE SET rank = excluded.rank, at_ms = excluded.at_ms, item = excluded.item;
