-- The oldest entries of a shard, without their lines.
--
-- args     shard_id, first seq, limit
SELECT last_seq, at_ms, octet_length(lines)
FROM journal WHERE shard_id = %s AND last_seq >= %s ORDER BY last_seq LIMIT %s;
