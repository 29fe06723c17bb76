-- Drop the oldest unpinned endings of a shard; there must be as many.
--
-- args     lowest key, highest key and how many less one, by name
-- answers  the state of each
DELETE FROM ending WHERE ending_id BETWEEN :lowest AND (
  SELECT ending_id FROM ending WHERE ending_id BETWEEN :lowest AND :highest ORDER BY ending_id LIMIT 1 OFFSET :others)
RETURNING state;
