-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM dead_letter WHERE dead_letter_id IN (SELECT dead_letter_id FROM dead_letter WHERE shard_id = ? LIMIT ?);
