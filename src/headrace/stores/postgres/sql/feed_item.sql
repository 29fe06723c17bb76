-- Statements on the items of feeds.

-- name: feed_item_load
-- Read items.
--
-- args     ids, feed_id
-- answers  id, rank, at_ms and item of each that exists
SELECT feed_item.id, rank, at_ms, item
FROM unnest(%s::bytea[]) AS wanted (id)
JOIN feed_item ON feed_item.feed_id = %s AND feed_item.id = wanted.id;

-- name: feed_item_load_around
-- Read items of a sorted feed, each with its neighbours.
--
-- args     feed_id, ids
-- answers  id, rank, at_ms and item of each that exists; id, rank and at_ms of the one before and of the one after it
SELECT
  known.id, known.rank, known.at_ms, known.item, before.id, before.rank, before.at_ms, behind.id, behind.rank,
  behind.at_ms
FROM (SELECT %s::bigint AS feed_id) AS of
CROSS JOIN unnest(%s::bytea[]) AS wanted (id)
JOIN feed_item AS known ON known.feed_id = of.feed_id AND known.id = wanted.id
LEFT JOIN LATERAL (
  SELECT id, rank, at_ms FROM feed_item WHERE feed_id = of.feed_id AND rank < known.rank ORDER BY rank DESC LIMIT 1
) AS before ON true
LEFT JOIN LATERAL (
  SELECT id, rank, at_ms FROM feed_item WHERE feed_id = of.feed_id AND rank > known.rank ORDER BY rank LIMIT 1
) AS behind ON true;

-- name: feed_item_first
-- Items after a rank, without their bytes.
--
-- args     feed_id, rank, limit
-- answers  id, rank and at_ms of each, in order
SELECT id, rank, at_ms FROM feed_item WHERE feed_id = %s AND rank > %s ORDER BY rank LIMIT %s;

-- name: feed_item_last
-- Items before a rank, without their bytes.
--
-- args     feed_id, rank, limit
-- answers  id, rank and at_ms of each, backwards
SELECT id, rank, at_ms FROM feed_item WHERE feed_id = %s AND rank < %s ORDER BY rank DESC LIMIT %s;

-- name: feed_item_read
-- Read the items after a rank, until they reach a number of bytes.
--
-- args     feed_id, rank, limit, bytes
-- answers  id, rank, at_ms and item of each, in order
SELECT id, rank, at_ms, item FROM (
  SELECT
    id, rank, at_ms, item,
    sum(octet_length(id) + octet_length(item)) OVER (ORDER BY rank) - octet_length(id) - octet_length(item)
      AS bytes_before
  FROM (
    SELECT id, rank, at_ms, item FROM feed_item WHERE feed_id = %s AND rank > %s ORDER BY rank LIMIT %s) AS page
) AS measured
WHERE bytes_before < %s ORDER BY rank;

-- name: feed_item_insert
-- Insert new items: half the work of feed_item_write.
--
-- args     feed_id, arrays: id, rank, at_ms, item
INSERT INTO feed_item (feed_id, id, rank, at_ms, item)
SELECT %s::bigint, * FROM unnest(%s::bytea[], %s::text[], %s::bigint[], %s::bytea[]);

-- name: feed_item_write
-- Insert or update items.
--
-- args     feed_id, arrays: id, rank, at_ms, item
INSERT INTO feed_item (feed_id, id, rank, at_ms, item)
SELECT %s::bigint, * FROM unnest(%s::bytea[], %s::text[], %s::bigint[], %s::bytea[])
ON CONFLICT (feed_id, id) DO UPDATE SET rank = excluded.rank, at_ms = excluded.at_ms, item = excluded.item;

-- name: feed_item_rank
-- Change the ranks of items.
--
-- args     feed_id, arrays: id, rank
UPDATE feed_item SET rank = new.rank
FROM (SELECT %s::bigint AS feed_id) AS of, unnest(%s::bytea[], %s::text[]) AS new (id, rank)
WHERE feed_item.feed_id = of.feed_id AND feed_item.id = new.id;

-- name: feed_item_drop
-- Drop items.
--
-- args     feed_id, ids
DELETE FROM feed_item USING (SELECT %s::bigint AS feed_id) AS of, unnest(%s::bytea[]) AS gone (id)
WHERE feed_item.feed_id = of.feed_id AND feed_item.id = gone.id;

-- name: feed_item_erase
-- Erase items of a dropped feed, some rows at a time.
--
-- args     feed_id, limit
DELETE FROM feed_item USING (SELECT feed_id, id FROM feed_item WHERE feed_id = %s LIMIT %s) AS few
WHERE feed_item.feed_id = few.feed_id AND feed_item.id = few.id;
