-- Append entries to the journal.
--
-- args     shard_id, arrays: last_seq, epoch, at_ms, count, worker, lines
INSERT INTO journal (shard_id, last_seq, epoch, at_ms, count, worker, lines)
SELECT %s::bigint, * FROM unnest(
  %s::bigint[], %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::bytea[]);
