-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM letter USING (SELECT shard_id, number FROM letter WHERE shard_id = %s LIMIT %s) AS few
WHERE letter.shard_id = few.shard_id AND letter.number = few.number;
