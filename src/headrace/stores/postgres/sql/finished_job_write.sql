-- Insert finished jobs; an id that has one is a unique violation.
--
-- args     shard_id, arrays: id, state, pinned, until_ms, body, result
INSERT INTO finished_job (shard_id, id, state, pinned, until_ms, body, result)
SELECT %s::bigint, * FROM unnest(%s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bytea[], %s::bytea[]);
