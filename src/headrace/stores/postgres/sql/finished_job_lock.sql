-- Lock the finished jobs of a batch of ids, by id.
--
-- args     shard_id, ids
-- answers  id, state and pinned of each
SELECT id, state, pinned FROM finished_job WHERE shard_id = %s AND id = ANY (%s::text[]) ORDER BY id FOR UPDATE;
