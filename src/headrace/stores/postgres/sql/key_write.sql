-- Insert keys; a known one is a unique violation.
--
-- args     shard_id, arrays: id, key, fingerprint, until_ms
INSERT INTO key (shard_id, id, key, fingerprint, until_ms)
SELECT %s::bigint, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]);
