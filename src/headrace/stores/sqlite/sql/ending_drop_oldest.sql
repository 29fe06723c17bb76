-- Drop the oldest unpinned endings of a shard; there must be as many.
--
-- args     1 lowest key, 2 highest key, 3 how many less one
-- answers  the state of each
DELETE FROM ending WHERE ending_id BETWEEN ?1 AND (
  SELECT ending_id FROM ending WHERE ending_id BETWEEN ?1 AND ?2 ORDER BY ending_id LIMIT 1 OFFSET ?3) RETURNING state;
