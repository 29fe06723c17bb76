-- Insert a job under each of some ids, only to be dropped again; a known id is a unique violation.
--
-- args     shard_id, ids
INSERT INTO job (shard_id, id, run_at_ms, body, payload)
SELECT %s::bigint, id, 0, '', '' FROM unnest(%s::text[]) AS id;
