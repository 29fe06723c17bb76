-- name: feed_item_load
-- The items of a batch.
--
-- args     feed_id, ids as a JSON array
SELECT id, item, rank, at_ms FROM feed_item
WHERE feed_id = ? AND id IN (SELECT CAST(value AS BLOB) FROM json_each(?));

-- name: feed_item_find
-- An item by id.
--
-- args     feed_id, id
SELECT item, rank, at_ms FROM feed_item WHERE feed_id = ? AND id = ?;

-- name: feed_item_first
-- Items behind a rank, in order.
--
-- args     feed_id, rank, limit
SELECT id, item, rank, at_ms FROM feed_item WHERE feed_id = ? AND rank > ? ORDER BY rank LIMIT ?;

-- name: feed_item_last
-- Items before a rank, backwards.
--
-- args     feed_id, rank, limit
SELECT id, item, rank, at_ms FROM feed_item WHERE feed_id = ? AND rank < ? ORDER BY rank DESC LIMIT ?;

-- name: feed_item_write
-- Insert an item, or replace the item with its id.
--
-- args     feed_id, id, rank, at_ms, item
INSERT INTO feed_item (feed_id, id, rank, at_ms, item) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (feed_id, id) DO UPDATE SET rank = excluded.rank, at_ms = excluded.at_ms, item = excluded.item;

-- name: feed_item_drop
-- Drop an item.
--
-- args     feed_id, id
DELETE FROM feed_item WHERE feed_id = ? AND id = ?;

-- name: feed_item_erase
-- Erase the items of a dropped feed, up to a limit.
--
-- args     feed_id, limit
DELETE FROM feed_item WHERE item_id IN (SELECT item_id FROM feed_item WHERE feed_id = ? LIMIT ?);
