-- Write dead letters.
--
-- args     shard_id, arrays: number, id, until_ms, body
INSERT INTO dead_letter (shard_id, number, id, until_ms, body)
SELECT %s::bigint, * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bytea[]);
