-- Read items of a sorted feed, and which items stand beside each.
--
-- args     feed_id, ids
-- answers  id, rank, at_ms and item of each that is there; id, rank and at_ms of the one before and of the one behind it
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
