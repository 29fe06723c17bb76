-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM letter WHERE letter_id IN (SELECT letter_id FROM letter WHERE shard_id = ? LIMIT ?);
