-- Lock the rows of shards that nobody has locked, for whoever numbers their inboxes.
--
-- args     shard_ids
-- answers  per shard, in any order: shard_id, queue_id, config, the journal's counters, the counts
SELECT
  s.shard_id, s.queue_id, q.config, s.epoch, s.seq, s.at_ms, s.first_seq, s.journal_bytes, s.oldest_at_ms, s.ready,
  s.later, s.blocked, s.active, s.done, s.cancelled, s.dead, s.unpinned
FROM shard AS s JOIN queue AS q ON q.queue_id = s.queue_id
WHERE s.shard_id = ANY (%s::bigint[]) FOR UPDATE OF s SKIP LOCKED;
