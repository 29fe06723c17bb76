-- What the journals of shards hold, and which of them have calls in their inbox that have no numbers yet.
--
-- args     arrays: tenant, name, the name of its fail queue or of the queue whose fail queue it is, index of the shard
-- answers  per shard, in any order: its place among the given ones from 1, the number of shards that its queue or else
--          the other one has, shard_id, whether its inbox holds something, epoch, first seq, last seq, time of the first
--          and of the last entry, bytes; null for what is not there
SELECT
  given.place, coalesce(q.shards, main_queue.shards), s.shard_id, i.holds IS NOT NULL,
  s.epoch, s.first_seq, s.seq, s.oldest_at_ms, s.at_ms, s.journal_bytes
FROM unnest(%s::text[], %s::text[], %s::text[], %s::integer[])
  WITH ORDINALITY AS given (tenant, name, main_queue, index, place)
LEFT JOIN queue AS q ON q.tenant = given.tenant AND q.name = given.name
LEFT JOIN queue AS main_queue ON main_queue.tenant = given.tenant AND main_queue.name = given.main_queue
LEFT JOIN shard AS s ON s.queue_id = q.queue_id AND s.index = given.index
LEFT JOIN LATERAL (SELECT true AS holds FROM inbox WHERE inbox.shard_id = s.shard_id LIMIT 1) AS i ON true;
