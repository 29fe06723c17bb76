-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM dead_letter USING (SELECT shard_id, number FROM dead_letter WHERE shard_id = %s LIMIT %s) AS few
WHERE dead_letter.shard_id = few.shard_id AND dead_letter.number = few.number;
